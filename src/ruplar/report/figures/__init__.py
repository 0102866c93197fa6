"""Rows → figures with captions. Which figure a page has depends on the records."""

from collections.abc import Sequence

from ruplar.report import budgets
from ruplar.report.figures import accuracy, sweeps
from ruplar.report.figures.growth import draw_growth
from ruplar.report.figures.style import Drawing
from ruplar.report.rows import Row, by_benchmark
from ruplar.report.sets import is_selection
from ruplar.report.summaries import averages

__all__ = ["draw", "draw_growth"]


def draw(rows: Sequence[Row], grid: bool) -> Drawing | None:
    """Draw learning curves, else macro-averages, else the sweeps of a grid, else accuracy against cost on the first test set.

    Only of test sets; None where there is too little to draw.
    """
    tested = [row for row in rows if not is_selection(row.benchmark)]
    curved = budgets.curves(tested)
    if curved:
        return accuracy.draw_curves(curved[0])
    several = _several(averages(tested))
    swept = sweeps.find(tested) if grid and not several else []
    if swept:
        return sweeps.draw(swept)
    several = several or _several(tested)
    return accuracy.draw_frontier(several) if several else None


def _several(rows: Sequence[Row]) -> list[Row]:
    """Choose the first study, backbone and benchmark with more than two methods."""
    return next((group for group in by_benchmark(rows) if len(group) > 2), [])
