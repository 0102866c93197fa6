"""Records → figures, each with a caption that explains it; PNG and SVG files in a folder.

Which figures there are depends on what was recorded: none is drawn from nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ruplar.report.averages import Average, averages
from ruplar.report.figures import ablation, frontier, overview, speed, statistics, sweeps, thought, training
from ruplar.report.figures.style import Drawing
from ruplar.report.material import Material, best_thinker, thoughts_of
from ruplar.report.rows import Row
from ruplar.report.thoughts import pick

INDEX = "figures.md"


def draw_all(material: Material) -> list[Drawing]:
    """Every figure the material has something for, the most telling first; each under a name of its own."""
    found = [*_averages(material.rows), *_frontiers(material.rows)]
    found += [ablation.draw(name, rows) for name, rows in material.ablations.items()]
    found += _thoughts(material.rows)
    swept = sweeps.find(material.rows)
    found += [sweeps.draw(swept)] if swept else []
    found += [speed.draw(record) for record in material.benches if record["what"] in speed.DRAWN]
    found += [training.draw(curve.name, curve.rows) for curve in material.curves if curve.rows]
    return _renamed(found)


def _frontiers(rows: Sequence[Row]) -> list[Drawing]:
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.study, row.backbone, row.benchmark), []).append(row)
    return [frontier.draw(group) for group in groups.values() if len(group) > 2]


def _averages(rows: Sequence[Row]) -> list[Drawing]:
    """A picture for every backbone; a record that two studies share is one point."""
    points: dict[str, dict[tuple[str, float, float], Average]] = {}
    for one in averages(rows, {}):
        points.setdefault(one.backbone, {}).setdefault((one.method, one.accuracy, one.forwards), one)
    return [overview.draw(list(found.values())) for found in points.values() if len(found) > 2]


def _thoughts(rows: Sequence[Row]) -> list[Drawing]:
    """One thought and the statistics of all, of the best row that thinks."""
    row = best_thinker(rows)
    if row is None:
        return []
    found = thoughts_of(row, rows)
    one = pick(found) or pick(found, correct=False)
    drawings = [thought.draw(one)] if one else []
    if len(found) >= statistics.LEAST:
        drawings.append(statistics.draw(found, f"{row.method} on {row.benchmark}"))
    return drawings


def _renamed(drawings: Sequence[Drawing]) -> list[Drawing]:
    """Drawings of one name are numbered from the second on: their files must not replace each other."""
    seen: dict[str, int] = {}
    found = []
    for drawing in drawings:
        seen[drawing.name] = count = seen.get(drawing.name, 0) + 1
        name = drawing.name if count == 1 else f"{drawing.name}-{count}"
        found.append(Drawing(name, drawing.title, drawing.caption, drawing.figure))
    return found


def write(drawings: Sequence[Drawing], folder: str | Path) -> Path:
    """Each as NAME.png and NAME.svg, and `figures.md`, which shows them with their captions."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["# Figures", ""]
    for drawing in drawings:
        (folder / f"{drawing.name}.png").write_bytes(drawing.png())
        (folder / f"{drawing.name}.svg").write_text(drawing.svg(), encoding="utf-8")
        lines += [f"## {drawing.title}", "", f"![{drawing.title}]({drawing.name}.png)", "", drawing.caption, ""]
    index = folder / INDEX
    index.write_text("\n".join(lines), encoding="utf-8")
    return index
