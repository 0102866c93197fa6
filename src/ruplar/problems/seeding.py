"""Seed and index → random choices that are the same on every machine; text → the split it belongs to. Shared by all generators."""

import zlib
from collections.abc import Sequence
from random import Random
from typing import Literal, TypeVar

T = TypeVar("T")
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


def pick(rng: Random, options: Sequence[T]) -> T:
    """One of the options, each equally likely."""
    return options[int(rng.random() * len(options))]


class Redraw(Exception):
    """The numbers drawn make no valid problem; it is drawn again with the next random numbers."""


class Draws:
    """A problem being written, and its choices."""

    __slots__ = ("rng",)

    def __init__(self, rng: Random):
        self.rng = rng

    def pick(self, options: Sequence[T]) -> T:
        """One of the options, each equally likely."""
        return pick(self.rng, options)

    def between(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        if high < low:
            raise Redraw
        return low + int(self.rng.random() * (high - low + 1))
