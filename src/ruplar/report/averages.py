"""Rows of a study on all four of the paper's arithmetic benchmarks → each method's average, as the paper's last column has it.

    GSM8k-Aug 25.5, GSM-Hard 4.8, SVAMP 26.7, MultiArith 71.5   →   32.1 [30.8, 33.4], and its share of the reference's

Each benchmark counts a quarter, whatever its size. The interval covers the chance of the questions of all four and, from two
seeds on, that of the seeds, whose averages are taken first: one model's luck is the same on all benchmarks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ruplar.evaluate.stats import t_quantile, variance
from ruplar.report.paper import BENCHMARKS
from ruplar.report.rows import Row

ALL = tuple(name for name in BENCHMARKS if name != "average")


@dataclass(frozen=True)
class Average:
    """One method over the four benchmarks, in percent.

    Attributes:
        latents: Mean #L of the four; so are `forwards`.
        share: Of the reference's accuracy; None for the reference itself, and where there is none.
    """

    study: str
    method: str
    backbone: str
    seeds: int
    accuracy: float
    low: float
    high: float
    latents: float
    forwards: float
    share: float | None


def averages(rows: Sequence[Row], references: Mapping[str, str]) -> list[Average]:
    """One for every method of a study that was asked all four with the same seeds; none of the others.

    Args:
        rows: Of one study or several.
        references: Study → the row that the shares are of.
    """
    groups: dict[tuple[str, str, str], dict[str, Row]] = {}
    for row in rows:
        if row.study and row.benchmark in ALL:
            groups.setdefault((row.study, row.backbone, row.method), {})[row.benchmark] = row
    whole = {
        key: [found[name] for name in ALL]
        for key, found in groups.items()
        if len(found) == len(ALL) and len({row.seeds for row in found.values()}) == 1
    }
    means = {key: sum(row.accuracy for row in four) / len(ALL) for key, four in whole.items()}
    made = []
    for (study, backbone, method), four in whole.items():
        reference = references.get(study)
        of = means.get((study, backbone, reference)) if reference and reference != method else None
        mean = means[study, backbone, method]
        half = _half(four)
        made.append(
            Average(
                study,
                method,
                backbone,
                len(four[0].seeds),
                mean,
                max(0.0, mean - half),
                min(100.0, mean + half),
                sum(row.latents for row in four) / len(ALL),
                sum(row.forwards for row in four) / len(ALL),
                100 * mean / of if of else None,
            )
        )
    return made


def _half(four: Sequence[Row], level: float = 0.95) -> float:
    """Half the interval's width: t, with Hillis's degrees of freedom as in `evaluate/stats.py`, in percent."""
    of_questions = sum(row.accuracy / 100 * (1 - row.accuracy / 100) / row.n for row in four) / len(ALL) ** 2
    by_seed = [
        sum(row.runs[i].result.correct / row.n for row in four) / len(ALL)
        for i in range(min(len(row.runs) for row in four))
    ]
    of_seeds = variance(by_seed) / len(by_seed) if len(by_seed) > 1 else 0.0
    whole = of_questions + of_seeds
    freedom = whole**2 / (of_seeds**2 / (len(by_seed) - 1)) if of_seeds else math.inf
    return 100 * t_quantile(freedom, level) * math.sqrt(whole)
