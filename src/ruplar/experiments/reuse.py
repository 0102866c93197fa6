"""Records of the studies beside one → a cell's own: what was trained and asked the same way is not done again.

RESULTS/OTHER/study.json     how its questions were asked, and which of its rows ask another row's model
RESULTS/OTHER/CELL/          run.json, samples.jsonl.gz, metrics.jsonl: copied, run.json last
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from ruplar.config.run import DomainConfig
from ruplar.data.sources import SourceConfig, Split, open_source
from ruplar.errors import UserError
from ruplar.evaluate.record import RECORD, RunRecord, commit_of, read_record, read_samples, write_record, write_samples
from ruplar.experiments.plan import VALID, Cell, Study, folder_name
from ruplar.experiments.storage import GREEDY, TRAINED, Places, asked_all, asking, asks_plainly
from ruplar.report.rows import STUDY, differences
from ruplar.train import METRICS

log = logging.getLogger(__name__)


def asked_elsewhere(
    cell: Cell, places: Places, study: Study, others: Sequence[Cell], data_dir: Path | None = None
) -> Path | None:
    """A cell's record in another study beside this one that says all this one's would: trained and asked the same way.

    It is taken as it is, with the commit and versions it was made by, as the records of a study that is gone on with are;
    one of changed code only by changed code, since no table takes it. A study that also ablates asks for itself, and so
    does a cell whose model is here, or that asks a mean.

    Args:
        cell: Of the study.
        places: Where its records and models lie.
        study: What is asked, and how.
        others: All cells of the study: of a cell that asks another's model, that one must have been trained alike too.
        data_dir: Folder with the files of known sets.
    """
    if study.ablate is not None or cell.mean or (places.model_of(cell) / TRAINED).is_file():
        return None
    base = next((other for other in others if (other.label, other.seed) == (cell.of, cell.seed)), None)
    for beside in sorted(file.parent for file in places.results.parent.glob(f"*/{STUDY}")):
        about = _about(beside)
        if beside == places.results or about.get("asking") != asking(study):
            continue
        for name, row in about["rows"].items():
            # trained under these settings is not asked under them; a mean has the settings of what it is of
            if (row["of"] is None) != (cell.of is None) or row.get("mean"):
                continue
            folder = beside / f"{name}-seed{cell.seed}"
            if not _made_alike(folder, cell, study):
                continue
            if base is not None and _alike(beside / folder_name(row["of"], cell.seed), base) is None:
                continue
            if _asked_alike(folder, cell, study, data_dir):
                return folder
    return None


def take_record(source: Path, cell: Cell, places: Places, study: Study) -> RunRecord:
    """Copy a record and all that goes with it, less what this study does not ask; run.json comes last."""
    folder, names = places.result(cell), {one.name for one in study.on}
    folder.mkdir(parents=True, exist_ok=True)
    if (source / METRICS).is_file():
        shutil.copyfile(source / METRICS, folder / METRICS)
    write_samples((row for row in _plain_rows(source) if row["benchmark"] in names), folder, share=True)
    record = read_record(source)
    about = {"name": cell.label, "study": study.name, "overrides": list(cell.overrides)}
    asked = [result for result in record.benchmarks if result.name in names and asks_plainly(result)]
    record = record.model_copy(update={**about, "benchmarks": asked})
    write_record(record, folder)
    return record


def _about(folder: Path) -> dict[str, Any]:
    """What a folder's study.json says; {} for one of something else, or a damaged one: nothing to take."""
    try:
        found = json.loads((folder / STUDY).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        log.info("%s: passed over, it cannot be read (%s).", folder / STUDY, error)
        return {}
    return found if isinstance(found, dict) else {}


def _alike(folder: Path, cell: Cell) -> RunRecord | None:
    """The record there, when it was made under a cell's settings and seed."""
    if not (folder / RECORD).is_file():
        return None
    try:
        record = read_record(folder)
    except (OSError, UserError) as error:  # another study's trouble, or another version's record: nothing to take
        log.info("%s: passed over, not a record this version reads (%s).", folder, error)
        return None
    same = record.seed == cell.seed and not differences(record.config, cell.config.as_dict())
    return record if same and not record.mean_of else None


def _made_alike(folder: Path, cell: Cell, study: Study) -> bool:
    """Whether a record there is of this cell, with all this study asks, and fit for this study's table."""
    record = _alike(folder, cell)
    if record is None or not record.finished or not asked_all(record, study):
        return False
    return not record.dirty or bool(commit_of()[1])


def _asked_alike(folder: Path, cell: Cell, study: Study, data_dir: Path | None) -> bool:
    """Whether the very questions of this study were asked: a benchmark's name says neither its seed nor its file."""
    asked: dict[str, list[tuple[str, str]]] = {}
    try:
        for row in _plain_rows(folder):
            asked.setdefault(row["benchmark"], []).append((row["question"], row["marked"]))
        return all(asked.get(source.name) == _questions(*_asked_of(source, cell), data_dir) for source in study.on)
    except (OSError, UserError) as error:
        log.info("%s: passed over, what was asked there cannot be compared (%s).", folder, error)
        return False


def _plain_rows(folder: Path) -> list[dict[str, Any]]:
    """The samples of a study's own asking; others may have been added since. Rows of older runs do not say how."""
    rows = read_samples(folder)
    return [row for row in rows if row.get("decoding", GREEDY) == GREEDY and not row.get("lenient", False)]


def _asked_of(source: SourceConfig, cell: Cell) -> tuple[SourceConfig, DomainConfig, Split]:
    data = cell.config.data
    return (
        (data.valid, data.domain, "valid") if source.source == VALID and data.valid else (source, data.domain, "test")
    )


@lru_cache(maxsize=16)
def _questions(
    source: SourceConfig, domain: DomainConfig, split: Split, data_dir: Path | None
) -> list[tuple[str, str]]:
    """What is asked and marked; once a process, for a study's cells are asked the same."""
    opened = open_source(source, domain.make(), need_steps=False, data_dir=data_dir, split=split)
    return [(example.question, example.answer) for example in opened.examples]
