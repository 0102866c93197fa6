"""Rights and wrongs → how sure one may be: intervals for one run, differences between two, means over seeds.

All intervals are two-sided. Proportions and means are plain numbers (0.46, not 46 %); the caller chooses the unit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np


class Interval(NamedTuple):
    """Lower and upper bound."""

    low: float
    high: float


class Grouped(NamedTuple):
    """Questions that come in groups: the variance of one seed's mean over them, and how many groups there are."""

    variance: float
    groups: int


class Estimate(NamedTuple):
    """A mean with its interval; the bounds are None where there is nothing to estimate them from."""

    mean: float
    low: float | None
    high: float | None


def wilson(correct: float, n: int, level: float = 0.95) -> Interval:
    """Wilson's score interval of a proportion: stays inside 0..1 and is honest at 0 and n right.

    Args:
        correct: How many were right; need not be whole (a mean over seeds).
        n: Of how many; more than 0.
        level: Confidence.
    """
    if n <= 0 or not 0 <= correct <= n:
        raise ValueError(f"{correct} right of {n} is not a proportion")
    return _score_interval(correct / n, n, _normal(level))


def _normal(level: float) -> float:
    """The z with P(|Z| < z) = level."""
    return NormalDist().inv_cdf((1 + level) / 2)


def _score_interval(share: float, n: float, z: float) -> Interval:
    """Wilson's interval for a share seen in n (need not be whole), z standard errors wide to either side."""
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    # the bound is exactly 0 (or 1) at the ends; rounding must not say otherwise
    return Interval(0.0 if share == 0 else centre - half, 1.0 if share == 1 else centre + half)


def over_seeds(
    shares: Sequence[float], n: int, level: float = 0.95, grouped: Grouped | None = None
) -> tuple[float, Interval]:
    """Shares right of the same n questions, one a seed → their mean, and an interval for both kinds of chance.

    The variance of the mean is that of the seeds, s² / S, plus that of the questions, p (1 - p) / n: as if a question
    were always right or always wrong, whatever the seed, so rather too wide than too narrow. The interval is Wilson's
    for as many questions as would have that variance; the degrees of freedom are Hillis's (readers × cases), so that
    few seeds that scatter count for little. One seed, or seeds that agree, give Wilson's interval for n.

    Of questions in G groups the variance is the `clustered_variance`, with G - 1 degrees of freedom, one seed or several.
    It counts no less than p (1 - p) / n: groups that agree by luck make nothing surer. Where all are right or all wrong
    nothing shows how groups vary, and each counts as one question. One group says nothing of others: all of 0..1.

    Args:
        shares: Between 0 and 1.
        n: Questions, more than 0.
        level: Confidence.
        grouped: Of questions in groups, the mean of the seeds' variances; None where each stands for itself.
    """
    if not shares or n <= 0:
        raise ValueError(f"{len(shares)} seeds of {n} questions have no mean")
    mean = math.fsum(shares) / len(shares)
    least = mean * (1 - mean) / n
    of_seeds = variance(shares) / len(shares) if len(shares) > 1 else 0.0
    if grouped is not None and grouped.groups < 2:
        return mean, Interval(0.0, 1.0)
    if not least or (grouped is None and not of_seeds):
        return mean, _score_interval(mean, n if grouped is None else grouped.groups, _normal(level))
    of_questions = least if grouped is None else max(least, grouped.variance)
    whole = of_seeds + of_questions
    parts = of_seeds**2 / (len(shares) - 1) if of_seeds else 0.0
    parts += of_questions**2 / (grouped.groups - 1) if grouped is not None else 0.0
    return mean, _score_interval(mean, mean * (1 - mean) / whole, t_quantile(whole**2 / parts, level))


def clustered_variance(values: Sequence[float] | np.ndarray, groups: Sequence[int] | np.ndarray) -> float:
    """Values of n questions in G groups → the variance of their mean, when those of one group vary together.

    G / (G - 1) * sum over groups of (sum of the group's residuals)² / n²: Liang and Zeger's, as Miller gives it for
    evaluations (2024, "Adding error bars to evals"), with the usual factor for few groups. Where every question is a group
    it is the sample variance over n; of rights and wrongs that is p (1 - p) / (n - 1).

    Args:
        values: One a question.
        groups: The number of each one's group, from 0 on; at least two of them.
    """
    data = np.asarray(values, dtype=float)
    sums = np.bincount(groups, weights=data - data.mean())
    sums[np.abs(sums) < _ROUNDING] = 0.0
    if sums.size < 2:
        raise ValueError(f"{data.size} values in one group say nothing of how groups vary")
    return float(sums.size / (sums.size - 1) * (sums**2).sum() / data.size**2)


_ROUNDING = 1e-9
"""A group's residuals that sum to less sum to nothing: answers are counts over a few seeds."""


def variance(values: Sequence[float]) -> float:
    """The sample variance of two or more values."""
    mean = math.fsum(values) / len(values)
    return math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1)


def bootstrap_mean(values: Sequence[float], *, seed: int = 0, draws: int = 10_000, level: float = 0.95) -> Estimate:
    """The mean and its percentile bootstrap interval; the same seed gives the same interval."""
    data = np.asarray(values, dtype=float)
    if data.size == 0:
        raise ValueError("no values to take a mean of")
    if data.size == 1:
        return Estimate(float(data[0]), None, None)
    rng = np.random.default_rng(seed)
    # in blocks of draws: 10,000 draws of 10,000 values at once would need 800 MB
    block = max(1, 2_000_000 // data.size)
    means = np.concatenate(
        [
            data[rng.integers(0, data.size, size=(min(block, draws - i), data.size))].mean(1)
            for i in range(0, draws, block)
        ]
    )
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(float(data.mean()), float(low), float(high))


def paired_difference(
    first: Sequence[float], second: Sequence[float], *, seed: int = 0, draws: int = 10_000, level: float = 0.95
) -> Estimate:
    """Mean of first - second on the same questions, with its bootstrap interval over questions."""
    if len(first) != len(second):
        raise ValueError(f"paired values must be of the same questions, got {len(first)} and {len(second)}")
    return bootstrap_mean(np.asarray(first, float) - np.asarray(second, float), seed=seed, draws=draws, level=level)


def mcnemar(first: Sequence[bool], second: Sequence[bool]) -> float:
    """Exact two-sided p-value that two methods are equally often right on the same questions.

    Only questions on which they differ count: under no difference each goes either way like a fair coin.
    """
    if len(first) != len(second):
        raise ValueError(f"paired scores must be of the same questions, got {len(first)} and {len(second)}")
    only_first = sum(bool(a) and not b for a, b in zip(first, second, strict=True))
    only_second = sum(bool(b) and not a for a, b in zip(first, second, strict=True))
    n, least = only_first + only_second, min(only_first, only_second)
    tail = sum(math.comb(n, k) for k in range(least + 1)) / 2**n
    return min(1.0, 2 * tail)


def t_quantile(freedom: float, level: float = 0.95) -> float:
    """The t with P(|T| < t) = level, by bisection; degrees of freedom are rounded down, above 1000 it is normal."""
    if freedom > _MANY:
        return _normal(level)
    freedom, low, high = int(freedom), 0.0, 1.0
    while _t_inside(high, freedom) < level:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _t_inside(middle, freedom) < level else (low, middle)
    return (low + high) / 2


def t_test(t: float, freedom: float) -> float:
    """Two-sided p-value of Student's t; degrees of freedom as in `t_quantile`."""
    inside = math.erf(abs(t) / math.sqrt(2)) if freedom > _MANY else _t_inside(abs(t), int(freedom))
    return min(1.0, max(0.0, 1 - inside))


_MANY = 1000
"""From so many degrees of freedom on, Student's t is the normal distribution to three digits."""


def _t_inside(t: float, freedom: int) -> float:
    """P(|T| < t): the finite series of Abramowitz and Stegun 26.7.3 (odd) and 26.7.4 (even)."""
    angle = math.atan(t / math.sqrt(freedom))
    cos, sin = math.cos(angle), math.sin(angle)
    odd = freedom % 2 == 1
    term = cos if odd else 1.0
    total = term if freedom > 1 else 0.0
    for k in range(3 if odd else 2, freedom - 1, 2):
        term *= cos * cos * (k - 1) / k
        total += term
    return 2 / math.pi * (angle + sin * total) if odd else sin * total
