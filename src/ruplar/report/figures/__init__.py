"""Records → figures with captions; PNG and SVG files in a folder. Which figures there are depends on the records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ruplar import io
from ruplar.report import budgets
from ruplar.report.figures import accuracy, curves, sweeps
from ruplar.report.figures.style import Drawing
from ruplar.report.material import Material, best_thinker, thoughts_of
from ruplar.report.rows import Row
from ruplar.report.sets import is_selection
from ruplar.report.summaries import averages

INDEX = "figures.md"


def draw_all(material: Material) -> list[Drawing]:
    """Draw every figure that the material has data for, results first; names are unique."""
    curved = {group[0].study for group in budgets.curves(material.rows)}
    found = [*draw_curves(material.rows), *draw_averages(material.rows)]
    found += draw_frontiers([row for row in material.rows if row.study not in curved])
    found += _thoughts(material.rows)
    swept = sweeps.find(material.rows)
    found += [sweeps.draw(swept)] if swept else []
    found += [drawing for record in material.benches for drawing in curves.draw_bench(record)]
    found += [curves.draw_training(curve.name, curve.rows) for curve in material.curves if curve.rows]
    return _renamed(found)


def draw_curves(rows: Sequence[Row]) -> list[Drawing]:
    """Draw the learning curves of every study and benchmark that has them."""
    return [accuracy.draw_curves(group) for group in budgets.curves(rows)]


def draw_frontiers(rows: Sequence[Row]) -> list[Drawing]:
    """Draw accuracy against cost for every benchmark with more than two methods; test sets before selection sets."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.study, row.backbone, row.benchmark), []).append(row)
    ordered = sorted(groups.values(), key=lambda group: is_selection(group[0].benchmark))
    return [accuracy.draw_frontier(group) for group in ordered if len(group) > 2]


def draw_averages(rows: Sequence[Row]) -> list[Drawing]:
    """Draw the macro-averages of each backbone; a record that two studies share is one point."""
    points: dict[str, dict[tuple[str, float, float], Row]] = {}
    for one in averages(rows):
        points.setdefault(one.backbone, {}).setdefault((one.method, one.accuracy, one.forwards), one)
    return [accuracy.draw_averages(list(found.values())) for found in points.values() if len(found) > 2]


def _thoughts(rows: Sequence[Row]) -> list[Drawing]:
    row = best_thinker(rows)
    if row is None:
        return []
    found = thoughts_of(row, rows)
    return [curves.draw_statistics(found, f"{row.method} on {row.benchmark}")] if len(found) >= curves.LEAST else []


def _renamed(drawings: Sequence[Drawing]) -> list[Drawing]:
    """Number drawings of the same name from the second on, so that their files differ."""
    seen: dict[str, int] = {}
    found = []
    for drawing in drawings:
        seen[drawing.name] = count = seen.get(drawing.name, 0) + 1
        name = drawing.name if count == 1 else f"{drawing.name}-{count}"
        found.append(replace(drawing, name=name))
    return found


def write_figures(drawings: Sequence[Drawing], folder: str | Path) -> Path:
    """Write each drawing as NAME.png and NAME.svg, and an index `figures.md` with the captions; returns the index."""
    folder = Path(folder)
    lines = ["# Figures", ""]
    for drawing in drawings:
        io.write_bytes(folder / f"{drawing.name}.png", drawing.png())
        io.write_text(folder / f"{drawing.name}.svg", drawing.svg())
        lines += [f"## {drawing.title}", "", f"![{drawing.title}]({drawing.name}.png)", "", drawing.caption, ""]
    return io.write_text(folder / INDEX, "\n".join(lines))
