"""run.json files → rows: one method on one benchmark, pooled over its seeds, with an interval for both kinds of chance.

    results/STUDY/study.json                 the order of the rows, and what was varied; written by `ruplar study`
    results/STUDY/LABEL-seedN/run.json       one run; `samples.jsonl.gz` beside it holds every answer

Accuracy is the mean over seeds. Its 95 % interval covers the chance of the questions and, from two seeds on, that of the
seeds (`evaluate/stats.py`: `over_seeds`); where questions share a scenario, its questions' part is that of scenarios
(`report/marks.py`). Partial runs (`RunRecord.partial`) never enter.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ruplar import plugins
from ruplar.errors import UserError
from ruplar.evaluate.record import RECORD, STUDY, BenchmarkResult, RunRecord, differences, read_record
from ruplar.evaluate.stats import over_seeds
from ruplar.report.outcomes import in_groups

log = logging.getLogger(__name__)

Key = tuple[str, str, str, str]
"""Study, method, backbone, benchmark."""


@dataclass(frozen=True)
class Run:
    """One result where it was found.

    Attributes:
        folder: Holds run.json and maybe samples.jsonl.gz and metrics.jsonl.
        record: The whole run.
        result: One of its benchmarks.
    """

    folder: Path
    record: RunRecord
    result: BenchmarkResult


@dataclass(frozen=True)
class Row:
    """One method on one benchmark; means where several runs are pooled, percent where a share is.

    Attributes:
        study: "" outside a study.
        method: The row's label in its study, else the run's name.
        latents: Soft tokens, or reasoning tokens of a text method: the paper's #L.
        train_seconds: None for a model that was only evaluated; so is `peak_gb`, the most memory held in training.
        groups: Scenarios that the questions are about; None where each has its own, or the domain knows no scenarios.
        runs: What was pooled, in the order of the seeds; not part of the JSON.
    """

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
    forwards: float
    ms_per_question: float
    train_seconds: float | None
    peak_gb: float | None
    groups: int | None = None
    runs: tuple[Run, ...] = field(default=(), repr=False, compare=False)

    @property
    def acc_per_latent(self) -> float | None:
        """The paper's Acc/#L; None without latents."""
        return self.accuracy / self.latents if self.latents else None

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON; exactly `FIELDS`."""
        return {name: getattr(self, name) for name in FIELDS} | {"seeds": list(self.seeds)}


FIELDS = tuple(f.name for f in fields(Row) if f.name not in ("groups", "runs"))
"""What a row of the JSON holds, in order."""


def collect(paths: str | Path | Iterable[str | Path]) -> list[Row]:
    """A folder (or several, or run.json files) → the rows of its table; see `find_runs` and `pool`."""
    return pool(find_runs([paths] if isinstance(paths, str | Path) else paths))


def find_runs(paths: Iterable[str | Path], drafts: bool = False) -> list[Run]:
    """Every finished result at these paths: a run.json, or a folder and everything below it.

    Args:
        paths: Where to look.
        drafts: Take partial runs too, for a page that says so on top; never for a table of results.

    Raises:
        UserError: A run.json named by itself is partial, one cannot be read, or there is nothing to put in a table.
    """
    found, left_out = [], []
    for path in map(Path, paths):
        if not path.exists():
            raise UserError(f"{path}: no such file or folder.")
        for file in _in_order(path) if path.is_dir() else [path]:
            record = read_record(file)
            why = ("" if drafts else "; ".join(record.partial)) or (
                "" if record.benchmarks else "no benchmark was asked of it"
            )
            if why and file == path:
                raise UserError(f"{file} cannot enter a table: {why}.")
            if why:
                left_out.append(f"{file}: {why}.")
            found += [] if why else [Run(file.parent, record, result) for result in record.benchmarks]
    if not found and left_out:
        raise UserError(
            *left_out[:10],
            *([f"and {len(left_out) - 10} more"] if len(left_out) > 10 else []),
            where="these runs: none may enter a table",
        )
    if not found:
        raise UserError("no run was found there; a run leaves a run.json in its folder.")
    for reason in left_out:
        log.warning("left out of the table: %s", reason)
    return found


def study_of(folder: str | Path) -> dict[str, Any]:
    """What `ruplar study` wrote of the plan beside its runs: name, rows, grid, on, reference …; {} where there is none."""
    file = Path(folder) / STUDY
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def _in_order(folder: Path) -> list[Path]:
    """The run.json files below a folder: by path, but those of a study in the order of its rows."""
    places: dict[Path, dict[str, int]] = {}

    def key(file: Path) -> tuple[str, int, str]:
        home = file.parent.parent
        if home not in places:
            places[home] = {label: i for i, label in enumerate(study_of(home).get("rows", {}))}
        label = file.parent.name.rpartition("-seed")[0]
        return str(home), places[home].get(label, len(places[home])), str(file)

    return sorted(folder.rglob(RECORD), key=key)


def pool(runs: Iterable[Run], drafts: bool = False) -> list[Row]:
    """Results → one row per study, method, backbone and benchmark, in the order in which they come; drafts if asked for.

    Raises:
        UserError: Runs of one name differ in more than their seed, repeat a seed, or were asked different questions.
    """
    groups: dict[Key, list[Run]] = {}
    for run in runs:
        if run.record.partial and not drafts:
            raise UserError(f"run '{run.record.name}' cannot enter a table: {'; '.join(run.record.partial)}.")
        groups.setdefault(_key(run), []).append(run)
    return [_pooled(key, sorted(group, key=lambda r: r.record.seed)) for key, group in groups.items()]


def _key(run: Run) -> Key:
    record, result = run.record, run.result
    backbone = str(record.config.get("backbone", {}).get("name", "")).rstrip("/").rpartition("/")[2]
    how = [label for label in [_label(record)] if label.lower() not in record.name.lower()]
    how += [] if result.decoding == "greedy" else [result.decoding]
    how += ["lenient grading"] if result.lenient else []
    return record.study, record.name + (f" ({', '.join(how)})" if how else ""), backbone, result.name


def _label(record: RunRecord) -> str:
    """What the run's method insists on being called (ReGuLaR-T, CoLaR-2), whatever the run's name; "" for most."""
    section = record.config.get("method", {})
    settings = section.get("settings", {key: value for key, value in section.items() if key != "name"})
    try:
        return plugins.make("methods", section.get("name", ""), settings).label
    except (UserError, ValidationError):  # a method from elsewhere, or of a later version
        return ""


def _pooled(key: Key, runs: Sequence[Run]) -> Row:
    _alike(key, runs)
    results = [run.result for run in runs]
    n = results[0].n
    grouped = in_groups([(run.folder, run.record, run.result) for run in runs])
    accuracy, (low, high) = over_seeds([r.correct / n for r in results], n, grouped=grouped)
    return Row(
        *key,
        seeds=tuple(sorted({run.record.seed for run in runs})),
        n=n,
        accuracy=100 * accuracy,
        low=100 * low,
        high=100 * high,
        latents=_mean(r.latents for r in results) or 0.0,
        forwards=_mean(r.forwards for r in results) or 0.0,
        ms_per_question=_mean(r.ms_per_question for r in results) or 0.0,
        train_seconds=_mean(run.record.train_seconds for run in runs),
        peak_gb=_mean(run.record.peak_gb for run in runs),
        groups=None if grouped is None else grouped.groups,
        runs=tuple(runs),
    )


def _alike(key: Key, runs: Sequence[Run]) -> None:
    """Refuses what must not be pooled."""
    place = f"{key[1]} on {key[3]}"
    first = runs[0]
    for other in runs[1:]:
        differing = differences(first.record.config, other.record.config)
        if differing:
            raise UserError(
                f"{place}: runs of one name differ in {', '.join(differing)}. "
                "Give them different names (name=…) or studies."
            )
        if other.result.n != first.result.n:
            raise UserError(f"{place}: one run was asked {first.result.n:,} questions and another {other.result.n:,}.")
    seeds = [(run.record.seed, run.result.seed) for run in runs]
    twice = next((seed for seed in seeds if seeds.count(seed) > 1), None)
    if twice is not None:
        raise UserError(f"{place}: two runs have seed {twice[0]}; the same run twice is not a second seed.")
    of = [run.record.mean_of for run in runs]
    if len({len(seeds) for seeds in of}) > 1:
        raise UserError(
            f"{place}: means of different numbers of trainings, or a mean and a training, are not one row."
        )
    members = [(seed, run.result.seed) for run in runs for seed in run.record.mean_of]
    shared = next((member[0] for member in members if members.count(member) > 1), None)
    if shared is not None:
        raise UserError(f"{place}: two means have the training of seed {shared} in common, so they are not two draws.")


def _mean(values: Iterable[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known else None
