"""Real records of the embedded model, and rows made from them for what no record holds yet."""

import copy
from dataclasses import replace
from pathlib import Path

from ruplar.report.rows import Row

RECORDS = Path(__file__).parents[2] / "results" / "embedded"


def folder(method: str) -> Path:
    """The record of one embedded model: `ruplar`, `no_cot` or `backbone`."""
    return sorted(RECORDS.glob(f"embedded-{method}-seed*"))[0]


def variant(row: Row, name: str, accuracy: float, **settings) -> Row:
    """The row under another name and accuracy, its config changed at dotted places written with __."""
    run = row.runs[0]
    config = copy.deepcopy(run.record.config)
    config["name"] = name
    for place, value in settings.items():
        part, _, setting = place.partition("__")
        config[part][setting] = value
    record = run.record.model_copy(update={"config": config, "name": name})
    return replace(
        row, method=name, accuracy=accuracy, low=accuracy - 2, high=accuracy + 1, runs=(replace(run, record=record),)
    )
