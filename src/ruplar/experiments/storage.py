"""Cells ↔ their folders: what is done, running or failed; safe against a kill at any moment.

RESULTS/STUDY/study.json                  the plan for readers: rows in order, what varies
RESULTS/STUDY/CELL/run.json               written last and atomically: a cell that has it is evaluated
RESULTS/questions/*.jsonl.gz              the questions, shared by all cells
RESULTS/STUDY/CELL/samples.jsonl.gz       every answer; metrics.jsonl is the curve, ablation.json the latent ablation
WORK/STUDY/CELL/                          checkpoints and model (train/run.py), log.txt, failed.json
WORK/STUDY/CELL/.lock                     held by the process that runs the cell; the kernel releases it when that dies
"""

import fcntl
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

from ruplar.config.text import at
from ruplar.errors import UserError
from ruplar.evaluate.record import GREEDY, STUDY, BenchmarkResult, RunRecord, differences, read_record, study_of
from ruplar.experiments.plan import Cell, rows_of
from ruplar.experiments.study import Study, folder_name
from ruplar.io import RECORD, TRAINED, write_json

Status = Literal["done", "running", "failed", "trained", "begun", "waiting"]
FAILED, LOG = "failed.json", "log.txt"


@dataclass(frozen=True)
class Places:
    """Where a study's records and models are."""

    results: Path
    work: Path

    def result(self, cell: Cell) -> Path:
        """Folder of a cell's record."""
        return self.results / cell.name

    def run(self, cell: Cell) -> Path:
        """Folder a cell trains in."""
        return self.work / cell.name

    def model_of(self, cell: Cell) -> Path:
        """Folder of the run whose model a cell evaluates: its own (also for a soup), or that of another row."""
        return self.work / (cell.name if cell.of is None or cell.soup else folder_name(cell.of, cell.seed))


def status(cell: Cell, places: Places, study: Study) -> Status:
    """Return how far a cell is."""
    record = recorded(cell, places)
    if record is not None and _evaluated_all(record, study):
        return "done"
    run = places.run(cell)
    if _locked(cell, places):
        return "running"
    if (run / FAILED).is_file():
        return "failed"
    if (places.model_of(cell) / TRAINED).is_file():
        return "trained"
    return "begun" if any(run.glob("checkpoint-*")) else "waiting"


def recorded(cell: Cell, places: Places) -> RunRecord | None:
    """Return a cell's record; None when there is none yet. The record of another cell is refused."""
    folder = places.result(cell)
    if not (folder / RECORD).is_file():
        return None
    record = read_record(folder)
    check_same_settings(cell, record.config, folder)
    check_same_soup(cell, record, folder)
    return record


def has_model(cell: Cell, places: Places, record: RunRecord) -> bool:
    """Return whether the model that gave a cell's record is still there."""
    trained = places.model_of(cell) / TRAINED
    return trained.is_file() and read_record(trained).started == record.started


def check_same_settings(cell: Cell, config: Mapping[str, Any], folder: Path) -> None:
    """Refuse to resume, or to put into one table, what was made with settings other than the planned ones."""
    differing = differences(config, cell.config.as_dict())
    if config.get("seed") != cell.seed:
        differing = ["seed", *differing]
    if differing:
        first = differing[0]
        raise UserError(
            f"{folder}: was made with other settings: {first} was {at(config, first)!r} and is now "
            f"{at(cell.config.as_dict(), first)!r}"
            + (f" (also {', '.join(differing[1:])})" if differing[1:] else "")
            + ". Undo the change, choose another --output and --work, or remove the folder."
        )


def check_same_soup(cell: Cell, record: RunRecord, folder: Path) -> None:
    """Refuse the record of a soup of other seeds, or of one training where a soup is planned."""
    if sorted(record.mean_of) != sorted(cell.soup):
        were, are = (", ".join(map(str, seeds)) or "one training" for seeds in (record.mean_of, cell.soup))
        raise UserError(
            f"{folder}: the seeds of the soup were {were}, and are now {are}. Use those seeds, choose another --output and "
            "--work, or remove the folder."
        )


def results_of(record: RunRecord) -> dict[str, BenchmarkResult]:
    """Return benchmark → its result with greedy decoding and strict grading."""
    return {result.name: result for result in record.benchmarks if result.decoding == GREEDY and not result.lenient}


def _evaluated_all(record: RunRecord, study: Study) -> bool:
    found = results_of(record)
    return all(source.name in found and source.count in (None, found[source.name].n) for source in study.on)


@contextmanager
def claim(cell: Cell, places: Places) -> Iterator[bool]:
    """Yield whether this process may run a cell; False when another process does."""
    run = places.run(cell)
    run.mkdir(parents=True, exist_ok=True)
    with (run / ".lock").open("w") as file:
        looks = 10  # `_locked` holds it for an instant
        while not (mine := _flock(file, fcntl.LOCK_EX)) and looks:
            time.sleep(0.02)
            looks -= 1
        yield mine


def _flock(file: IO[str], how: int) -> bool:
    """Lock a file, or return False if another process holds it."""
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _locked(cell: Cell, places: Places) -> bool:
    lock = places.run(cell) / ".lock"
    if not lock.is_file():
        return False
    with lock.open() as file:
        return not _flock(file, fcntl.LOCK_SH)


def write_failure(cell: Cell, places: Places, reason: str, session: str, **how: bool) -> None:
    """Record why a cell failed, or that it was `killed`; it is run again at the next start or, with `again`, in this session."""
    at = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    about = {"reason": reason, "session": session, "at": at, "log": LOG, "again": False, "killed": False, **how}
    write_json(places.run(cell) / FAILED, about)


def failure(cell: Cell, places: Places) -> dict[str, Any] | None:
    """Return what `write_failure` recorded, None for a cell that has not failed."""
    file = places.run(cell) / FAILED
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None


def write_study(study: Study, cells: Sequence[Cell], places: Places, frozen: Mapping[str, Any] | None = None) -> None:
    """Write `study.json`: what a report needs to know of the plan; `frozen` is kept once it was written."""
    firsts = {cell.label: cell for cell in reversed(cells)}
    rows = {label: _row(study, label, firsts.get(label)) for label in rows_of(study)}
    about = {
        "name": study.name,
        "about": study.about,
        "seeds": sorted({*study_of(places.results).get("seeds", ()), *study.seeds}),  # `--seeds` runs some of them
        "on": [source.name for source in study.on],
        "test": [source.name for source in study.test],
        "frozen": study_of(places.results).get("frozen") or frozen,
        "controls": list(study.controls),
        "grid": sorted({*study.grid, *(key for row in study.rows.values() for key in row.grid)}),
        "reference": study.reference,
        "rows": {folder_name(label, 0).removesuffix("-seed0"): row for label, row in rows.items() if row},
        "printed": {cell.label: cell.printed for cell in cells if cell.printed},
        "not_run": study.not_run,
    }
    write_json(places.results / STUDY, about)


def _row(study: Study, label: str, cell: Cell | None) -> dict[str, Any]:
    row, reference = study.rows.get(label), study.references().get(label)
    about = {"label": label, **({"reference": reference} if reference not in (None, study.reference) else {})}
    if cell is not None:
        return {**about, "set": list(cell.overrides[:-1]), "of": cell.of, "mean": len(cell.soup)}
    if row is None or row.soup_of is None:
        return {}
    return {**about, "set": [], "of": row.soup_of, "mean": row.size or len(study.seeds)}
