"""Examples in a file instead of in memory: one JSON line each, and the offset of each line.

    rows –`Spool`→ a list, or beyond `KEPT` rows a temporary file whose examples are read on access

A set larger than memory is read once from its files, the Hub or an iterator; of rows in a file nothing stays in memory.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ruplar.mapped import NumberFile
from ruplar.types import Example

KEPT = 500_000
"""Rows that stay in memory, about 400 MB; the sources beyond them move to files under $TMPDIR."""
STARTS = ".starts"
"""Suffix of the file with the offset of each row."""
_FOLDERS: list[TemporaryDirectory] = []
"""Temporary folders; removed when the process ends."""


class ExampleView(Sequence, ABC):
    """A sequence of examples whose slices are lists."""

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self._one(i) for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return self._one(index % len(self))

    @abstractmethod
    def _one(self, row: int) -> Example:
        """Return one example; `row` is in range."""


@dataclass(frozen=True)
class StoredExamples(ExampleView):
    """Examples in a file, each read on access."""

    file: Path

    @cached_property
    def _text(self) -> np.ndarray:
        return np.memmap(self.file, dtype=np.uint8, mode="r") if len(self) else np.zeros(0, dtype=np.uint8)

    @cached_property
    def _starts(self) -> np.ndarray:
        return np.memmap(self.file.with_suffix(STARTS), dtype=np.int64, mode="r")

    def __reduce__(self) -> tuple[Any, ...]:
        return StoredExamples, (self.file,)  # another process maps the file again

    def __len__(self) -> int:
        return len(self._starts) - 1

    def _one(self, row: int) -> Example:
        return _example(self._text[self._starts[row] : self._starts[row + 1]].tobytes())

    def __iter__(self) -> Iterator[Example]:
        with self.file.open("rb") as lines:
            yield from map(_example, lines)


def _example(line: bytes) -> Example:
    question, steps, *rest = json.loads(line)
    return Example(question, tuple(steps), *rest)


class Writer:
    """Writes examples to a file that `StoredExamples` reads."""

    def __init__(self, file: Path):
        self.file, self._out, self._end = file, file.open("wb"), 0
        self._starts = NumberFile(file.with_suffix(STARTS))
        self._starts.append(0)

    def append(self, example: Example) -> None:
        self._end += self._out.write(json.dumps(astuple(example)).encode() + b"\n")
        self._starts.append(self._end)

    def __len__(self) -> int:
        return len(self._starts) - 1

    def done(self) -> StoredExamples:
        self._out.close()
        self._starts.done()
        return StoredExamples(self.file)


def to_file(examples: Iterable[Example]) -> Writer:
    """Write examples to a temporary file; more can be appended."""
    _FOLDERS.append(TemporaryDirectory(prefix="ruplar-"))
    writer = Writer(Path(_FOLDERS[-1].name) / "rows.jsonl")
    for example in examples:
        writer.append(example)
    return writer


class Spool:
    """Collects examples in memory, and moves them to a temporary file once there are more than `KEPT`."""

    def __init__(self, examples: Iterable[Example] = ()):
        self._rows: list[Example] | Writer = []
        for example in examples:
            self.append(example)

    def __len__(self) -> int:
        return len(self._rows)

    def append(self, example: Example) -> None:
        if isinstance(self._rows, list) and len(self._rows) >= KEPT:
            self._rows = to_file(self._rows)
        self._rows.append(example)

    def done(self) -> Sequence[Example]:
        """Return the examples: a list, or a view of the file."""
        return self._rows if isinstance(self._rows, list) else self._rows.done()
