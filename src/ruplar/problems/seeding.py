"""Seed and index → a random sequence that is the same on every machine, and text → the part it belongs to: what generators share."""

from __future__ import annotations

import zlib
from typing import Literal

Split = Literal["train", "valid", "test"]
_PARTS: dict[int, Split] = {0: "test", 1: "valid"}
_MASK = (1 << 64) - 1


def mix(seed: int, index: int) -> int:
    """Two numbers → 64 well-stirred bits (splitmix64's finaliser), the same on every platform."""
    z = (seed * 0x9E3779B97F4A7C15 + (index + 1) * 0xD1B54A32D192ED03) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def part_of(text: str) -> Split:
    """The part a text belongs to, by itself alone: 1 in 16 is for testing, 1 in 16 for validation.

    So no training problem can ever equal a held-out one, whatever the seeds, and nothing has to be compared.
    """
    return _PARTS.get(zlib.crc32(text.encode()) % 16, "train")
