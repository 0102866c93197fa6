"""Numbers → an array in a temporary file, for millions of rows: the system can drop its pages, so it takes no memory."""

from array import array
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np

_BLOCK = 65_536
"""Numbers that are held before they are written."""


class NumberFile:
    """Collects numbers of 8 bytes in a file: `path`, or one under $TMPDIR that goes with the array."""

    def __init__(self, path: Path | None = None, dtype: type = np.int64):
        self._file = path.open("w+b") if path is not None else TemporaryFile()  # noqa: SIM115
        self.dtype, self._held, self._written = dtype, array("q" if dtype is np.int64 else "Q"), 0

    def append(self, number: int) -> None:
        self._held.append(number)
        if len(self._held) == _BLOCK:
            self._flush()

    def __len__(self) -> int:
        return self._written + len(self._held)

    def _flush(self) -> None:
        self._file.write(self._held)
        self._written += len(self._held)
        del self._held[:]

    def done(self) -> np.ndarray:
        """Return the numbers as an array that can be written to."""
        self._flush()
        with self._file as file:
            file.flush()
            return np.memmap(file, self.dtype, "r+") if len(self) else np.zeros(0, self.dtype)


def mapped(numbers: Iterable[int], dtype: type = np.int64) -> np.ndarray:
    """Numbers → an array in a temporary file."""
    out = NumberFile(dtype=dtype)
    for number in numbers:
        out.append(number)
    return out.done()


def sorted_once(numbers: np.ndarray) -> np.ndarray:
    """Sort an array in place and return the part that has each number once."""
    numbers.sort()
    size = 0
    for start in range(0, len(numbers), _BLOCK):
        block = np.unique(numbers[start : start + _BLOCK])
        block = block[1:] if size and block[0] == numbers[size - 1] else block
        numbers[size : size + len(block)] = block
        size += len(block)
    return numbers[:size]


def repeated(numbers: np.ndarray) -> list[int]:
    """Return the places of the numbers that occur earlier too."""
    ordered = mapped(numbers, numbers.dtype.type)
    ordered.sort()
    again = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    seen, places = set[int](), []
    for start in range(0, len(numbers) if len(again) else 0, _BLOCK):
        block = numbers[start : start + _BLOCK]
        for place in np.flatnonzero(np.isin(block, again)).tolist():
            number = int(block[place])
            if number in seen:
                places.append(start + place)
            seen.add(number)
    return places
