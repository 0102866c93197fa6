"""Seed and index → a random sequence that is the same on every machine; text → the split it belongs to. Shared by all generators."""

import zlib
from typing import Literal

Split = Literal["train", "valid", "test"]
_PARTS: dict[int, Split] = {0: "test", 1: "valid"}
_MASK = (1 << 64) - 1


def mix(seed: int, index: int) -> int:
    """Two numbers → 64 well-mixed bits (the finalizer of splitmix64), the same on every platform."""
    z = (seed * 0x9E3779B97F4A7C15 + (index + 1) * 0xD1B54A32D192ED03) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def part_of(text: str) -> Split:
    """The split a text belongs to, by a hash of the text: 1 in 16 is for testing, 1 in 16 for validation.

    So no training problem equals a held-out one, whatever the seeds, without comparing them.
    """
    return _PARTS.get(zlib.crc32(text.encode()) % 16, "train")
