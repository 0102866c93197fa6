"""Counts → the sizes that kernels and captured graphs are made for."""

from __future__ import annotations


def power_of_two(count: int) -> int:
    """The smallest power of two that holds `count`."""
    return 1 << (count - 1).bit_length()
