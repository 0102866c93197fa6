"""Folders → everything a page and its figures are made from: rows, thoughts, training curves, ablations, bench records.

run.json, samples.jsonl.gz, metrics.jsonl   a run          (`ruplar train`, `evaluate`, `study`)
ablation.json                               an ablation    (`ruplar ablate --json`, `study`)
any other *.json with `what` and `shape`    a bench record (`ruplar bench … --json`)

The steps of a thought come from the sample or, for older samples without steps, from the chain that a text method wrote for the
same question. Soft tokens are matched with steps only where there are equally many.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from ruplar.domains.base import Domain
from ruplar.errors import UserError
from ruplar.evaluate.record import ABLATION, RECORD, STUDY, RunRecord, read_ablation, read_record
from ruplar.evaluate.samples import OUTCOMES, SAMPLES, read_samples
from ruplar.report.rows import Row, Run, domain_of, find_runs, method_of, pool
from ruplar.train import METRICS
from ruplar.types import Latent

log = logging.getLogger(__name__)


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
    """Everything found in some folders; `records` has also runs without a benchmark."""

    rows: list[Row] = field(default_factory=list)
    records: list[RunRecord] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    # benchmark, with the run's name in a study → one row per mode
    ablations: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    benches: list[dict[str, Any]] = field(default_factory=list)
    # reason why a run may not enter a table → the runs it applies to; empty when all may
    drafts: dict[str, list[str]] = field(default_factory=dict)


def gather(paths: Iterable[str | Path], drafts: bool = False) -> Material:
    """Read everything below these paths."""
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
    _read_others([file for file in files if file.name not in (RECORD, STUDY, OUTCOMES)], found, drafts)
    if any(record.benchmarks for record in found.records) or (runs and not found.benches and not found.ablations):
        run_places = [place for place in places if place.is_dir() or place.name == RECORD]
        found.rows.extend(pool(find_runs(run_places, drafts), drafts))
    if not (found.rows or found.benches or found.ablations):
        raise UserError("nothing to report: no run.json, no ablation.json, no bench record.")
    return found


def _files(place: Path) -> list[Path]:
    return sorted(place.rglob("*.json")) if place.is_dir() else [place]


def _read_others(files: Sequence[Path], found: Material, drafts: bool) -> None:
    for file in files:
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise UserError(f"{file}: not JSON ({error}).") from error
        if file.name == ABLATION:
            _add_ablation(file, isinstance(content, dict) and "on" in content, found, drafts)
        elif isinstance(content, dict) and {"what", "shape", "device"} <= content.keys():
            if content.get("dirty") and not drafts:
                log.warning("%s is left out: the code had uncommitted changes.", file)
                continue
            if content.get("dirty"):
                found.drafts.setdefault("the code had uncommitted changes", []).append(file.name)
            found.benches.append(content)


def _add_ablation(file: Path, study: bool, found: Material, drafts: bool) -> None:
    """Add what `ruplar ablate --json` printed, or a study's, beside its run.json; of a study's seeds only the first is drawn."""
    ablation, beside = read_ablation(file), file.parent / RECORD
    if not study:
        found.ablations.update(ablation)
        return
    record = read_record(beside) if beside.is_file() else None
    if record is None or (record.partial and not drafts):
        log.warning("%s is left out: %s.", file, "; ".join(record.partial) if record else "no run.json beside it")
        return
    for name, rows in ablation.items():
        found.ablations.setdefault(f"{record.name} on {name}", rows)


def _lines(file: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    except ValueError as error:
        raise UserError(f"{file}: has a line that is not JSON ({error}).") from error


# --- thoughts: the soft tokens of a question beside the written steps they replace ---------------------------------


@dataclass(frozen=True)
class Thought:
    """One question, its soft tokens and its answer."""

    question: str
    latents: tuple[Latent, ...]
    answer: str
    marked: str  # the right answer
    correct: bool
    steps: tuple[str, ...] = ()  # the written steps; empty when unknown
    # the result of each latent's step (None where a step has none); None when steps and latents are not one to one
    results: tuple[str | None, ...] | None = None
    chain: str = ""  # the chain a text method wrote for the same question; "" when unknown
    cost: tuple[int, int | None] = (0, None)  # forward passes of this answer and, when known, of that chain's


def thoughts(
    samples: Sequence[Mapping[str, Any]], domain: Domain, written: Sequence[Mapping[str, Any]] = ()
) -> list[Thought]:
    """Convert samples with soft tokens to thoughts, in order."""
    chains = {(row["benchmark"], row["question"]): row for row in written if row.get("thought")}
    return [
        _thought(row, domain, chains.get((row["benchmark"], row["question"]))) for row in samples if row.get("latents")
    ]


def _thought(row: Mapping[str, Any], domain: Domain, text: Mapping[str, Any] | None) -> Thought:
    latents = tuple(Latent(tuple(z["tokens"]), tuple(z["probs"]), z["entropy"], z["halt"]) for z in row["latents"])
    chain = text["thought"] if text else ""
    # a wrong text chain is not the step a soft token should hold
    steps = tuple(row.get("steps") or (domain.split(chain) if text and text["correct"] else ()))
    matched = len(steps) == len(latents) and row.get("latents_asked_for") in (None, len(latents))
    results = tuple("".join(domain.result(step)) or None for step in steps) if matched else None
    return Thought(
        question=row["question"],
        latents=latents,
        answer=row["text"],
        marked=row["marked"],
        correct=row["correct"],
        steps=steps,
        results=results,
        chain=chain,
        cost=(row["forwards"], text["forwards"] if text else None),
    )


def pick_lengths(found: Sequence[Thought], count: int) -> list[Thought]:
    """Pick the first right thought of each length from two soft tokens on, shortest first, then the first wrong one."""
    by_length: dict[int, Thought] = {}
    for thought in found:
        if thought.correct and len(thought.latents) > 1:
            by_length.setdefault(len(thought.latents), thought)
    right = [by_length[length] for length in sorted(by_length)]
    wrong = next((t for t in found if not t.correct), None)
    chosen = right[: count - 1] if wrong else right[:count]
    return [*chosen, wrong] if wrong else chosen


def share_of_results_on_top(found: Sequence[Thought]) -> tuple[int, int]:
    """Count the soft tokens whose most likely token is their step's result, and those whose step's result is known."""
    hits = [
        z.tokens[0].strip() == result
        for t in found
        for z, result in zip(t.latents, t.results or (), strict=False)
        if result is not None
    ]
    return sum(hits), len(hits)


def best_thinker(rows: Sequence[Row]) -> Row | None:
    """Choose the row whose thoughts are shown: soft tokens on record, the paper's method, the benchmark most rows share, accuracy."""

    def rank(row: Row) -> tuple[bool, int, float]:
        beside = sum((r.study, r.benchmark) == (row.study, row.benchmark) for r in rows)
        return method_of(row) == "ruplar", beside, row.accuracy

    able = [row for row in rows if any(z.get("latents") for z in _of(row.runs[0])[:20])]
    return max(able, key=rank, default=None)


def thoughts_of(row: Row, rows: Sequence[Row]) -> list[Thought]:
    """Read a row's thoughts from its first run, each with the chain that a text method of the same study wrote, if any."""
    text = next(
        (r for r in rows if (r.study, r.benchmark) == (row.study, row.benchmark) and method_of(r) == "cot"), None
    )
    return thoughts(_of(row.runs[0]), domain_of(row.runs[0].record), _of(text.runs[0]) if text else ())


def _of(run: Run) -> list[dict[str, Any]]:
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
