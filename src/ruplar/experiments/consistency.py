"""A cell and the finished cells of its study → whether all were trained on the same data, from the same start.

Content is compared by fingerprint: a file or a start may change between two cells under the same name.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence

from ruplar.errors import UserError
from ruplar.evaluate.record import RECORD, RunRecord, read_record
from ruplar.experiments import storage
from ruplar.experiments.plan import Cell
from ruplar.experiments.storage import Places

log = logging.getLogger(__name__)

_START = "start: "


def check_same_data(cell: Cell, trained: RunRecord, places: Places, others: Sequence[Cell]) -> None:
    """Refuse a cell whose training or validation data differs in its fingerprint from that of a finished cell."""
    mine = _marks(trained, "train ", "valid: ")
    for other, record in _finished(cell, places, others):
        theirs = _marks(record, "train ", "valid: ")
        for name in sorted({*mine, *theirs}):
            if mine.get(name) != theirs.get(name):
                raise UserError(
                    f"{cell.label}, seed {cell.seed}: '{name}' is {mine.get(name)}, but {theirs.get(name)} in "
                    f"'{other.label}', seed {other.seed}. The data changed in between; train both again."
                )


def check_same_start(cell: Cell, begins: Mapping[str, str], places: Places, others: Sequence[Cell]) -> None:
    """Refuse a cell whose start has other weights than when a finished cell started from it."""
    unknown = []
    for other, record in _finished(cell, places, others):
        theirs = _marks(record, _START)
        for name, mark in begins.items():
            folder = name.removeprefix(_START)
            if name in theirs and mark != theirs[name]:
                raise UserError(
                    f"{cell.label}, seed {cell.seed}: its start {folder} has other weights now than when '{other.label}', "
                    f"seed {other.seed}, was trained. Train both from the same start."
                )
            if not theirs and record.config.get("backbone", {}).get("init") == folder:
                unknown.append(f"'{other.label}', seed {other.seed}")
    if unknown:
        log.warning(
            "%s, seed %d: cannot check that it starts from the same weights as %s; their records have no fingerprint of %s.",
            cell.label, cell.seed, ", ".join(unknown), cell.config.backbone.init,
        )  # fmt: skip


def start_of(record: RunRecord) -> dict[str, str]:
    """Return the fingerprint of the weights a run started from; empty when its record has none."""
    return _marks(record, _START)


def _finished(cell: Cell, places: Places, others: Sequence[Cell]) -> Iterator[tuple[Cell, RunRecord]]:
    for other in others:
        files = (places.run(other) / storage.TRAINED, places.result(other) / RECORD)  # models may have been deleted
        file = next((file for file in files if file.is_file()), None)
        if other.name != cell.name and file is not None:
            yield other, read_record(file)


def _marks(record: RunRecord, *kinds: str) -> dict[str, str]:
    return {name: mark for name, mark in record.data.items() if name.startswith(kinds)}
