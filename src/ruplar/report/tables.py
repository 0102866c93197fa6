"""run.json files → rows → Markdown, CSV and JSON; and the block of a page that holds such a table, made anew.

Runs that differ only in their seed become one row: the mean over seeds, with the wider of two 95 % intervals, the one
over seeds (Student's t) and the one over questions (Wilson). So neither few seeds nor few questions look like certainty.
Partial runs (`RunRecord.partial`) never enter.
"""

from __future__ import annotations

import csv
import io
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ruplar.errors import UserError
from ruplar.evaluate.record import RECORD, BenchmarkResult, RunRecord, read_record
from ruplar.evaluate.stats import mean_over_seeds, wilson

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TableRow:
    """One method on one benchmark, pooled over seeds; means where several runs are pooled, percent where a share is."""

    study: str
    method: str
    backbone: str
    benchmark: str
    seeds: tuple[int, ...]
    n: int
    accuracy: float
    low: float
    high: float
    latents: float
    acc_per_latent: float | None
    forwards: float
    ms_per_question: float
    train_seconds: float | None
    peak_gb: float | None

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {**asdict(self), "seeds": list(self.seeds)}


def collect_rows(paths: Iterable[str | Path]) -> list[TableRow]:
    """run.json files, or folders that hold them → the rows of a table; see `collect` and `rows`."""
    return rows(collect(paths))


def collect(paths: Iterable[str | Path]) -> list[RunRecord]:
    """The records at these paths: a run.json, or a folder and everything below it.

    Raises:
        UserError: A run.json named by itself is partial, one cannot be read, or none is found.
    """
    records = []
    for path in map(Path, paths):
        files = sorted(path.rglob(RECORD)) if path.is_dir() else [path]
        for file in files:
            record = read_record(file)
            if not record.partial:
                records.append(record)
            elif file == path:
                raise UserError(f"{file} cannot enter a table: {'; '.join(record.partial)}.")
            else:
                log.warning("%s is left out of the table: %s.", file, "; ".join(record.partial))
    if not records:
        raise UserError("no finished run was found there; a run leaves a run.json in its folder.")
    return records


def rows(records: Iterable[RunRecord]) -> list[TableRow]:
    """Records → one row per study, method, backbone and benchmark, in the order in which they come.

    Raises:
        UserError: Runs of one name differ in more than their seed, repeat a seed, or were asked different questions.
    """
    groups: dict[tuple[str, str, str, str], list[tuple[RunRecord, BenchmarkResult]]] = {}
    for record in records:
        if record.partial:
            raise UserError(f"run '{record.name}' cannot enter a table: {'; '.join(record.partial)}.")
        for result in record.benchmarks:
            label = record.name if result.decoding == "greedy" else f"{record.name} ({result.decoding})"
            groups.setdefault((record.study, label, _backbone(record), result.name), []).append((record, result))
    return [_pooled(key, runs) for key, runs in groups.items()]


def _backbone(record: RunRecord) -> str:
    return str(record.config.get("backbone", {}).get("name", "")).rstrip("/").rpartition("/")[2]


def _pooled(key: tuple[str, str, str, str], runs: Sequence[tuple[RunRecord, BenchmarkResult]]) -> TableRow:
    _alike(key, runs)
    results = [result for _, result in runs]
    n = results[0].n
    accuracy, low, high = mean_over_seeds([r.accuracy for r in results])
    over_questions = wilson(accuracy / 100 * n, n)
    latents = _mean(r.latents for r in results) or 0.0
    return TableRow(
        *key,
        seeds=tuple(sorted({record.seed for record, _ in runs})),
        n=n,
        accuracy=accuracy,
        low=max(0.0, min(100 * over_questions.low, accuracy if low is None else low)),
        high=min(100.0, max(100 * over_questions.high, accuracy if high is None else high)),
        latents=latents,
        acc_per_latent=accuracy / latents if latents else None,
        forwards=_mean(r.forwards for r in results) or 0.0,
        ms_per_question=_mean(r.ms_per_question for r in results) or 0.0,
        train_seconds=_mean(record.train_seconds for record, _ in runs),
        peak_gb=_mean(record.peak_gb for record, _ in runs),
    )


def _alike(key: tuple[str, str, str, str], runs: Sequence[tuple[RunRecord, BenchmarkResult]]) -> None:
    """Refuses what must not be pooled."""
    place = f"{key[1]} on {key[3]}"
    first, result = runs[0]
    for other, again in runs[1:]:
        differing = _differing(first.config, other.config)
        if differing:
            raise UserError(
                f"{place}: runs of one name differ in {', '.join(differing)}. Give them different names (name=…) or studies."
            )
        if again.n != result.n:
            raise UserError(f"{place}: one run was asked {result.n:,} questions and another {again.n:,}.")
    seeds = [(record.seed, found.seed) for record, found in runs]
    twice = next((seed for seed in seeds if seeds.count(seed) > 1), None)
    if twice is not None:
        raise UserError(f"{place}: two runs have seed {twice[0]}; the same run twice is not a second seed.")


def _differing(first: Mapping[str, Any], second: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Dotted names of the settings in which two configs differ, the run's seed apart."""
    found = []
    for key in sorted({*first, *second}):
        a, b, name = first.get(key), second.get(key), f"{prefix}{key}"
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            found += _differing(a, b, f"{name}.")
        elif a != b and name != "seed":
            found.append(name)
    return found


def _mean(values: Iterable[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known else None


def to_json(table: Sequence[TableRow]) -> str:
    """Rows as a JSON list."""
    return json.dumps([row.as_dict() for row in table], indent=2, ensure_ascii=False) + "\n"


def to_csv(table: Sequence[TableRow]) -> str:
    """Rows as CSV with a heading; seeds are joined by spaces, what is unknown is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(f.name for f in fields(TableRow))
    for row in table:
        values = {**asdict(row), "seeds": " ".join(map(str, row.seeds))}
        writer.writerow("" if v is None else v for v in values.values())
    return out.getvalue()


def to_markdown(table: Sequence[TableRow]) -> str:
    """Rows as a Markdown table for people; a study's column only where there are studies."""
    cells = [_cells(row) for row in table]
    names = [name for name in (cells[0] if cells else {}) if name != "study" or any(c["study"] for c in cells)]
    left = {"study", "method", "backbone", "benchmark"}
    lines = [
        names,
        ["---" if name in left else "---:" for name in names],
        *([c[name] for name in names] for c in cells),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _cells(row: TableRow) -> dict[str, str]:
    return {
        "study": row.study,
        "method": row.method,
        "backbone": row.backbone,
        "benchmark": row.benchmark,
        "n": f"{row.n:,}",
        "seeds": str(len(row.seeds)),
        "accuracy % [95 %]": f"{row.accuracy:.1f} [{row.low:.1f}, {row.high:.1f}]",
        "#L": f"{row.latents:.2f}",
        "Acc/#L": "–" if row.acc_per_latent is None else f"{row.acc_per_latent:.1f}",
        "forwards": f"{row.forwards:.1f}",
        "ms a question": f"{row.ms_per_question:.3g}",
        "training": "–" if row.train_seconds is None else _time(row.train_seconds),
        "peak GB": "–" if row.peak_gb is None else f"{row.peak_gb:.2f}",
    }


def _time(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{seconds:.0f} s" if seconds < 120 else f"{minutes} min" if minutes < 120 else f"{seconds / 3600:.1f} h"


def replace_block(text: str, marker: str, table: str) -> str:
    """The page with what stands between `<!-- results:MARKER -->` and `<!-- /results:MARKER -->` made anew.

    Raises:
        UserError: The page does not have each of the two lines once, in this order.
    """
    start, end = f"<!-- results:{marker} -->", f"<!-- /results:{marker} -->"
    if text.count(start) != 1 or text.count(end) != 1 or text.index(start) > text.index(end):
        raise UserError(f"the page must hold {start} and, below it, {end}, once each; the table goes between them.")
    before, rest = text.split(start)
    return f"{before}{start}\n{table.strip()}\n{end}{rest.split(end)[1]}"
