"""Averages over the paper's four benchmarks → one line a method: how often it is right, and what a question costs.

Methods of all studies of one backbone stand in it, however many: a line each, none over another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ruplar.report.averages import Average
from ruplar.report.figures.frontier import frontier
from ruplar.report.figures.style import BLUE, INK, MUTED, PAPER, Drawing, panels, styled


@styled
def draw(averages: Sequence[Average]) -> Drawing:
    """Averages of one backbone → the figure, the best on top."""
    rows = sorted(averages, key=lambda one: (one.accuracy, -one.forwards))
    best = frontier(rows, "forwards")
    figure, (right, cost) = panels(1, 2, 12, 1.4 + 0.4 * len(rows), sharey=True, gridspec_kw={"width_ratios": [3, 2]})
    for y, row in enumerate(rows):
        colour = BLUE if row in best else MUTED
        right.errorbar(
            row.accuracy, y, xerr=[[row.accuracy - row.low], [row.high - row.accuracy]], color=colour, capsize=4,
            marker="o", markersize=9, markerfacecolor=colour if row.seeds > 1 else PAPER, markeredgewidth=2,
        )  # fmt: skip
        cost.barh(y, row.forwards, color=colour, height=0.6)
        latents = f", #L {row.latents:.1f}" if row.latents else ""
        cost.text(row.forwards, y, f"  {row.forwards:.1f}{latents}", va="center", color=INK, fontsize=11)
    right.set_yticks(range(len(rows)), _labels(rows))
    right.set(xlabel="accuracy on average, %", ylim=(-0.7, len(rows) - 0.3))
    right.set_xlim(left=0)
    cost.set(xlabel="forward passes a question", xlim=(0, 1.55 * max(row.forwards for row in rows)))
    cost.tick_params(axis="y", length=0)
    cost.grid(axis="y", visible=False)
    marks: dict[str, Any] = {"marker": "o", "markersize": 9, "markeredgewidth": 2, "linestyle": "none"}
    for colour, face, label in (
        (BLUE, BLUE, "no other as cheap is right as often"), (MUTED, MUTED, "another as cheap is right as often"), (MUTED, PAPER, "one model"),
    ):  # fmt: skip
        right.plot([], [], color=colour, markerfacecolor=face, label=label, **marks)
    figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return Drawing(
        "averages",
        f"Average of four benchmarks and what it costs ({rows[0].backbone})",
        _caption(rows, [row.method for row in best]),
        figure,
    )


def _labels(rows: Sequence[Average]) -> list[str]:
    """Names of methods; where two studies have one of the same name, the study's too."""
    count = Counter(row.method for row in rows)
    return [f"{row.method} ({row.study})" if count[row.method] > 1 else row.method for row in rows]


def _caption(rows: Sequence[Average], best: Sequence[str]) -> str:
    studies = list(dict.fromkeys(row.study for row in rows))
    apart = (
        f" The rows are those of the studies {', '.join(studies)}, which may differ in data, steps or start."
        if studies[1:]
        else ""
    )
    return (
        "Left: how often each method is right on GSM8k-Aug, GSM-Hard, SVAMP and MultiArith, each of which counts a quarter, with "
        "95 % intervals; those of hollow points, one model, cover the chance of the questions alone. Right: runs of the network a "
        "question takes; #L is how many soft tokens, or tokens of written reasoning, are among them. Blue rows are beaten by none "
        f"that costs no more and is right at least as often, going by these averages alone: {', '.join(best)}. Where intervals "
        f"overlap the order is open.{apart}"
    )
