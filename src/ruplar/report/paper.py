"""Rows → what the paper printed for them: a table of its numbers beside ours, always labelled as not our runs."""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from ruplar.evaluate.record import study_of
from ruplar.report.marks import marked
from ruplar.report.rows import Row, apart, place_of
from ruplar.report.sets import is_selection
from ruplar.report.table import NONE, Table

BENCHMARKS = {
    "gsm8k-aug": "GSM8K",
    "gsm-hard": "GSM-Hard",
    "svamp": "SVAMP",
    "multiarith": "MultiArith",
    "average": "macro-average",
}
"""The paper's columns, in the order of every table: benchmark → heading."""
FOUR = tuple(name for name in BENCHMARKS if name != "average")
"""The benchmarks that the macro-average is over."""


@lru_cache(maxsize=1)
def printed() -> dict[str, Any]:
    """What the paper's tables hold: `label` states whose numbers they are, `rows` have `method`, `benchmarks`, `remark`."""
    return json.loads(Path(__file__).with_name("paper.json").read_text(encoding="utf-8"))


def printed_rows() -> dict[str, dict[str, Any]]:
    """Method → its row; the first one where several tables have it."""
    return {row["method"]: row for row in reversed(printed()["rows"])}


def printed_table(rows: Sequence[Row]) -> Table:
    """Our accuracies on test sets beside what the paper printed under the same name; empty when it printed none of them."""
    rows = [row for row in rows if not is_selection(row.benchmark)]
    names, known = printed_names(rows), printed_rows()
    benchmarks = list(dict.fromkeys(row.benchmark for row in rows))
    ours = {(place_of(row), row.benchmark): row for row in rows}
    place, lines, remarks = apart(rows), list[tuple[str, ...]](), list[str]()

    def add(own: Sequence[str], label: str, name: str, cells: Sequence[Row | None]) -> None:
        printed = known[name]
        found = (NONE if row is None else f"{row.accuracy:.1f} / {row.latents:.2f}" for row in cells)
        lines.append((*own, *found, *(_printed_cell(printed["benchmarks"].get(name)) for name in BENCHMARKS)))
        remarks.extend([f"{label}: {printed['remark']}."] if "remark" in printed else [])

    for row in {place_of(row): row for row in rows if (row.study, row.method) in names}.values():
        cells = [ours.get((place_of(row), benchmark)) for benchmark in benchmarks]
        add(place_of(row, place), row.method, names[row.study, row.method], cells)
    for study, label, name in ((s, *pair) for s, of in _stated(rows, "not_run").items() for pair in of.items()):
        own = {"study": study, "method": label}
        add([own.get(column, NONE) for column in place], label, name, [None] * len(benchmarks))
    label = printed()["label"]
    note = f"Accuracy / #L. Ours: this study's backbone and data. Printed: {label}. {' '.join(remarks)}"
    heads = [f"ours, {BENCHMARKS.get(name, name)}" for name in benchmarks]
    heads += [f"printed, {name}" for name in BENCHMARKS.values()]
    return marked(
        Table((*place, *heads), tuple(lines), len(place), "Ours and the paper's", note.strip() if lines else ""), rows
    )


def _stated(rows: Sequence[Row], key: str) -> dict[str, Mapping[str, str]]:
    """Study → what its study.json states under `printed` or `not_run`: its own label → the paper's name."""
    found: dict[str, Mapping[str, str]] = {}
    for row in rows:
        for run in row.runs[:1] if row.study else ():
            found.setdefault(row.study, study_of(run.folder.parent).get(key, {}))
    return found


def printed_names(rows: Sequence[Row]) -> dict[tuple[str, str], str]:
    """(Study, method) → the paper's name for it: as the study states, else the same name; left out where there is none."""
    known, stated = printed_rows(), _stated(rows, "printed")
    found = {(row.study, row.method): stated.get(row.study, {}).get(row.method, row.method) for row in rows}
    return {key: name for key, name in found.items() if key[0] and name in known}


def _printed_cell(cell: Mapping[str, float | None] | None) -> str:
    if cell is None:
        return NONE
    latents = cell.get("latents")
    return f"{cell['accuracy']:g}" + ("" if latents is None else f" / {latents:g}")
