"""Rows → figures with captions. Which figure a page has depends on the records."""

from __future__ import annotations

from collections.abc import Sequence

from ruplar.report import budgets
from ruplar.report.figures import accuracy, sweeps
from ruplar.report.figures.growth import draw_growth
from ruplar.report.figures.style import Drawing
from ruplar.report.rows import Row
from ruplar.report.sets import is_selection
from ruplar.report.summaries import averages

__all__ = ["draw", "draw_averages", "draw_growth"]


def draw(rows: Sequence[Row], grid: bool) -> Drawing | None:
    """Draw learning curves, else macro-averages, else the sweeps of a grid, else accuracy against cost on the first test set.

    Only of test sets; None where there is too little to draw.
    """
    tested = [row for row in rows if not is_selection(row.benchmark)]
    curved = budgets.curves(tested)
    if curved:
        return accuracy.draw_curves(curved[0])
    averaged = draw_averages(tested)
    if averaged is not None:
        return averaged
    swept = sweeps.find(tested) if grid else []
    return sweeps.draw(swept) if swept else draw_frontier(tested)


def draw_frontier(rows: Sequence[Row]) -> Drawing | None:
    """Draw accuracy against cost for the first benchmark with more than two methods."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.study, row.backbone, row.benchmark), []).append(row)
    return next((accuracy.draw_frontier(group) for group in groups.values() if len(group) > 2), None)


def draw_averages(rows: Sequence[Row]) -> Drawing | None:
    """Draw the macro-averages of the first backbone with more than two; a record that two studies share is one point."""
    points: dict[str, dict[tuple[str, float, float], Row]] = {}
    for one in averages(rows):
        points.setdefault(one.backbone, {}).setdefault((one.method, one.accuracy, one.forwards), one)
    return next((accuracy.draw_averages(list(found.values())) for found in points.values() if len(found) > 2), None)
