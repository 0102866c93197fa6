"""Name of a row → what the paper printed for it: numbers shown beside ours, always labelled as not our runs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("paper.json")
MAIN = "main"
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


@dataclass(frozen=True)
class Printed:
    """One row of one of the paper's tables.

    Attributes:
        table: main, ablation, k2, backbones, gumbel sweep, lambda sweep or efficiency.
        method: The row's name.
        backbone: What it was trained on.
        cells: Benchmark → its figures: accuracy, latents, and for efficiency ms_per_question and peak_gb.
        remark: Known errors, or another paper the row was copied from.
    """

    table: str
    method: str
    backbone: str
    cells: dict[str, dict[str, float | None]]
    remark: str = ""


def about() -> dict[str, Any]:
    """`paper`, `label` and `conditions`: what every table of printed numbers must state."""
    return {key: value for key, value in _file().items() if key != "rows"}


def printed(method: str | None = None, table: str | None = None) -> list[Printed]:
    """The printed rows of this name, of this table; all of them when neither is given."""
    rows = (
        Printed(r["table"], r["method"], r["backbone"], r["benchmarks"], r.get("remark", "")) for r in _file()["rows"]
    )
    return [row for row in rows if method in (None, row.method) and table in (None, row.table)]


@lru_cache(maxsize=1)
def _file() -> dict[str, Any]:
    return json.loads(FILE.read_text(encoding="utf-8"))
