"""Rows of a study → paired tests: difference per question, its interval, p-value, Holm's correction.

Both methods of a pair answered the same questions. With one seed and one decoding each the test is McNemar's exact one. With
several, it is a t test whose variance has a part for the questions and one for the seeds, as in multi-reader multi-case studies
(Obuchowski and Rockette; Hillis). Where questions share scenarios, the questions' part is clustered by scenario, with one seed too.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ruplar.errors import UserError, unknown
from ruplar.evaluate.record import study_of
from ruplar.evaluate.stats import clustered_variance, mcnemar, paired_difference, t_quantile, t_test
from ruplar.report.rows import Labels, Row, by_benchmark, groups_of, marks

Marks = np.ndarray
"""[S, Q] of shares of right answers, one row per seed, one column per question; 0 and 1 where a seed has one decoding."""


@dataclass(frozen=True)
class Pair:
    """One row against another on one benchmark; `difference`, `low` and `high` in points, `holm` is the corrected p.

    `groups` counts the scenarios that questions share; None where every question has its own.
    """

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
    groups: int | None = None


def pairs(rows: Sequence[Row], against: str | Labels | None = None) -> list[Pair]:
    """Test every row against the best of its study, backbone and benchmark, against the named row, or against its own reference.

    The best has the highest accuracy; of equals, the one with fewer forward passes. Holm's correction is over all rows of a benchmark.
    """
    if isinstance(against, str) and against not in {row.method for row in rows}:
        raise UserError(unknown("row", against, {row.method for row in rows}))
    found = []
    for group in by_benchmark(rows):
        named = {row.method: row for row in group}
        best = min(group, key=lambda row: (-row.accuracy, row.forwards)).method
        labels = against if isinstance(against, Mapping) else dict.fromkeys(named, against or best)
        compared = [(row, named.get(labels.get(row.method, ""))) for row in group]
        found += _family([(row, of) for row, of in compared if of is not None and of.method != row.method])
    return found


def _family(compared: Sequence[tuple[Row, Row]]) -> list[Pair]:
    found = []
    for row, reference in compared:
        ours, theirs, shared, groups = _aligned(row, reference)
        d = difference(ours, theirs, shared=shared, groups=groups)
        place = row.study, row.backbone, row.benchmark, row.method, reference.method, row.n
        count = None if groups is None else max(groups) + 1
        found.append(Pair(*place, 100 * d.mean, 100 * d.low, 100 * d.high, d.p, d.p, d.test, count))
    corrected = holm([pair.p for pair in found])
    return [replace(pair, holm=p) for pair, p in zip(found, corrected, strict=True)]


def _aligned(row: Row, reference: Row) -> tuple[Marks, Marks, bool, list[int] | None]:
    """Return the marks of both rows in the same order of questions, whether they share models, and the scenarios."""
    first, second = marks(row.runs), marks(reference.runs)
    if first.keys() != second.keys():
        raise UserError(
            f"{row.benchmark}: '{row.method}' and '{reference.method}' answered different questions, so they "
            "cannot be paired."
        )
    same_study = (row.study, row.seeds) == (reference.study, reference.seeds)
    shared = same_study and _model_of(row) == _model_of(reference)
    groups = groups_of(row.runs[0].record, first)
    ours, theirs = (np.array([one[question] for question in first]).T for one in (first, second))
    return ours, theirs, shared, groups


def ratio(row: Row, reference: Row) -> tuple[float, float, float]:
    """Return a row's accuracy over the reference's, r = a / b, and its 95 % interval, by the delta method.

    The error of r is that of the mean of a - r b over b; `difference` gives its interval around zero. Where no answer is right, it
    is Wilson's interval over the reference.
    """
    ours, theirs, shared, groups = _aligned(row, reference)
    of = float(theirs.mean())
    share = float(ours.mean()) / of
    if not share:  # no variance is seen; Wilson's interval has one
        return 0.0, 0.0, row.high / reference.accuracy
    error = difference(ours, theirs, shared=shared, groups=groups, times=share)
    return share, max(0.0, share + error.low / of), share + error.high / of


def _model_of(row: Row) -> str:
    """The row of its study whose models it evaluates: its own, or the one it names. A soup is a model of its own."""
    rows = study_of(row.runs[0].folder.parent).get("rows", {}) if row.runs else {}
    named = (one["of"] for one in rows.values() if one.get("label") == row.method and not one.get("mean"))
    return next(filter(None, named), row.method)


class Difference(NamedTuple):
    """First minus second as a share, its 95 % interval, the p-value of no difference, and the test's name.

    The name says which variance the test covers; with one seed, that of training is not covered.
    """

    mean: float
    low: float
    high: float
    p: float
    test: str


def difference(
    first: Marks, second: Marks, *, shared: bool = False, groups: Sequence[int] | None = None, times: float = 1.0
) -> Difference:
    """Compare two methods on the same questions → first minus second; they may have different numbers of seeds.

    With S seeds and Q questions each, the variance of the difference is that of its mean over questions, var(d) / Q, plus
    var(accuracy) / S of each method's seeds, minus the part counted in both, the scatter of single answers. Degrees of
    freedom are Welch's over the seeds' parts. Where both rows evaluate the same models, the seeds' part is that of the
    differences. With questions in G groups, the first variance and the scatter are clustered (the first is at least
    var(d) / Q), and the questions' part has G - 1 degrees of freedom; with one group nothing can be tested.

    Marks are [S, Q]; `shared`: row s of both comes from one model; `groups`: the number of each question's group, from 0 on;
    `times`: a factor of the second.
    """
    whole_marks, second = not (first % 1).any() and not (second % 1).any(), times * second
    if len(first) == len(second) == 1 and groups is None and whole_marks:
        return _mcnemar(first[0], second[0])
    by_question = first.mean(0) - second.mean(0)
    mean, each = float(by_question.mean()), np.arange(by_question.size) if groups is None else np.asarray(groups)
    several, count = len(first) > 1 and len(second) > 1, int(each.max()) + 1
    test = f"t, {'seeds and ' if several else ''}{'questions' if groups is None else 'scenarios'}"
    test += ", same models" if several and shared else ""
    if groups is not None and count < 2:
        return Difference(mean, -1.0, 1.0, 1.0, test)
    vary = [first - second] if shared else [first, second]
    of_seeds = [float(m.mean(1).var(ddof=1)) / len(m) for m in vary] if several else [0.0]
    single = sum(_scatter(m, each) for m in vary) if several else 0.0
    of_questions = max(_of_mean(by_question, each) - single, 0.0)
    whole = sum(of_seeds) + of_questions
    if whole == 0:  # all differences are equal; only their signs are evidence
        return Difference(mean, mean, mean, 1.0 if mean == 0 else 2.0 ** (1 - count), test)
    parts = sum(v**2 / (len(m) - 1) for v, m in zip(of_seeds, vary, strict=True)) if several else 0.0
    parts += of_questions**2 / (count - 1) if groups is not None else 0.0
    freedom = whole**2 / parts if parts else math.inf
    half = t_quantile(freedom) * math.sqrt(whole)
    p = t_test(mean / math.sqrt(whole), freedom)
    return Difference(mean, max(-1.0, mean - half), min(1.0, mean + half), p, test)


def _mcnemar(first: np.ndarray, second: np.ndarray) -> Difference:
    """One seed each, independent questions; the interval is a bootstrap's."""
    mean, low, high = paired_difference(first.tolist(), second.tolist())
    p = mcnemar(first.astype(bool).tolist(), second.astype(bool).tolist())
    return Difference(mean, mean if low is None else low, mean if high is None else high, p, "McNemar, questions")


def _of_mean(by_question: np.ndarray, groups: np.ndarray) -> float:
    """Variance of the mean over questions in groups, at least that of independent questions."""
    count = by_question.size
    return max(clustered_variance(by_question, each) for each in (groups, np.arange(count))) if count > 1 else 0.0


def _scatter(marks: Marks, groups: np.ndarray) -> float:
    """The part of a method's variance that belongs to single answers (or groups), neither to question nor seed."""
    seeds, questions = marks.shape
    if seeds < 2 or questions < 2:
        return 0.0
    rest = marks - marks.mean(0, keepdims=True) - marks.mean(1, keepdims=True) + marks.mean()
    return sum(clustered_variance(row, groups) for row in rest) / (seeds * (seeds - 1))


def holm(values: Sequence[float]) -> list[float]:
    """Correct p-values by Holm's method, in the same order: bounds the chance of any false positive among them."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    found, largest = [0.0] * len(values), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(values) - rank) * values[i]))
        found[i] = largest
    return found
