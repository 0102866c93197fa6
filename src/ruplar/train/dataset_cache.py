"""The recipe's data section → training data, opened once and kept in files, so that the next run need not open it again.

FOLDER/<key>/train.jsonl, train.npy, valid.jsonl, valid.npy     a row a line, and where each begins
FOLDER/<key>/about.json                                         fingerprints, and what was left out

Chains that are told again with other numbers, or held against test sets, take a minute or two to open; a study opens them
for every cell. The key names the section, the content of every file it reads and the code that reads them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ruplar.config import DataSettings
from ruplar.data import scenarios
from ruplar.data.cache import is_complete, key_of, lock, source_of, write_complete
from ruplar.data.locations import locate
from ruplar.domains.base import Domain
from ruplar.fingerprints import fingerprint
from ruplar.train.dataset import TrainingData, open_data
from ruplar.types import Example

log = logging.getLogger(__name__)


def load_section(section: DataSettings, domain: Domain, need_steps: bool) -> TrainingData:
    """Open every source of a recipe's data section."""
    return open_data(
        section.train,
        section.valid,
        domain,
        need_steps=need_steps,
        skip_bad=section.skip_bad,
        reorder_operands=section.canonical_operands,
        exclude_valid=section.exclude_valid,
        decontaminate=section.decontaminate,
    )


def load_cached(section: DataSettings, domain: Domain, need_steps: bool, folder: Path) -> TrainingData:
    """The same, from the folder where an earlier run has left it; opened and left there otherwise.

    Only what takes long to open is kept; see `place_of`.
    """
    place = place_of(section, domain, need_steps, folder)
    if place is None:
        return load_section(section, domain, need_steps)
    if not is_complete(place):  # else nothing is written, not even a lock: the folder may be another's
        with lock(place):
            if not is_complete(place):
                data = load_section(section, domain, need_steps)
                with write_complete(place) as draft:
                    _write(data, draft)
                log.info("%s: %d chains kept.", place, len(data.train))
    return _read(place)


def place_of(section: DataSettings, domain: Domain, need_steps: bool, folder: Path) -> Path | None:
    """Where a section's data is kept, there or not; None where it is opened every time.

    That is what opens in moments, and sets of the Hub: what they hold is not known before they are read.
    """
    long = bool(section.decontaminate) or any(source.augment for source in section.train)
    files = _files(section) if long else None
    if files is None:
        return None
    names = {"section": section.model_dump(mode="json"), "need_steps": need_steps, "files": files}
    return folder / key_of(names, source_of(domain))


@dataclass(frozen=True)
class CachedExamples(Sequence):
    """Examples of a file, each read when it is asked for."""

    file: Path

    @cached_property
    def _text(self) -> np.ndarray:
        return np.memmap(self.file, dtype=np.uint8, mode="r") if len(self) else np.zeros(0, dtype=np.uint8)

    @cached_property
    def _starts(self) -> np.ndarray:
        return np.load(self.file.with_suffix(".npy"))

    def __reduce__(self) -> tuple[Any, ...]:
        return CachedExamples, (self.file,)  # another process maps the file anew

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        row = index % len(self)
        question, steps, *rest = json.loads(self._text[self._starts[row] : self._starts[row + 1]].tobytes())
        return Example(question, tuple(steps), *rest)


def _files(section: DataSettings) -> dict[str, str] | None:
    """Set → hash of its file, for all that are read; None where one is not a file."""
    sources = [*section.train, *([section.valid] if section.valid else [])]
    named = [source.source for source in sources if not source.is_generated] + list(section.decontaminate)
    names = {name for one in named for name in scenarios.JOINED.get(one, (one,))}
    places = {name: locate(name).path for name in sorted(names)}
    return None if None in places.values() else {name: fingerprint(path) for name, path in places.items() if path}


def _write(data: TrainingData, folder: Path) -> None:
    for name, examples in (("train", data.train), ("valid", data.valid)):
        _write_rows(examples, folder / f"{name}.jsonl")
    about = {"fingerprints": data.fingerprints, "left_out": data.left_out}
    (folder / "about.json").write_text(json.dumps(about, indent=2), encoding="utf-8")


def _write_rows(examples: Iterable[Example], file: Path) -> None:
    starts = [0]
    with file.open("wb") as out:
        for example in examples:
            starts.append(starts[-1] + out.write(json.dumps(astuple(example)).encode() + b"\n"))
    np.save(file.with_suffix(".npy"), np.array(starts, dtype=np.int64))


def _read(folder: Path) -> TrainingData:
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    train, valid = (CachedExamples(folder / f"{name}.jsonl") for name in ("train", "valid"))
    return TrainingData(train, valid, about["fingerprints"], about["left_out"])
