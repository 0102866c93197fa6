"""Samples of two models on the same questions → their difference, question by question, and how sure it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ruplar.errors import UserError
from ruplar.evaluate.stats import Estimate, mcnemar, paired_difference


class Comparison(NamedTuple):
    """Two models on the same questions.

    Attributes:
        n: Questions.
        difference: First minus second, in points of accuracy, with its bootstrap interval over questions.
        p: McNemar's exact p-value; None when answers were sampled more than once.
    """

    n: int
    difference: Estimate
    p: float | None


def compare(first: Sequence[Mapping[str, Any]], second: Sequence[Mapping[str, Any]]) -> dict[str, Comparison]:
    """Samples of two models → benchmark → their difference, question by question; several seeds are averaged first.

    Raises:
        UserError: They share no benchmark, or a shared one was not asked the same questions of both.
    """
    ours, theirs = _by_benchmark(first), _by_benchmark(second)
    shared = [name for name in ours if name in theirs]
    if not shared:
        raise UserError(f"nothing to compare: one model has {', '.join(ours)}, the other {', '.join(theirs)}.")
    out = {}
    for name in shared:
        if ours[name].keys() != theirs[name].keys():
            raise UserError(f"{name}: the two models were asked different questions. Run both without a limit.")
        a, b = list(ours[name].values()), [theirs[name][key] for key in ours[name]]
        once = all(len(marks) == 1 for marks in (*a, *b))
        p = mcnemar([m[0] for m in a], [m[0] for m in b]) if once else None
        points = [[100 * sum(marks) / len(marks) for marks in side] for side in (a, b)]
        out[name] = Comparison(len(a), paired_difference(*points), p)
    return out


def _by_benchmark(samples: Sequence[Mapping[str, Any]]) -> dict[str, dict[tuple[int, str], list[bool]]]:
    """Benchmark → question, by its place and words → right or wrong, once a seed."""
    found: dict[str, dict[tuple[int, str], list[bool]]] = {}
    for row in samples:
        found.setdefault(row["benchmark"], {}).setdefault((row["index"], row["question"]), []).append(row["correct"])
    return found
