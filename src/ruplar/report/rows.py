"""run.json files → rows: one method on one benchmark, pooled over its seeds, with a 95 % confidence interval.

    results/STUDY/study.json                 order of the rows and what was varied; written by `ruplar study`
    results/STUDY/LABEL-seedN/run.json       one run, beside its samples.jsonl.gz or outcomes.json

Accuracy is the mean over seeds, that is, trainings; several decodings of one training are averaged first. Its interval covers
the variance of the questions and, from two seeds on, that of the seeds (`evaluate/stats.py`: `over_seeds`). Questions that
share a scenario (`domain.scenario`: the text before the question proper) are not independent: BIG-bench's Date Understanding has nine per scenario. Their variance is clustered by scenario, which is
read from the questions. Partial runs (`RunRecord.partial`) never enter.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ruplar import plugins
from ruplar.errors import UserError
from ruplar.evaluate.record import GREEDY, RECORD, BenchmarkResult, RunRecord, differences, read_record, study_of
from ruplar.evaluate.samples import OUTCOMES, SAMPLES, Outcomes, read_outcomes
from ruplar.evaluate.stats import Grouped, clustered_variance, over_seeds
from ruplar.report.table import NONE

log = logging.getLogger(__name__)

SHOWN = 10
PLACE = ("study", "method", "backbone")
"""What identifies a row on a benchmark."""

Key = tuple[str, str, str, str]
"""Study, method, backbone, benchmark."""
Labels = Mapping[str, str]
"""Method of a study → the method it is compared with."""
Question = tuple[int, str]
"""Index and text."""


@dataclass(frozen=True)
class Run:
    """One result of one run, and the run's folder."""

    folder: Path
    record: RunRecord
    result: BenchmarkResult


@dataclass(frozen=True)
class Row:
    """One method on one benchmark; means over the pooled runs, accuracies in percent."""

    study: str  # "" outside a study
    method: str  # the row's label in its study, else the run's name
    backbone: str
    benchmark: str
    seeds: tuple[int, ...]
    n: int
    accuracy: float
    low: float
    high: float
    latents: float  # soft tokens, or reasoning tokens of a text method: the paper's #L
    forwards: float
    ms_per_question: float
    # None for a model that was only evaluated; so is `peak_gb`, the peak memory of training
    train_seconds: float | None
    peak_gb: float | None
    groups: int | None = None  # number of scenarios; None where every question has its own, or the domain defines none
    # the pooled runs, in order of their seeds; not part of the JSON
    runs: tuple[Run, ...] = field(default=(), repr=False, compare=False)

    def as_dict(self) -> dict[str, Any]:
        """Convert to plain data for JSON, with exactly the keys `FIELDS`."""
        return {name: getattr(self, name) for name in FIELDS} | {"seeds": list(self.seeds)}


FIELDS = tuple(f.name for f in fields(Row) if f.name not in ("groups", "runs"))
"""Keys of a row in JSON, in order."""


def apart(rows: Iterable[Any]) -> tuple[str, ...]:
    """Columns that tell rows, or pairs of them, apart: the method, and the study and the backbone where there are several."""
    rows = list(rows)
    several = (len({getattr(row, name) for row in rows}) > 1 for name in PLACE)
    return tuple(name for name, more in zip(PLACE, several, strict=True) if more or name == "method")


def place_of(row: Any, names: Sequence[str] = PLACE) -> tuple[str, ...]:
    """Cells of a row in columns of `apart`."""
    return tuple(getattr(row, name) or NONE for name in names)


def method_of(row: Row) -> str:
    """The name of a row's method in its runs' config (`ruplar`, `cot`, …), not its label; "" where there is no run."""
    return str(row.runs[0].record.config.get("method", {}).get("name", "")) if row.runs else ""


def collect(paths: str | Path | Iterable[str | Path]) -> list[Row]:
    """Read a folder (or several, or run.json files) → rows; see `find_runs` and `pool`."""
    return pool(find_runs([paths] if isinstance(paths, str | Path) else paths))


def find_runs(paths: Iterable[str | Path], drafts: bool = False) -> list[Run]:
    """Find every finished result at these paths: run.json files, or folders and everything below them."""
    found, left_out = [], []
    for path in map(Path, paths):
        if not path.exists():
            raise UserError(f"{path}: no such file or folder.")
        for file in _in_order(path) if path.is_dir() else [path]:
            record = read_record(file)
            why = "" if drafts else "; ".join(record.partial)
            why = why or ("" if record.benchmarks else "it has no benchmark result")
            if why and file == path:
                raise UserError(f"{file} cannot be in a table: {why}.")
            if why:
                left_out.append(f"{file}: {why}.")
            found += [] if why else [Run(file.parent, record, result) for result in record.benchmarks]
    if not found and left_out:
        more = [f"and {len(left_out) - SHOWN} more"] if len(left_out) > SHOWN else []
        raise UserError(*left_out[:SHOWN], *more, where="these runs, so no table; `--page FILE --drafts` shows them")
    if not found:
        raise UserError("no run found: no run.json in these folders.")
    for reason in left_out:
        log.warning("left out of the table: %s", reason)
    return found


def _in_order(folder: Path) -> list[Path]:
    """List the run.json files below a folder by path, those of a study in the order of its rows."""
    places: dict[Path, dict[str, int]] = {}

    def key(file: Path) -> tuple[str, int, str]:
        home = file.parent.parent
        if home not in places:
            places[home] = {label: i for i, label in enumerate(study_of(home).get("rows", {}))}
        label = file.parent.name.rpartition("-seed")[0]
        return str(home), places[home].get(label, len(places[home])), str(file)

    return sorted(folder.rglob(RECORD), key=key)


def pool(runs: Iterable[Run], drafts: bool = False) -> list[Row]:
    """Pool results over seeds → one row per study, method, backbone and benchmark, in order of appearance.

    Runs outside a study are pooled only with runs beside them: the same name in two folders is two rows.
    """
    groups: dict[tuple[Key, Path | None], list[Run]] = {}
    for run in runs:
        if run.record.partial and not drafts:
            raise UserError(f"run '{run.record.name}' cannot be in a table: {'; '.join(run.record.partial)}.")
        home = None if run.record.study else run.folder.resolve().parent
        groups.setdefault((_key(run), home), []).append(run)
    return [_pooled(key, sorted(group, key=lambda r: r.record.seed)) for (key, _), group in groups.items()]


def _key(run: Run) -> Key:
    record, result = run.record, run.result
    backbone = str(record.config.get("backbone", {}).get("name", "")).rstrip("/").rpartition("/")[2]
    how = [label for label in [_label(record)] if label.lower() not in record.name.lower()]
    return record.study, with_how(record.name, result, how), backbone, result.name


def with_how(name: str, result: BenchmarkResult, how: Sequence[str] = ()) -> str:
    """Add to a name what differs from greedy decoding and strict grading, behind what `how` already says."""
    how = [*how, *([] if result.decoding == GREEDY else [result.decoding])]
    how += ["lenient grading"] if result.lenient else []
    return name + (f" ({', '.join(how)})" if how else "")


def references(rows: Iterable[Row]) -> dict[str, Labels]:
    """Find what the rows of each study are compared with: the reference that a row names, else its study's; study → labels."""
    found: dict[str, Labels] = {}
    for study, run in {row.study: row.runs[0] for row in rows if row.study and row.runs}.items():
        about = study_of(run.folder.parent)
        own = {row["label"]: row["reference"] for row in about.get("rows", {}).values() if row.get("reference")}
        present = {row.method for row in rows if row.study == study}
        labels = {label: own.get(label, about.get("reference")) for label in present}
        if known := {label: of for label, of in labels.items() if of in present}:
            found[study] = known
    return found


def by_benchmark(rows: Iterable[Row]) -> list[list[Row]]:
    """Group rows by study, backbone and benchmark, in order of appearance."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.study, row.backbone, row.benchmark), []).append(row)
    return list(groups.values())


def _label(record: RunRecord) -> str:
    """The name that the run's method requires in tables whatever the run is called (ReGuLaR-T, CoLaR-2); "" for most."""
    try:
        return plugins.make("methods", *of_section(record.config.get("method", {}))).label
    except (UserError, ValidationError):  # a plug-in that is not installed, or of another version
        return ""


def _pooled(key: Key, runs: Sequence[Run]) -> Row:
    _check_poolable(key, runs)
    results = [run.result for run in runs]
    n, grouped = results[0].n, _grouped(runs)
    accuracy, (low, high) = over_seeds(shares(runs), n, grouped=grouped)
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


def _check_poolable(key: Key, runs: Sequence[Run]) -> None:
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
            raise UserError(f"{place}: one run has {first.result.n:,} questions and another {other.result.n:,}.")
    seeds = [(run.record.seed, run.result.seed) for run in runs]
    twice = next((seed for seed in seeds if seeds.count(seed) > 1), None)
    if twice is not None:
        raise UserError(f"{place}: two runs have seed {twice[0]}; the same run twice is not a second seed.")
    if len({len(run.record.mean_of) for run in runs}) > 1:
        raise UserError(f"{place}: soups of different numbers of seeds, or a soup and one training, are not one row.")
    members = [(seed, run.result.seed) for run in runs for seed in run.record.mean_of]
    shared = next((member[0] for member in members if members.count(member) > 1), None)
    if shared is not None:
        raise UserError(f"{place}: two soups share the training of seed {shared}, so they are not independent.")


def _mean(values: Iterable[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known else None


def outcomes_of(run: Run) -> Outcomes:
    """Read right or wrong per question of one result."""
    known, result = read_outcomes(run.folder), run.result
    # rows of older runs do not name their decoding; there was one per run
    found = known.get(result.key) or known.get((*result.key[:-1], "")) or {}
    if len(found) != result.n:
        raise UserError(
            f"{run.folder}: {SAMPLES} or {OUTCOMES} has {len(found):,} of the {result.n:,} answers on {result.name}; "
            "paired tests need all of them. Evaluate again, or use --no-tests."
        )
    return found


def trainings(runs: Iterable[Run]) -> list[list[Run]]:
    """Group runs, in order of their seeds, by training: those of one seed are decodings of one model."""
    return [list(same) for _, same in groupby(runs, key=lambda run: run.record.seed)]


def shares(runs: Iterable[Run]) -> list[float]:
    """Compute the share of right answers of each training."""
    return [sum(run.result.correct / run.result.n for run in same) / len(same) for same in trainings(runs)]


def marks(runs: Sequence[Run]) -> dict[Question, list[float]]:
    """Collect the share of right answers per question, one of each training: 0 or 1 unless it has several decodings."""
    each = [[outcomes_of(run) for run in same] for same in trainings(runs)]
    asked = each[0][0]
    uneven = [question for same in each for one in same for question in asked.keys() ^ one.keys()]
    if uneven:
        raise UserError(
            f"'{runs[0].record.name}' on {runs[0].result.name}: its runs answered different questions ({uneven[0][1]!r})."
        )
    return {question: [sum(one[question] for one in same) / len(same) for same in each] for question in asked}


def of_section(raw: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Split a plug-in's section, of a recipe (settings beside the name) or a model (below it), into name and settings."""
    settings = raw.get("settings", {key: value for key, value in raw.items() if key != "name"})
    return str(raw.get("name", "")), dict(settings)


def groups_of(record: RunRecord, questions: Iterable[Question]) -> list[int] | None:
    """Number each question's scenario from 0 on; None where every question has its own, or no scenario is known."""
    scenario = _scenario(record)
    if scenario is None:
        return None
    numbers: dict[str, int] = {}
    # a question with no text before it shares nothing with another
    groups = [numbers.setdefault(scenario(text) or text, len(numbers)) for _, text in questions]
    return groups if len(numbers) < len(groups) else None


def _grouped(runs: Sequence[Run]) -> Grouped | None:
    """Average the seeds' clustered variances of a row and count its scenarios; None where no scenario is shared."""
    if any(_scenario(run.record) is None for run in runs):
        return None
    try:
        found = marks(runs)
    except UserError as error:
        log.warning("%s The interval on %s treats the questions as independent.", error, runs[0].result.name)
        return None
    groups = groups_of(runs[0].record, found)
    if groups is None:
        return None
    count = max(groups) + 1
    variances = [clustered_variance(one, groups) if count > 1 else 0.0 for one in zip(*found.values(), strict=True)]
    return Grouped(sum(variances) / len(variances), count)


def _scenario(record: RunRecord) -> Callable[[str], str] | None:
    """The function that extracts a question's scenario in a run's domain; None where there is none."""
    named = record.config.get("domain") or record.config.get("data", {}).get("domain")
    if not named:  # records of older runs
        return None
    try:
        return getattr(plugins.make("domains", *of_section(named)), "scenario", None)
    except (UserError, ValidationError):  # a plug-in that is not installed, or of another version
        _warn_unknown(str(named["name"]))
        return None


@lru_cache(maxsize=256)
def _warn_unknown(domain: str) -> None:
    log.warning("domain '%s' cannot be loaded, so its questions are treated as independent.", domain)
