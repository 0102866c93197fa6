"""Rows of a study → what summarises a method: its macro-average over the four benchmarks, and its latent ablation.

    GSM8K 25.5, GSM-Hard 4.8, SVAMP 26.7, MultiArith 71.5   →   32.1 [30.8, 33.4], and its % of the reference
    results/STUDY/LABEL-seedN/ablation.json                 →   accuracy with real, no, random, shuffled … latents

The macro-average weights the paper's four arithmetic benchmarks equally, as the paper's last column does. Its interval covers
the questions of all four and, from two seeds on, the seeds, averaged per seed first: a seed's benchmarks are not independent.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import variance

from ruplar.errors import UserError
from ruplar.evaluate.record import ABLATION, read_ablation
from ruplar.evaluate.stats import Interval, over_seeds, t_quantile
from ruplar.report.paper import FOUR
from ruplar.report.rows import Row, place_of, shares, trainings

Ablation = tuple[Row, str, int, dict[str, tuple[float, Interval]]]
"""A row of the method, benchmark, its n, and mode → mean over seeds as a share, and its interval."""


def averages(rows: Sequence[Row]) -> list[Row]:
    """Average every method of a study that has results on all four benchmarks with the same seeds; the benchmark is `average`."""
    groups: dict[tuple[str, str, str], dict[str, Row]] = {}
    for row in rows:
        if row.study and row.benchmark in FOUR:
            groups.setdefault((row.study, row.backbone, row.method), {})[row.benchmark] = row
    whole = [[found[name] for name in FOUR] for found in groups.values() if len(found) == len(FOUR)]
    return [_average(four) for four in whole if len({row.seeds for row in four}) == 1]


def _average(four: Sequence[Row]) -> Row:
    names = ("accuracy", "latents", "forwards", "ms_per_question")
    means = {name: sum(getattr(row, name) for row in four) / len(FOUR) for name in names}
    mean, half = means["accuracy"], _half(four)
    interval = {"low": max(0.0, mean - half), "high": min(100.0, mean + half)}
    return replace(four[0], benchmark="average", n=sum(row.n for row in four), groups=None, **means, **interval)


def _half(four: Sequence[Row]) -> float:
    """Half the interval's width in percent: t, with Hillis's degrees of freedom as in `evaluate/stats.py`."""
    of_questions = sum(row.accuracy / 100 * (1 - row.accuracy / 100) / row.n for row in four) / len(FOUR) ** 2
    by_seed = [sum(each) / len(FOUR) for each in zip(*(shares(row.runs) for row in four), strict=True)]
    of_seeds = variance(by_seed) / len(by_seed) if len(by_seed) > 1 else 0.0
    whole = of_questions + of_seeds
    freedom = whole**2 / (of_seeds**2 / (len(by_seed) - 1)) if of_seeds else math.inf
    return 100 * t_quantile(freedom) * math.sqrt(whole)


def latent_ablations(rows: Sequence[Row]) -> list[Ablation]:
    """Pool the ablations of every method whose runs all have one; a row's own benchmark does not matter."""
    found: list[Ablation] = []
    for row in {(place_of(row), *(run.folder for run in row.runs)): row for row in rows}.values():
        files = [same[0].folder / ABLATION for same in trainings(row.runs)]
        if not files or not all(file.is_file() for file in files):
            continue
        by_mode: dict[tuple[str, int], dict[str, list[float]]] = {}
        for on, line in ((on, line) for file in files for on, lines in read_ablation(file).items() for line in lines):
            right = line["correct"] / line["n"]
            by_mode.setdefault((on, line["n"]), {}).setdefault(line["mode"], []).append(right)
        if {len(values) for modes in by_mode.values() for values in modes.values()} != {len(files)}:
            raise UserError(f"'{row.method}': its seeds were ablated on different questions or in different modes.")
        for (on, n), modes in by_mode.items():
            found.append((row, on, n, {mode: over_seeds(values, n) for mode, values in modes.items()}))
    return found
