"""Rows of one benchmark → accuracy against cost, every method a point, those that nothing beats joined."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, TypeVar

from ruplar.report.averages import Average
from ruplar.report.figures.style import INK, MARKERS, PAPER, SERIES, Drawing, panels, styled
from ruplar.report.rows import Row

Point = TypeVar("Point", Row, Average)


@styled
def draw(rows: Sequence[Row]) -> Drawing:
    """Rows of one benchmark → the figure; milliseconds only where all were measured on one machine."""
    same = one_machine(rows)
    figure, axes = panels(1, 2 if same else 1, 13 if same else 8, 5.6)
    _panel(axes[0], rows, "forwards", "forward passes a question")
    if same:
        _panel(axes[1], rows, "ms_per_question", "milliseconds a question")
        axes[1].set_ylabel("")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(4, len(labels)))
    benchmark = rows[0].benchmark
    return Drawing(
        f"frontier-{slug(benchmark)}", f"Accuracy against cost on {benchmark}", _caption(rows, same), figure
    )


def _caption(rows: Sequence[Row], same: bool) -> str:
    best = [row.method for row in frontier(rows, "forwards")]
    when = (
        "right: milliseconds, all measured on one machine, but batch by batch, so for proportion only"
        if same
        else "milliseconds are not drawn, because these runs come from different machines"
    )
    return (
        f"Each point is a way to answer the {rows[0].n:,} questions of {rows[0].benchmark}: higher is more often right, further "
        f"left is cheaper. Bars are 95 % intervals. Left: runs of the network a question needs; {when}. The line joins the "
        f"methods that nothing beats on both counts (the Pareto front): {', '.join(best)}. Every other method "
        "is beaten by one that costs no more and is right at least as often."
    )


def one_machine(rows: Sequence[Row]) -> bool:
    """Whether all runs name the same processor and GPU, so that their milliseconds may be compared."""
    return len({(run.record.machine.cpu, run.record.machine.gpu) for row in rows for run in row.runs}) <= 1


def frontier(rows: Sequence[Point], cost: str) -> list[Point]:
    """The rows that no other one beats: none is both as cheap and as accurate, and better in one. Cheapest first.

    Costs within a hundredth of each other are equal: thoughts of one length differ by as much from question to question.
    """

    def beats(a: Point, b: Point) -> bool:
        mine, theirs = getattr(a, cost), getattr(b, cost)
        cheaper, as_cheap = mine < theirs * 0.99, mine <= theirs * 1.01
        return as_cheap and a.accuracy >= b.accuracy and (cheaper or a.accuracy > b.accuracy)

    kept: list[Point] = []
    for row in sorted(rows, key=lambda row: (-row.accuracy, getattr(row, cost))):
        if not any(beats(other, row) for other in kept):  # not by a beaten one: hundredths would add up
            kept.append(row)
    return sorted(kept, key=lambda row: getattr(row, cost))


def slug(text: str) -> str:
    """A name fit for a file: letters, digits, dots, underscores and single dashes."""
    return re.sub(r"[^\w.]+", "-", text).strip("-")


def _panel(axes: Any, rows: Sequence[Row], cost: str, label: str) -> None:
    front = frontier(rows, cost)
    axes.plot(
        [getattr(r, cost) for r in front], [r.accuracy for r in front],
        color=INK, linewidth=1.4, linestyle="--", zorder=2, label="nothing beats these",
    )  # fmt: skip
    for i, row in enumerate(rows):
        axes.errorbar(
            getattr(row, cost), row.accuracy, [[row.accuracy - row.low], [row.high - row.accuracy]],
            color=SERIES[i % len(SERIES)], marker=MARKERS[i % len(MARKERS)], markersize=12, capsize=5, linestyle="none",
            markeredgecolor=INK if row in front else PAPER, markeredgewidth=1.6, label=row.method, zorder=3,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.margins(x=0.12)
    costs = [getattr(row, cost) for row in rows]
    axes.set_xticks(round_numbers(min(costs) / 1.3, max(costs) * 1.3))
    axes.xaxis.set_major_formatter(lambda value, place=None: f"{value:g}")
    axes.minorticks_off()
    axes.set(xlabel=label, ylabel="accuracy, %")
    low = min(row.low for row in rows)
    axes.set_ylim(max(0.0, low - 4), min(101.5, max(row.high for row in rows) + 3))


def round_numbers(low: float, high: float) -> list[float]:
    """Round numbers between two positive ones for a logarithmic axis, few enough to be read."""
    steps = (1, 2, 5) if high / low > 12 else (1, 1.5, 2, 3, 4, 5, 7)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [step * 10.0**power for power in powers for step in steps if low <= step * 10.0**power <= high]
