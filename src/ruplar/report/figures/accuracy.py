"""Rows and averages → figures of accuracy: against cost, and over the four benchmarks."""

from collections.abc import Sequence
from dataclasses import replace
from textwrap import fill
from typing import Any

from ruplar.report.budgets import Curve
from ruplar.report.figures.style import BLUE, INK, MARKERS, MUTED, PAPER, SERIES, Drawing, panels, styled
from ruplar.report.rows import Row


@styled
def draw_curves(curves: Sequence[Curve]) -> Drawing:
    """Draw accuracy against the examples seen, and beside it, in the order of the last accuracies, forward passes per question."""
    figure, (seen, cost) = panels(1, 2, 14, 6.4, gridspec_kw={"width_ratios": [5, 3]})
    ranked = sorted(curves, key=lambda curve: -curve.last.accuracy)
    for y, curve in enumerate(ranked):
        rows, colour, marker = list(curve.points.values()), SERIES[y % len(SERIES)], MARKERS[y % len(MARKERS)]
        seen.errorbar(
            list(curve.points), [row.accuracy for row in rows],
            [[row.accuracy - row.low for row in rows], [row.high - row.accuracy for row in rows]],
            label=curve.method, capsize=4, elinewidth=1.2, color=colour, marker=marker,
            linestyle="-" if curve.trend == "yes" else "--",
        )  # fmt: skip
        cost.barh(y, curve.last.forwards, color=colour, height=0.6)
        cost.plot(-0.04, y, color=colour, marker=marker, transform=cost.get_yaxis_transform(), clip_on=False)
        cost.text(curve.last.forwards, y, f"  {curve.last.forwards:.1f}", va="center", fontsize=11)
    budgets = sorted({budget for curve in curves for budget in curve.points})
    seen.set(xscale="log", xlabel="training examples seen", ylabel="accuracy, %")
    seen.set_xticks(budgets, [f"{budget / 1e6:.1f} M" for budget in budgets])
    seen.minorticks_off()
    cost.set_yticks(range(len(ranked)), [f"{curve.method}  {curve.last.accuracy:.1f} %" for curve in ranked])
    cost.set(xlabel="forward passes per question", xlim=(0, 1.2 * max(curve.last.forwards for curve in curves)))
    cost.tick_params(axis="y", length=0, pad=24)
    cost.grid(axis="y", visible=False)
    cost.invert_yaxis()
    stopped = ", ".join(curve.method for curve in curves if curve.trend != "yes") or "none"
    caption = (
        f"Left: accuracy on {curves[0].benchmark} with 95 % confidence intervals, against the training examples seen; dashed lines "
        f"gained no more than their interval in the last doubling ({stopped}). Right: the methods by their accuracy after the last "
        f"budget, with their forward passes. {_front([replace(curve.last, method=curve.method) for curve in curves])}"
    )
    return Drawing(f"Learning curves on {curves[0].benchmark}{curves[0].where}", caption, figure)


def frontier(rows: Sequence[Row]) -> list[Row]:
    """Find the Pareto front, cheapest first: no other row is as cheap and as accurate, and better in one of the two.

    Costs within one percent of each other count as equal.
    """

    def beats(a: Row, b: Row) -> bool:
        cheaper, as_cheap = a.forwards < b.forwards * 0.99, a.forwards <= b.forwards * 1.01
        return as_cheap and a.accuracy >= b.accuracy and (cheaper or a.accuracy > b.accuracy)

    front: list[Row] = []
    for row in sorted(rows, key=lambda row: (-row.accuracy, row.forwards)):
        if not any(beats(other, row) for other in front):
            front.append(row)
    return sorted(front, key=lambda row: row.forwards)


def clear(rows: Sequence[Row]) -> list[Row]:
    """Keep of the Pareto front what the intervals leave no doubt about: no row that is as cheap reaches into its interval."""

    def certain(row: Row) -> bool:
        others = [other for other in rows if other is not row and other.forwards <= row.forwards * 1.01]
        return all(other.high < row.low for other in others)

    return [row for row in frontier(rows) if certain(row)]


def _front(rows: Sequence[Row]) -> str:
    """Explain the Pareto front of some rows."""
    front, certain = frontier(rows), clear(rows)
    names = ", ".join(row.method for row in certain) or "none"
    rest = ", ".join(row.method for row in front if row not in certain)
    doubtful = f" By its mean also {rest}, but the interval of a row that is as cheap overlaps." if rest else ""
    return (
        "The Pareto front has the methods that no other one beats in both accuracy and forward passes; clearly on it, by the "
        f"intervals: {names}.{doubtful}"
    )


@styled
def draw_frontier(found: Sequence[Row]) -> Drawing:
    """Draw accuracy and cost of rows of one benchmark, or of macro-averages: one line per method, the best at the top."""
    rows = sorted(found, key=lambda one: (one.accuracy, -one.forwards))
    if rows[0].benchmark == "average":
        label = "macro-average accuracy, %"
        title = f"Macro-average over four benchmarks and its cost ({rows[0].backbone})"
        left = "macro-average accuracy over GSM8K, GSM-Hard, SVAMP and MultiArith"
    else:
        label, title = f"accuracy on {rows[0].benchmark}, %", f"Accuracy against cost on {rows[0].benchmark}"
        left = f"accuracy on the {rows[0].n:,} questions of {rows[0].benchmark}"
    certain = clear(rows)
    figure, (right, cost) = panels(1, 2, 12, 1.4 + 0.4 * len(rows), sharey=True, gridspec_kw={"width_ratios": [3, 2]})
    for y, row in enumerate(rows):
        colour, single = BLUE if row in certain else MUTED, len(row.seeds) == 1
        right.errorbar(
            row.accuracy, y, xerr=[[row.accuracy - row.low], [row.high - row.accuracy]], color=colour, capsize=4,
            marker="o", markersize=9, markerfacecolor=PAPER if single else colour, markeredgewidth=2,
        )  # fmt: skip
        cost.barh(y, row.forwards, color=colour, height=0.6)
        latents = f", #L {row.latents:.1f}" if row.latents else ""
        cost.text(row.forwards, y, f"  {row.forwards:.1f}{latents}", va="center", color=INK, fontsize=11)
    # a folder's name has no slash: "w/o" in the paper
    right.set_yticks(range(len(rows)), [fill(row.method.replace("w-o ", "without "), 38) for row in rows])
    right.set(xlabel=label, ylim=(-0.7, len(rows) - 0.3))
    right.set_xlim(left=0)
    cost.set(xlabel="forward passes per question", xlim=(0, 1.55 * max(row.forwards for row in rows)))
    cost.tick_params(axis="y", length=0)
    cost.grid(axis="y", visible=False)
    marks: dict[str, Any] = {"marker": "o", "markersize": 9, "markeredgewidth": 2, "linestyle": "none"}
    hollow: bool = any(len(row.seeds) == 1 for row in rows)
    for colour, face, name in (
        (BLUE, BLUE, "clearly on the Pareto front"), *([(MUTED, MUTED, "others")] if len(certain) < len(rows) else []),
        *([(MUTED, PAPER, "one model")] if hollow else []),
    ):  # fmt: skip
        right.plot([], [], color=colour, markerfacecolor=face, label=name, **marks)
    figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    about = "; hollow points are single models, whose intervals cover the questions only" if hollow else ""
    caption = (
        f"Left: {left} with 95 % confidence intervals{about}. Right: forward passes per question; #L is the number of soft tokens, "
        f"or of written reasoning tokens, among them. {_front(rows)}"
    )
    return Drawing(title, caption, figure)
