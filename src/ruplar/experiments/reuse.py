"""Records of other cells → whether they agree with this one's data and start, and which of them can be reused for it.

RESULTS/OTHER/study.json     how its questions were evaluated, and which rows evaluate another row's model
RESULTS/OTHER/CELL/          run.json, samples.jsonl.gz, metrics.jsonl: copied, run.json last

Content is compared by fingerprint: a file or a start may change between two cells under the same name.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from ruplar.config.run import DomainConfig
from ruplar.data.sources import SourceConfig, Split, open_source
from ruplar.errors import UserError
from ruplar.evaluate.record import (
    GREEDY,
    RECORD,
    STUDY,
    RunRecord,
    commit_of,
    read_record,
    read_samples,
    write_record,
    write_samples,
)  # fmt: skip
from ruplar.experiments import storage
from ruplar.experiments.plan import Cell
from ruplar.experiments.storage import Places
from ruplar.experiments.study import VALID, Study, folder_name
from ruplar.train import METRICS

log = logging.getLogger(__name__)

_START = "start: "


# --- consistency: the same data and start in all cells of a study --------------------------------------------------


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
        files = (places.run(other) / storage.TRAINED, places.result(other) / RECORD)  # a reused record has no training
        file = next((file for file in files if file.is_file()), None)
        if other.name != cell.name and file is not None:
            yield other, read_record(file)


def _marks(record: RunRecord, *kinds: str) -> dict[str, str]:
    return {name: mark for name, mark in record.data.items() if name.startswith(kinds)}


# --- reuse: records of other studies -------------------------------------------------------------------------------


def find_record(
    cell: Cell, places: Places, study: Study, others: Sequence[Cell], data_dir: Path | None = None
) -> Path | None:
    """Return the record of a cell in another study that was trained and evaluated exactly as this cell would be.

    It is reused with the commit and versions that made it. A record of uncommitted code is reused only by uncommitted code. A
    study with an ablation evaluates for itself, as does a cell whose model is here, or a soup.
    """
    if study.ablate is not None or cell.soup or (places.model_of(cell) / storage.TRAINED).is_file():
        return None
    base = next((other for other in others if (other.label, other.seed) == (cell.of, cell.seed)), None)
    for beside in sorted(file.parent for file in places.results.parent.glob(f"*/{STUDY}")):
        about = _read_study(beside)
        if beside == places.results or about.get("asking") != storage.evaluation_settings(study):
            continue
        for name, row in about["rows"].items():
            # a row that evaluates another's model has settings that nothing was trained with; so has a soup
            if (row["of"] is None) != (cell.of is None) or row.get("mean"):
                continue
            folder = beside / f"{name}-seed{cell.seed}"
            if not _complete(folder, cell, study):
                continue
            if base is not None and _matching(beside / folder_name(row["of"], cell.seed), base) is None:
                continue
            if _same_questions(folder, cell, study, data_dir):
                return folder
    return None


def copy_record(source: Path, cell: Cell, places: Places, study: Study) -> RunRecord:
    """Copy a record with its samples and curve, without benchmarks this study does not have; run.json comes last."""
    folder, names = places.result(cell), {one.name for one in study.on}
    folder.mkdir(parents=True, exist_ok=True)
    if (source / METRICS).is_file():
        shutil.copyfile(source / METRICS, folder / METRICS)
    write_samples((row for row in _plain_samples(source) if row["benchmark"] in names), folder, share=True)
    record = read_record(source)
    about = {
        "name": cell.label,
        "study": study.name,
        "overrides": list(cell.overrides),
        "reused_from": f"{source.parent.name}/{source.name}",
        # `ruplar evaluate` may have added results with other decoding to the record
        "benchmarks": [r for r in record.benchmarks if r.name in names and r.decoding == GREEDY and not r.lenient],
    }
    record = record.model_copy(update=about)
    write_record(record, folder)
    return record


def _read_study(folder: Path) -> dict[str, Any]:
    """Return a folder's study.json; {} when it is damaged or of something else, so that nothing is reused."""
    try:
        found = json.loads((folder / STUDY).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        log.info("%s: skipped, it cannot be read (%s).", folder / STUDY, error)
        return {}
    return found if isinstance(found, dict) else {}


def _matching(folder: Path, cell: Cell) -> RunRecord | None:
    """Return the record there if it was made with a cell's settings and seed."""
    if not (folder / RECORD).is_file():
        return None
    try:
        record = read_record(folder)
    except (OSError, UserError) as error:  # damaged, or of another version
        log.info("%s: skipped, this version cannot read the record (%s).", folder, error)
        return None
    return record if storage.trained_like(record, cell) else None


def _complete(folder: Path, cell: Cell, study: Study) -> bool:
    """Return whether a record there is of this cell, has all benchmarks, and may enter this study's table."""
    record = _matching(folder, cell)
    if record is None or not record.finished or not storage.evaluated_all(record, study):
        return False
    return not record.dirty or bool(commit_of()[1])


def _same_questions(folder: Path, cell: Cell, study: Study, data_dir: Path | None) -> bool:
    """Return whether the questions are exactly those of this study: a benchmark's name gives neither seed nor file."""
    questions: dict[str, list[tuple[str, str]]] = {}
    try:
        for row in _plain_samples(folder):
            questions.setdefault(row["benchmark"], []).append((row["question"], row["marked"]))
        return all(
            questions.get(source.name) == _questions(*_source_of(source, cell), data_dir) for source in study.on
        )
    except (OSError, UserError) as error:
        log.info("%s: skipped, its questions cannot be compared (%s).", folder, error)
        return False


def _plain_samples(folder: Path) -> list[dict[str, Any]]:
    """Return the samples of a study's own evaluation. Samples of older runs have neither field."""
    rows = read_samples(folder)
    return [row for row in rows if row.get("decoding", GREEDY) == GREEDY and not row.get("lenient", False)]


def _source_of(source: SourceConfig, cell: Cell) -> tuple[SourceConfig, DomainConfig, Split]:
    data = cell.config.data
    return (
        (data.valid, data.domain, "valid") if source.source == VALID and data.valid else (source, data.domain, "test")
    )


@lru_cache(maxsize=16)
def _questions(
    source: SourceConfig, domain: DomainConfig, split: Split, data_dir: Path | None
) -> list[tuple[str, str]]:
    """Return questions and reference answers; read once per process, since all cells share them."""
    loaded = open_source(source, domain.make(), need_steps=False, data_dir=data_dir, split=split)
    return [(example.question, example.answer) for example in loaded.examples]
