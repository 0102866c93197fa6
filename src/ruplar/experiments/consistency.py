"""Records of a study's cells → whether they were trained on the same data, from the same start.

What a file or a start holds is known only once it is read: it may have changed between two cells under the same name.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence

from ruplar.errors import UserError
from ruplar.evaluate.record import RECORD, RunRecord, read_record
from ruplar.experiments import storage as disk
from ruplar.experiments.plan import Cell

log = logging.getLogger(__name__)

_START = "start: "


def check_same_data(cell: Cell, trained: RunRecord, places: disk.Places, others: Sequence[Cell]) -> None:
    """Refuse a cell whose training or validation data has another fingerprint than that of a cell that is done."""
    mine = _marks(trained, "train ", "valid: ")
    for other, record in _done(cell, places, others):
        theirs = _marks(record, "train ", "valid: ")
        for name in sorted({*mine, *theirs}):
            if mine.get(name) != theirs.get(name):
                raise UserError(
                    f"{cell.label}, seed {cell.seed}: '{name}' is {mine.get(name)}, but {theirs.get(name)} in "
                    f"'{other.label}', seed {other.seed}. The data changed between them; train both anew."
                )


def check_same_start(cell: Cell, begins: Mapping[str, str], places: disk.Places, others: Sequence[Cell]) -> None:
    """Refuse a cell whose start has other weights than when a cell that is done began there.

    Args:
        cell: To be trained, or to be taken.
        begins: What its start holds, as `start_mark` has it.
        places: Of the study.
        others: Of the study. Those whose records do not say what their start held are told of, and let pass.
    """
    silent = []
    for other, record in _done(cell, places, others):
        theirs = _marks(record, _START)
        for name, mark in begins.items():
            folder = name.removeprefix(_START)
            if name in theirs and mark != theirs[name]:
                raise UserError(
                    f"{cell.label}, seed {cell.seed}: {folder}, where it begins, holds other weights than when "
                    f"'{other.label}', seed {other.seed}, began there. Train both from the same start."
                )
            if not theirs and record.config.get("backbone", {}).get("init") == folder:
                silent.append(f"'{other.label}', seed {other.seed}")
    if silent:
        log.warning(
            "%s, seed %d: whether it begins at the same weights as %s cannot be told; their records do not say what %s held.",
            cell.label, cell.seed, ", ".join(silent), cell.config.backbone.init,
        )  # fmt: skip


def start_of(record: RunRecord) -> dict[str, str]:
    """What a record says of the weights it began at; empty when it does not."""
    return _marks(record, _START)


def _done(cell: Cell, places: disk.Places, others: Sequence[Cell]) -> Iterator[tuple[Cell, RunRecord]]:
    for other in others:
        files = (places.run(other) / disk.TRAINED, places.result(other) / RECORD)  # a record may have been taken
        file = next((file for file in files if file.is_file()), None)
        if other.name != cell.name and file is not None:
            yield other, read_record(file)


def _marks(record: RunRecord, *kinds: str) -> dict[str, str]:
    return {name: mark for name, mark in record.data.items() if name.startswith(kinds)}
