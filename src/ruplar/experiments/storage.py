"""A plan's cells ↔ their folders: what is done, what is under way, what failed; safe against a kill at any moment.

RESULTS/STUDY/study.json                  the plan for readers: rows in order, what was varied
RESULTS/STUDY/CELL/run.json               written last, whole or not at all: a cell with it is done
RESULTS/STUDY/questions-*.jsonl.gz        what all cells were asked
RESULTS/STUDY/CELL/samples.jsonl.gz       every answer; metrics.jsonl the curve; ablation.json where asked for
WORK/STUDY/CELL/                          checkpoints and model (train/run.py), log.txt, failed.json
WORK/STUDY/CELL/.lock                     held by the process at work on it; the kernel lets go when that one dies
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ruplar.data.sources import SourceConfig
from ruplar.errors import UserError
from ruplar.evaluate.record import RECORD, BenchmarkResult, RunRecord, commit_of, read_record, versions
from ruplar.experiments.plan import Cell, Study, folder_name, labels
from ruplar.report.rows import STUDY, differences

log = logging.getLogger(__name__)

Status = Literal["done", "running", "failed", "trained", "begun", "waiting"]
TRAINED, FAILED, LOG = "trained.json", "failed.json", "log.txt"
GREEDY = "greedy"
"""How studies have answers decoded."""


@dataclass(frozen=True)
class Places:
    """Where a study's records and its models lie."""

    results: Path
    work: Path

    def result(self, cell: Cell) -> Path:
        """The folder of a cell's record."""
        return self.results / cell.name

    def run(self, cell: Cell) -> Path:
        """The folder a cell trains in."""
        return self.work / cell.name

    def model_of(self, cell: Cell) -> Path:
        """The folder of the run whose model a cell asks: its own, or the row's it names. A mean lies in its own."""
        return self.work / (cell.name if cell.of is None or cell.mean else folder_name(cell.of, cell.seed))


def status(cell: Cell, places: Places, study: Study) -> Status:
    """How far a cell is.

    Raises:
        UserError: What lies there was made under other settings; see `check_same_settings`.
    """
    record = recorded(cell, places)
    if record is not None and asked_all(record, study):
        return "done"
    run = places.run(cell)
    if held(cell, places):
        return "running"
    if (run / FAILED).is_file():
        return "failed"
    if (places.model_of(cell) / TRAINED).is_file():
        return "trained"
    return "begun" if any(run.glob("checkpoint-*")) else "waiting"


def recorded(cell: Cell, places: Places) -> RunRecord | None:
    """A cell's record, when there is one; refused when it is another cell's."""
    folder = places.result(cell)
    if not (folder / RECORD).is_file():
        return None
    record = read_record(folder)
    check_same_settings(cell, record.config, folder)
    check_same_mean(cell, record, folder)
    return record


def check_same_settings(cell: Cell, config: Mapping[str, Any], folder: Path) -> None:
    """Refuse to go on with, or to put into one table, what was made under other settings than those planned."""
    differing = differences(config, cell.config.as_dict())
    if config.get("seed") != cell.seed:
        differing = ["seed", *differing]
    if differing:
        first = differing[0]
        raise UserError(
            f"{folder}: was made under other settings: {first} was {_at(config, first)!r} and is now "
            f"{_at(cell.config.as_dict(), first)!r}"
            + (f" (also {', '.join(differing[1:])})" if differing[1:] else "")
            + ". Take the change back, choose another --output and --work, or remove the folder."
        )


def check_same_mean(cell: Cell, record: RunRecord, folder: Path) -> None:
    """Refuse the record of a mean of other seeds, or of one training where a mean is planned."""
    if sorted(record.mean_of) != sorted(cell.mean):
        were, are = (", ".join(map(str, seeds)) or "one training" for seeds in (record.mean_of, cell.mean))
        raise UserError(
            f"{folder}: the seeds of the mean were {were}, and are now {are}. Name those seeds, choose another --output and "
            "--work, or remove the folder."
        )


def _at(config: Any, path: str) -> Any:
    for key in path.split("."):
        config = config.get(key) if isinstance(config, Mapping) else None
    return config


def asked_all(record: RunRecord, study: Study) -> bool:
    """Whether a record holds every benchmark of the study, asked in full."""
    names = {result.name: result for result in record.benchmarks if asks_plainly(result)}
    return all(source.name in names and _as_many(names[source.name].n, source) for source in study.on)


def asks_plainly(result: BenchmarkResult) -> bool:
    """Whether it was asked as studies ask; a run may be evaluated otherwise too, into the same record."""
    return result.decoding == GREEDY and not result.lenient


def _as_many(n: int, source: SourceConfig) -> bool:
    return source.count is None or n == source.count


def trained_elsewhere(cell: Cell, places: Places, model: str) -> Path | None:
    """A cell of another study beside this one that was trained as this one would be, and still has its folder `model`.

    With the same settings and seed, that is, by the same commit on the same versions; changed code takes from changed code
    alone, so that no record says its code was as committed when it was not.
    """
    here = (*commit_of(), versions())
    for file in sorted(places.work.parent.glob(f"*/*-seed{cell.seed}/{TRAINED}")):
        if file.parent.parent == places.work or not (file.parent / model).is_dir():
            continue
        try:
            record = read_record(file)
        except UserError as error:  # another study's trouble, or another version's record: nothing to take
            log.info("%s: passed over, not a record this version reads (%s).", file, error)
            continue
        same = record.seed == cell.seed and not differences(record.config, cell.config.as_dict())
        same = same and not record.mean_of  # it has the settings of what it is the mean of
        if same and (record.commit, record.dirty, record.versions) == here:
            return file.parent
    return None


def asking(study: Study) -> dict[str, Any]:
    """What, besides the benchmarks, decides what a record says of them."""
    plain = study.model_dump(mode="json")
    return {key: plain[key] for key in ("batch_size", "engine", "latency_questions", "readable")}


def take(source: Path, run: Path, parts: Sequence[str]) -> RunRecord:
    """Copy what another cell's training left; its record comes last, so that a kill leaves a cell that is not trained."""
    for name in parts:
        if (source / name).is_dir():
            shutil.copytree(source / name, run / name, dirs_exist_ok=True)
        elif (source / name).is_file():
            shutil.copyfile(source / name, run / name)
    record = read_record(source / TRAINED)
    write_json(run / TRAINED, record.model_dump(mode="json"))
    return record


@contextmanager
def claim(cell: Cell, places: Places) -> Iterator[bool]:
    """Whether this process may work on a cell: yields False when another does."""
    run = places.run(cell)
    run.mkdir(parents=True, exist_ok=True)
    with (run / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True


def held(cell: Cell, places: Places) -> bool:
    """Whether a living process is at work on a cell."""
    lock = places.run(cell) / ".lock"
    if not lock.is_file():
        return False
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        return False


def write_failure(cell: Cell, places: Places, reason: str, session: str, again: bool = False) -> None:
    """Note why a cell failed; it is tried again when the study is started anew, or `again` in this session already."""
    at = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    about = {"reason": reason, "session": session, "at": at, "log": LOG, "again": again}
    write_json(places.run(cell) / FAILED, about)


def failure(cell: Cell, places: Places) -> dict[str, Any] | None:
    """What `write_failure` noted, None for a cell that has not failed."""
    file = places.run(cell) / FAILED
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None


def write_json(file: Path, value: Any) -> None:
    """Written whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    draft.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(draft, file)


def write_study(study: Study, cells: Sequence[Cell], places: Places) -> None:
    """`study.json`: what a report needs to know of the plan."""
    firsts = {cell.label: cell for cell in reversed(cells)}
    rows = {label: _row(study, label, firsts.get(label)) for label in labels(study)}
    about = {
        "name": study.name,
        "about": study.about,
        "seeds": list(study.seeds),
        "on": [source.name for source in study.on],
        "asking": asking(study),
        "same": list(study.same),
        "grid": sorted({*study.grid, *(key for row in study.rows.values() for key in row.grid)}),
        "reference": study.reference,
        "rows": {folder_name(label, 0).removesuffix("-seed0"): row for label, row in rows.items() if row},
        "printed": {cell.label: cell.printed for cell in cells if cell.printed},
        "not_run": study.not_run,
    }
    write_json(places.results / STUDY, about)


def _row(study: Study, label: str, cell: Cell | None) -> dict[str, Any]:
    """What `study.json` says of a row; of a mean that these seeds are too few for as well, since its record may be there."""
    if cell is not None:
        return {"label": label, "set": list(cell.overrides[:-1]), "of": cell.of, "mean": len(cell.mean)}
    row = study.rows.get(label)
    if row is None or row.mean_of is None:
        return {}
    return {"label": label, "set": [], "of": row.mean_of, "mean": row.take or len(study.seeds)}
