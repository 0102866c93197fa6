"""Name of a row → what the paper printed for it: numbers shown beside ours, always labelled as not our runs."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

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
