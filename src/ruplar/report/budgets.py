"""Rows of a study with a grid over `training.max_steps` → learning curves: accuracy against the examples seen.

A method has stopped improving when the last doubling of its budget gained less than the 95 % confidence interval of that gain.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ruplar.report.marks import marked
from ruplar.report.rows import Row, apart, place_of
from ruplar.report.sets import is_selection
from ruplar.report.table import MINUS, NONE, Table

STOPPED = (
    "Accuracy in percent ± half its 95 % confidence interval, by training examples seen. Gain: points per doubling of the budget, "
    "between the last two budgets; its interval treats the two as independent. A gain within its interval: no longer improving, or "
    "unclear where the interval is wider than ±3 points; fell: a loss beyond its interval. Seeds a/b: a at some budgets, b at others."
)
_CLEAR = 3.0
"""Half an interval, in points per doubling, up to which it says that a method has stopped improving."""


@dataclass(frozen=True)
class Curve:
    """One method on one benchmark: examples seen → row, ascending; at least two."""

    method: str
    benchmark: str
    points: dict[int, Row]
    where: str = ""  # its study and backbone, where curves of several are beside each other

    @property
    def last(self) -> Row:
        return list(self.points.values())[-1]

    @property
    def gain(self) -> tuple[float, float]:
        """Points per doubling between the last two budgets, and half of its 95 % confidence interval."""
        (few, before), (many, after) = list(self.points.items())[-2:]
        doublings = math.log2(many / few)
        half = math.hypot(*((row.high - row.low) / 2 for row in (before, after)))
        return (after.accuracy - before.accuracy) / doublings, half / doublings

    @property
    def trend(self) -> str:
        """Return whether the method still improves: yes, no, fell or unclear."""
        gain, half = self.gain
        if abs(gain) > half:
            return "yes" if gain > 0 else "fell"
        return "no" if half <= _CLEAR else "unclear"


def curves(rows: Iterable[Row]) -> list[list[Curve]]:
    """Find what a study trained for several numbers of updates, by study, backbone and benchmark, without tries and selection sets."""
    found: dict[tuple[str, str, str, str], dict[int, Row]] = {}
    for row in rows:
        training = row.runs[0].record.config.get("training", {}) if row.runs else {}
        tail = f" max_steps={training.get('max_steps')}"
        if row.study and not is_selection(row.benchmark) and tail in row.method:
            batch = training.get("per_device_train_batch_size", 8) * training.get("gradient_accumulation_steps", 1)
            key = row.study, row.backbone, row.benchmark, row.method.replace(tail, "")
            found.setdefault(key, {})[training["max_steps"] * batch] = row
    found = {key: points for key, points in found.items() if len(points) > 1}
    names = [name for name in apart(row for points in found.values() for row in points.values()) if name != "method"]
    groups: dict[tuple[str, ...], list[Curve]] = {}
    for (*group, method), points in found.items():
        where = "".join(f", {cell}" for cell in place_of(next(iter(points.values())), names))
        groups.setdefault(tuple(group), []).append(Curve(method, group[-1], dict(sorted(points.items())), where))
    return list(groups.values())


def curves_table(found: Sequence[Curve]) -> Table:
    """Make the table of one group of `curves`: accuracy at each budget, forward passes, and whether a method still improves."""
    budgets = sorted({budget for curve in found for budget in curve.points})
    lines = []
    for curve in found:
        cells = (curve.points.get(budget) for budget in budgets)
        gain, half = curve.gain
        lines.append(
            (
                curve.method,
                "/".join(sorted({str(len(row.seeds)) for row in curve.points.values()})),
                *(NONE if row is None else f"{row.accuracy:.1f} ±{(row.high - row.low) / 2:.1f}" for row in cells),
                f"{curve.last.forwards:.1f}",
                f"{gain:+.1f} ±{half:.1f}".replace("-", MINUS),
                curve.trend,
            )
        )
    names = ("method", "seeds", *(f"{budget / 1e6:.1f} M" for budget in budgets))
    title = f"Learning curves on {found[0].benchmark}{found[0].where}"
    table = Table((*names, "forward passes", "gain", "still improving"), tuple(lines), 1, title, STOPPED)
    return marked(table, [replace(row, method=curve.method) for curve in found for row in curve.points.values()])
