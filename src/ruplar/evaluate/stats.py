"""Right and wrong answers → statistics: confidence intervals, paired differences, means over seeds.

All intervals are two-sided, with a level of 95 %. Proportions are between 0 and 1; callers convert to percent.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist, variance
from typing import NamedTuple

import numpy as np

LEVEL = 0.95
_Z = NormalDist().inv_cdf((1 + LEVEL) / 2)
"""The z with P(|Z| < z) = LEVEL."""


class Interval(NamedTuple):
    """Lower and upper bound."""

    low: float
    high: float


class Grouped(NamedTuple):
    """Questions in groups: the variance of one seed's mean over them, and the number of groups."""

    variance: float
    groups: int


class Estimate(NamedTuple):
    """A mean with its interval; the bounds are None where they cannot be estimated."""

    mean: float
    low: float | None
    high: float | None


def wilson(correct: float, n: int) -> Interval:
    """Compute Wilson's score interval of a proportion; it stays within 0..1 and covers well at 0 and n right."""
    if n <= 0 or not 0 <= correct <= n:
        raise ValueError(f"{correct} right of {n} is not a proportion")
    return _score_interval(correct / n, n, _Z)


def _score_interval(share: float, n: float, z: float) -> Interval:
    """Wilson's interval for a share of n (need not be whole), with z standard errors to either side."""
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    # exact at the ends, whatever the rounding
    return Interval(0.0 if share == 0 else centre - half, 1.0 if share == 1 else centre + half)


def over_seeds(shares: Sequence[float], n: int, grouped: Grouped | None = None) -> tuple[float, Interval]:
    """Average the accuracies of several seeds on the same n questions → mean, and an interval over seeds and questions.

    The variance of the mean is that of the seeds, s² / S, plus that of the questions, p (1 - p) / n, which is conservative: it
    assumes that all seeds agree on every question. The interval is Wilson's for the number of questions with that variance;
    the degrees of freedom are Hillis's (readers × cases). One seed, or seeds that agree, give Wilson's interval for n.

    With questions in G groups the second part is the `clustered_variance`, at least p (1 - p) / n, with G - 1 degrees of
    freedom. Where all answers are right, or all wrong, each group counts as one question. One group gives 0..1.
    """
    if not shares or n <= 0:
        raise ValueError(f"{len(shares)} seeds of {n} questions have no mean")
    mean = math.fsum(shares) / len(shares)
    least = mean * (1 - mean) / n
    of_seeds = variance(shares) / len(shares) if len(shares) > 1 else 0.0
    if grouped is not None and grouped.groups < 2:
        return mean, Interval(0.0, 1.0)
    if not least or (grouped is None and not of_seeds):
        return mean, _score_interval(mean, n if grouped is None else grouped.groups, _Z)
    of_questions = least if grouped is None else max(least, grouped.variance)
    whole = of_seeds + of_questions
    parts = of_seeds**2 / (len(shares) - 1) if of_seeds else 0.0
    parts += of_questions**2 / (grouped.groups - 1) if grouped is not None else 0.0
    return mean, _score_interval(mean, mean * (1 - mean) / whole, t_quantile(whole**2 / parts))


def clustered_variance(values: Sequence[float] | np.ndarray, groups: Sequence[int] | np.ndarray) -> float:
    """Compute the variance of the mean of n values in G groups, clustered by group.

    G / (G - 1) * sum over groups of (sum of the group's residuals)² / n²: Liang and Zeger's estimator, as in Miller (2024,
    "Adding error bars to evals"), with the usual small-sample factor. Where every question is its own group it is the sample
    variance over n; for right and wrong answers that is p (1 - p) / (n - 1).
    """
    data = np.asarray(values, dtype=float)
    sums = np.bincount(groups, weights=data - data.mean())
    sums[np.abs(sums) < _ROUNDING] = 0.0
    if sums.size < 2:
        raise ValueError(f"{data.size} values in one group: the variance between groups cannot be estimated")
    return float(sums.size / (sums.size - 1) * (sums**2).sum() / data.size**2)


_ROUNDING = 1e-9  # sums of residuals below this are rounding errors


def bootstrap_mean(values: Sequence[float], *, seed: int = 0, draws: int = 10_000) -> Estimate:
    """Compute the mean and its percentile bootstrap interval, deterministic for a seed."""
    data = np.asarray(values, dtype=float)
    if data.size == 0:
        raise ValueError("no values to take a mean of")
    if data.size == 1:
        return Estimate(float(data[0]), None, None)
    rng = np.random.default_rng(seed)
    # in blocks of draws: 10,000 draws of 10,000 values at once would need 800 MB
    block = max(1, 2_000_000 // data.size)
    sizes = [(min(block, draws - i), data.size) for i in range(0, draws, block)]
    means = np.concatenate([data[rng.integers(0, data.size, size=size)].mean(1) for size in sizes])
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(float(data.mean()), float(low), float(high))


def paired_difference(first: Sequence[float], second: Sequence[float], *, seed: int = 0) -> Estimate:
    """Compute the mean of first - second on the same questions, with its bootstrap interval."""
    return bootstrap_mean([a - b for a, b in zip(first, second, strict=True)], seed=seed)


def mcnemar(first: Sequence[bool], second: Sequence[bool]) -> float:
    """Compute McNemar's exact two-sided p-value for two methods on the same questions.

    Only questions on which they differ count; under the null hypothesis each favours either method with probability 1/2.
    """
    only_first = sum(bool(a) and not b for a, b in zip(first, second, strict=True))
    only_second = sum(bool(b) and not a for a, b in zip(first, second, strict=True))
    n, least = only_first + only_second, min(only_first, only_second)
    tail = sum(math.comb(n, k) for k in range(least + 1)) / 2**n
    return min(1.0, 2 * tail)


def t_quantile(freedom: float) -> float:
    """Find t with P(|T| < t) = LEVEL by bisection; degrees of freedom are rounded down, above 1000 T is normal."""
    if freedom > _MANY:
        return _Z
    freedom, low, high = _whole(freedom), 0.0, 1.0
    while _t_inside(high, freedom) < LEVEL:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _t_inside(middle, freedom) < LEVEL else (low, middle)
    return (low + high) / 2


def t_test(t: float, freedom: float) -> float:
    """Compute the two-sided p-value of Student's t; degrees of freedom as in `t_quantile`."""
    inside = math.erf(abs(t) / math.sqrt(2)) if freedom > _MANY else _t_inside(abs(t), _whole(freedom))
    return min(1.0, max(0.0, 1 - inside))


_MANY = 1000
"""Degrees of freedom above which Student's t equals the normal distribution to three digits."""


def _whole(freedom: float) -> int:
    return int(freedom + 1e-9)  # 7 may be computed as slightly less


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
