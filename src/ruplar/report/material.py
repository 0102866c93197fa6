"""Folders → everything a page or its figures are made of: rows, thoughts, training curves, ablations, bench records.

run.json, samples.jsonl.gz, metrics.jsonl   a run          (`ruplar train`, `evaluate`, `study`)
ablation.json                               an ablation    (`ruplar ablate --json`, `study`)
any other *.json with `what` and `shape`    a bench record (`ruplar bench … --json`)
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from ruplar.errors import UserError
from ruplar.evaluate.record import RECORD, SAMPLES, RunRecord, read_record, read_samples
from ruplar.report.rows import STUDY, Row, Run, find_runs, pool
from ruplar.report.thoughts import Thought, domain_of, thoughts
from ruplar.train import METRICS

log = logging.getLogger(__name__)

ABLATION = "ablation.json"


@dataclass(frozen=True)
class Curve:
    """The training of one run: its record and the rows of its metrics.jsonl."""

    record: RunRecord
    rows: list[dict[str, Any]]

    @property
    def name(self) -> str:
        """`embedded-ruplar, seed 777`."""
        return f"{self.record.name}, seed {self.record.seed}"


@dataclass(frozen=True)
class Material:
    """What was found.

    Attributes:
        rows: Of the tables, pooled over seeds.
        records: Every run, those without a benchmark too.
        curves: Of the runs trained here.
        ablations: Benchmark, with the run's name in a study → one row a mode.
        benches: Bench records.
        drafts: Why some of this may enter no table → what that holds for; empty when all may.
    """

    rows: list[Row] = field(default_factory=list)
    records: list[RunRecord] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    ablations: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    benches: list[dict[str, Any]] = field(default_factory=list)
    drafts: dict[str, list[str]] = field(default_factory=dict)


def gather(paths: Iterable[str | Path], drafts: bool = False) -> Material:
    """Everything below these paths.

    Args:
        paths: run.json files, bench records, or folders.
        drafts: Take partial runs and benches of uncommitted code too; `Material.drafts` then says why they are.

    Raises:
        UserError: A file cannot be read, or there is nothing at all.
    """
    places = [Path(path) for path in paths]
    missing = next((place for place in places if not place.exists()), None)
    if missing is not None:
        raise UserError(f"{missing}: no such file or folder.")
    files = list(dict.fromkeys(file for place in places for file in _files(place)))
    runs = [file for file in files if file.name == RECORD]
    found = Material()
    for file in runs:
        record = read_record(file)
        if record.partial and not drafts:
            continue
        found.records.append(record)
        for reason in record.partial:
            found.drafts.setdefault(reason, []).append(record.name)
        if (file.parent / METRICS).is_file():
            found.curves.append(Curve(record, _lines(file.parent / METRICS)))
    _read_others([file for file in files if file.name not in (RECORD, STUDY)], found, drafts)
    if any(record.benchmarks for record in found.records) or (runs and not found.benches and not found.ablations):
        run_places = [place for place in places if place.is_dir() or place.name == RECORD]
        found.rows.extend(pool(find_runs(run_places, drafts), drafts))
    if not (found.rows or found.benches or found.ablations):
        raise UserError("nothing to report was found there: no run.json, no ablation.json, no bench record.")
    return found


def _files(place: Path) -> list[Path]:
    return sorted(place.rglob("*.json")) if place.is_dir() else [place]


def _read_others(files: Sequence[Path], found: Material, drafts: bool) -> None:
    for file in files:
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise UserError(f"{file}: is not JSON ({error}).") from error
        if file.name == ABLATION:
            _add_ablation(file, content, found, drafts)
        elif isinstance(content, dict) and {"what", "shape", "device"} <= content.keys():
            if content.get("dirty") and not drafts:
                log.warning("%s is left out: the code had uncommitted changes.", file)
                continue
            if content.get("dirty"):
                found.drafts.setdefault("the code had uncommitted changes", []).append(file.name)
            found.benches.append(content)


def _add_ablation(file: Path, content: Any, found: Material, drafts: bool) -> None:
    """Either form: what `ruplar ablate --json` prints, benchmark → rows; or a study's, `on` and `rows`, beside its run.json.

    Of a study's seeds the first one is kept.
    """
    if not isinstance(content, dict):
        raise UserError(f"{file}: is no ablation; `ruplar ablate MODEL --json` prints one.")
    if not {"on", "rows"} <= content.keys():
        found.ablations.update(content)
        return
    beside = file.parent / RECORD
    record = read_record(beside) if beside.is_file() else None
    if record is None or (record.partial and not drafts):
        log.warning("%s is left out: %s.", file, "; ".join(record.partial) if record else "no run.json beside it")
        return
    found.ablations.setdefault(f"{record.name} on {content['on']}", content["rows"])


def _lines(file: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    except ValueError as error:
        raise UserError(f"{file}: holds a line that is not JSON ({error}).") from error


def method_of(row: Row) -> str:
    """The name of a row's method in its runs' config: `ruplar`, `cot`, …; not its label."""
    return str(row.runs[0].record.config.get("method", {}).get("name", "")) if row.runs else ""


def best_thinker(rows: Sequence[Row]) -> Row | None:
    """The row whose thoughts are shown: soft tokens on record; the paper's method, the set most methods were asked, accuracy."""

    def rank(row: Row) -> tuple[bool, int, float]:
        beside = sum((r.study, r.benchmark) == (row.study, row.benchmark) for r in rows)
        return method_of(row) == "ruplar", beside, row.accuracy

    able = [row for row in rows if any(z.get("latents") for z in _of(row.runs[0])[:20])]
    return max(able, key=rank, default=None)


def thoughts_of(row: Row, rows: Sequence[Row]) -> list[Thought]:
    """A row's thoughts, from its first run, each beside the chain a text method of the same study wrote if there is one."""
    text = next(
        (r for r in rows if (r.study, r.benchmark) == (row.study, row.benchmark) and method_of(r) == "cot"), None
    )
    return thoughts(_of(row.runs[0]), domain_of(row.runs[0].record), _of(text.runs[0]) if text else ())


def _of(run: Run) -> list[dict[str, Any]]:
    """The samples of one result; [] where the run left none."""
    wanted, how = (run.result.name, run.result.seed, run.result.lenient), run.result.decoding
    rows = _samples(run.folder)
    return [
        r
        for r in rows
        if (r["benchmark"], r["seed"], r.get("lenient", False)) == wanted and r.get("decoding", how) == how
    ]


@lru_cache(maxsize=32)
def _samples(folder: Path) -> list[dict[str, Any]]:
    return read_samples(folder) if (folder / SAMPLES).is_file() else []
