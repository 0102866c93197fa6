"""Marks of two methods on the same questions → their difference, its interval and its p-value; and Holm's correction.

With one seed each this is McNemar's exact test. With several, a difference must be large against the chance of the questions
*and* that of the seeds: a t test whose variance has both parts, as in studies of readers × cases (Obuchowski and Rockette;
Hillis). Where questions share scenarios, the chance of the questions is that of scenarios, with one seed too: McNemar's coins
would not fall independently.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ruplar.evaluate.stats import clustered_variance, mcnemar, paired_difference, t_quantile, t_test

MCNEMAR, QUESTIONS, BOTH = "McNemar, questions", "t, questions", "t, seeds and questions"
SHARED = "t, seeds and questions, same models"
SCENARIOS, BOTH_SCENARIOS = "t, scenarios", "t, seeds and scenarios"
SHARED_SCENARIOS = "t, seeds and scenarios, same models"
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


def difference(
    first: Marks, second: Marks, level: float = 0.95, shared: bool = False, groups: Sequence[int] | None = None
) -> Difference:
    """Two methods on the same questions → first minus second; the methods may have different numbers of seeds.

    With S seeds and Q questions each, the variance of the difference is that of its mean over questions, var(d) / Q,
    plus var(accuracy) / S of each method's seeds, less the part that would be counted in both, the scatter of single
    answers. Degrees of freedom are Welch's over the seeds' parts. Where both ask the same models in another way, a seed's
    luck is in both and cancels: the seeds' part is that of the differences. Of questions in G groups, the first variance and
    the scatter are clustered (the first no less than var(d) / Q), and the questions' part has G - 1 degrees of freedom; one
    group says nothing.

    Args:
        first: [S1, Q].
        second: [S2, Q].
        level: Confidence of the interval.
        shared: Whether row s of both was answered by one model.
        groups: The number of each question's group, from 0 on; None where each stands for itself.
    """
    if first.shape[1] != second.shape[1]:
        raise ValueError(f"paired marks must be of the same questions, got {first.shape[1]} and {second.shape[1]}")
    if len(first) == len(second) == 1 and groups is None:
        return _mcnemar(first[0], second[0], level)
    by_question = first.mean(0) - second.mean(0)
    mean, each = float(by_question.mean()), np.arange(by_question.size) if groups is None else np.asarray(groups)
    several, count = len(first) > 1 and len(second) > 1, int(each.max()) + 1
    test = _name(several, shared, groups is not None)
    if groups is not None and count < 2:
        return Difference(mean, -1.0, 1.0, 1.0, test)
    vary = [first - second] if shared else [first, second]
    of_seeds = [float(m.mean(1).var(ddof=1)) / len(m) for m in vary] if several else [0.0]
    single = sum(_scatter(m, each) for m in vary) if several else 0.0
    of_questions = max(_of_mean(by_question, each) - single, 0.0)
    whole = sum(of_seeds) + of_questions
    if whole == 0:  # every question says the same; then the signs alone are the evidence
        return Difference(mean, mean, mean, 1.0 if mean == 0 else 2.0 ** (1 - count), test)
    parts = sum(v**2 / (len(m) - 1) for v, m in zip(of_seeds, vary, strict=True)) if several else 0.0
    parts += of_questions**2 / (count - 1) if groups is not None else 0.0
    freedom = whole**2 / parts if parts else math.inf
    half = t_quantile(freedom, level) * math.sqrt(whole)
    p = t_test(mean / math.sqrt(whole), freedom)
    return Difference(mean, max(-1.0, mean - half), min(1.0, mean + half), p, test)


def _mcnemar(first: np.ndarray, second: np.ndarray, level: float) -> Difference:
    """One seed each, on questions that share nothing; the interval is a bootstrap's."""
    mean, low, high = paired_difference(first.tolist(), second.tolist(), level=level)
    p = mcnemar(first.astype(bool).tolist(), second.astype(bool).tolist())
    return Difference(mean, mean if low is None else low, mean if high is None else high, p, MCNEMAR)


def _name(several: bool, shared: bool, grouped: bool) -> str:
    if not several:
        return SCENARIOS if grouped else QUESTIONS
    if shared:
        return SHARED_SCENARIOS if grouped else SHARED
    return BOTH_SCENARIOS if grouped else BOTH


def _of_mean(by_question: np.ndarray, groups: np.ndarray) -> float:
    """Variance of the mean over questions in groups: groups that agree by luck make it no surer than questions alone would."""
    count = by_question.size
    return max(clustered_variance(by_question, each) for each in (groups, np.arange(count))) if count > 1 else 0.0


def _scatter(marks: Marks, groups: np.ndarray) -> float:
    """Variance of a method's mean that comes from single answers, or groups of them: neither its question's nor its seed's doing."""
    seeds, questions = marks.shape
    if seeds < 2 or questions < 2:
        return 0.0
    rest = marks - marks.mean(0, keepdims=True) - marks.mean(1, keepdims=True) + marks.mean()
    return sum(clustered_variance(row, groups) for row in rest) / (seeds * (seeds - 1))


def holm(values: Sequence[float]) -> list[float]:
    """p-values → Holm's corrected ones, in the same order: the chance of any false alarm among them is kept."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    found, largest = [0.0] * len(values), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(values) - rank) * values[i]))
        found[i] = largest
    return found
