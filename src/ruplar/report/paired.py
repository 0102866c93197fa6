"""Rows of one study → who is ahead of whom, question by question: difference, interval, p-value, Holm's correction.

Both methods of a pair answered the same questions, so what counts is where they differ. With one seed each this is
McNemar's exact test. With several, a difference must be large against the chance of the questions *and* that of the
seeds: a t test whose variance has both parts, as in studies of readers × cases (Obuchowski and Rockette; Hillis).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ruplar.errors import UserError, unknown
from ruplar.evaluate.record import SAMPLES, read_samples
from ruplar.evaluate.stats import mcnemar, paired_difference, t_quantile, t_test
from ruplar.report.rows import Row, study_of

MCNEMAR, QUESTIONS, BOTH = "McNemar, questions", "t, questions", "t, seeds and questions"
SHARED = "t, seeds and questions, same models"
"""What a p-value covers. With one seed the chance of training is not in it."""

Marks = np.ndarray
"""[S, Q] of 0 and 1: right or wrong, a row a seed, a column a question."""


class Difference(NamedTuple):
    """First minus second as a share, its 95 % interval, the p-value of no difference, and the test's name."""

    mean: float
    low: float
    high: float
    p: float
    test: str


@dataclass(frozen=True)
class Pair:
    """One row against another on one benchmark; `difference`, `low` and `high` in points, `holm` is p corrected."""

    study: str
    backbone: str
    benchmark: str
    method: str
    against: str
    n: int
    difference: float
    low: float
    high: float
    p: float
    holm: float
    test: str

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def pairs(rows: Sequence[Row], against: str | None = None) -> list[Pair]:
    """Every row against the best of its study, backbone and benchmark, or against the one named.

    The best has the highest accuracy; of equals, the one with fewer forwards. A benchmark on which the named row was
    not asked is left out.

    Raises:
        UserError: No row has that name, or what is needed for pairing (samples, the same questions) is not there.
    """
    if against is not None and against not in {row.method for row in rows}:
        raise UserError(unknown("row", against, {row.method for row in rows}))
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.study, row.backbone, row.benchmark), []).append(row)
    found = []
    for group in groups.values():
        named = [row for row in group if row.method == against]
        if against is not None and not named:
            continue
        reference = named[0] if named else min(group, key=lambda row: (-row.accuracy, row.forwards))
        found += _family(reference, [row for row in group if row is not reference])
    return found


def _family(reference: Row, others: Sequence[Row]) -> list[Pair]:
    """One reference against the rest; p-values are corrected for how many they are."""
    found = []
    for row in others:
        first, second = marks(row), marks(reference)
        if first.keys() != second.keys():
            raise UserError(
                f"{row.benchmark}: '{row.method}' and '{reference.method}' were asked different questions, so they "
                "cannot be compared one by one."
            )
        shared = _model_of(row) == _model_of(reference) and row.seeds == reference.seeds
        d = difference(_matrix(first), _matrix({question: second[question] for question in first}), shared=shared)
        found.append(
            Pair(
                row.study,
                row.backbone,
                row.benchmark,
                row.method,
                reference.method,
                row.n,
                100 * d.mean,
                100 * d.low,
                100 * d.high,
                d.p,
                d.p,
                d.test,
            )  # fmt: skip
        )
    corrected = holm([pair.p for pair in found])
    return [replace(pair, holm=p) for pair, p in zip(found, corrected, strict=True)]


def _model_of(row: Row) -> str:
    """The row of its study whose models it asks: its own, or the one it names."""
    rows = study_of(row.runs[0].folder.parent).get("rows", {}) if row.runs else {}
    return next((one["of"] for one in rows.values() if one.get("label") == row.method and one.get("of")), row.method)


def marks(row: Row) -> dict[tuple[int, str], list[bool]]:
    """Question, by place and words → right or wrong, one a run, read from the runs' samples."""
    found: dict[tuple[int, str], list[bool]] = {}
    for run in row.runs:
        file = run.folder / SAMPLES
        known = _samples(run.folder, file.stat().st_mtime_ns if file.is_file() else None)
        asked = run.result.name, run.result.seed, run.result.lenient
        # rows of older runs do not say how they were decoded; they were decoded in one way
        of_run = known.get((*asked, run.result.decoding)) or known.get((*asked, "")) or {}
        if len(of_run) != run.result.n:
            raise UserError(
                f"{run.folder}: {SAMPLES} holds {len(of_run):,} of the {run.result.n:,} answers on {run.result.name}; "
                "without them methods cannot be compared question by question. Evaluate again, or leave --tests out."
            )
        for question, right in of_run.items():
            found.setdefault(question, []).append(right)
    uneven = [question for question, right in found.items() if len(right) != len(row.runs)]
    if uneven:
        raise UserError(
            f"'{row.method}' on {row.benchmark}: its seeds were asked different questions ({uneven[0][1]!r})."
        )
    return found


@lru_cache(maxsize=256)
def _samples(folder: Path, written: int | None) -> Mapping[tuple[str, int, bool, str], dict[tuple[int, str], bool]]:
    """(Benchmark, seed of the decoding, lenient, decoding) → question → right or wrong; {} where none were `written`."""
    found: dict[tuple[str, int, bool, str], dict[tuple[int, str], bool]] = {}
    for row in () if written is None else read_samples(folder):
        key = row["benchmark"], row["seed"], row.get("lenient", False), row.get("decoding", "")
        found.setdefault(key, {})[row["index"], row["question"]] = bool(row["correct"])
    return found


def _matrix(found: Mapping[Any, Sequence[bool]]) -> Marks:
    return np.array(list(found.values()), dtype=float).T


def difference(first: Marks, second: Marks, level: float = 0.95, shared: bool = False) -> Difference:
    """Two methods on the same questions → first minus second; the methods may have different numbers of seeds.

    With S seeds and Q questions each, the variance of the difference is that of its mean over questions, var(d) / Q,
    plus var(accuracy) / S of each method's seeds, less the part that would be counted in both, the scatter of single
    answers. Degrees of freedom are Welch's over the seeds' parts. Where both ask the same models in another way, a seed's
    luck is in both and cancels: the seeds' part is that of the differences.

    Args:
        first: [S1, Q].
        second: [S2, Q].
        level: Confidence of the interval.
        shared: Whether row s of both was answered by one model.
    """
    if first.shape[1] != second.shape[1]:
        raise ValueError(f"paired marks must be of the same questions, got {first.shape[1]} and {second.shape[1]}")
    by_question = first.mean(0) - second.mean(0)
    mean, count = float(by_question.mean()), by_question.size
    if len(first) == len(second) == 1:
        _, low, high = paired_difference(first[0].tolist(), second[0].tolist(), level=level)
        p = mcnemar(first[0].astype(bool).tolist(), second[0].astype(bool).tolist())
        return Difference(mean, mean if low is None else low, mean if high is None else high, p, MCNEMAR)
    several = len(first) > 1 and len(second) > 1
    vary = [first - second] if shared else [first, second]
    of_seeds = [float(m.mean(1).var(ddof=1)) / len(m) for m in vary] if several else [0.0]
    single = sum(_scatter(m) for m in vary) if several else 0.0
    of_questions = float(by_question.var(ddof=1)) / count if count > 1 else 0.0
    whole = sum(of_seeds) + max(of_questions - single, 0.0)
    test = (SHARED if shared else BOTH) if several else QUESTIONS
    if whole == 0:  # every question says the same; then the signs alone are the evidence
        return Difference(mean, mean, mean, 1.0 if mean == 0 else 2.0 ** (1 - count), test)
    parts = sum(v**2 / (len(m) - 1) for v, m in zip(of_seeds, vary, strict=True)) if several else 0.0
    freedom = whole**2 / parts if parts else math.inf
    half = t_quantile(freedom, level) * math.sqrt(whole)
    p = t_test(mean / math.sqrt(whole), freedom)
    return Difference(mean, max(-1.0, mean - half), min(1.0, mean + half), p, test)


def _scatter(marks: Marks) -> float:
    """Variance of a method's mean that comes from single answers: neither its question's nor its seed's doing."""
    seeds, questions = marks.shape
    if seeds < 2 or questions < 2:
        return 0.0
    rest = marks - marks.mean(0, keepdims=True) - marks.mean(1, keepdims=True) + marks.mean()
    return float((rest**2).sum()) / ((seeds - 1) * (questions - 1)) / (seeds * questions)


def holm(values: Sequence[float]) -> list[float]:
    """p-values → Holm's corrected ones, in the same order: the chance of any false alarm among them is kept."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    found, largest = [0.0] * len(values), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(values) - rank) * values[i]))
        found[i] = largest
    return found
