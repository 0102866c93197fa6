"""Benchmark results → a flat JSON record with stable keys, and tables for the terminal."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import yaml
from rich.table import Table

from ruplar.evaluate.record import commit_of, machine, versions

_SHOWN = yaml.safe_load(Path(__file__).with_name("keys.yaml").read_text(encoding="utf-8"))
KEYS: dict[str, list[str]] = _SHOWN["keys"]
"""Stable keys of each record; its other keys describe how it was measured."""


def about(what: str, shape: str, device: str, dtype: str) -> dict[str, Any]:
    """Return the fields that describe what was measured, on which machine, with which code."""
    on_gpu = torch.device(device).type == "cuda"
    gpu = torch.cuda.get_device_name(device) if on_gpu else None
    here = machine(gpu)
    commit, dirty = commit_of()
    return {
        "what": what,
        "shape": shape,
        "device": torch.device(device).type,
        "dtype": dtype,
        "gpu": gpu,
        "cpu": here.cpu,
        "cores": here.cores,
        "threads": torch.get_num_threads(),
        **versions(),
        "commit": commit,
        "dirty": dirty,
    }


def ratio(above: float | None, below: float | None) -> float | None:
    """Return above / below; None where either is unknown."""
    return None if above is None or not below else above / below


def ordered(record: dict[str, Any]) -> dict[str, Any]:
    """Return the record with its stable keys first."""
    return {**{key: record[key] for key in KEYS[record["what"]]}, **record}


def shown(record: dict[str, Any]) -> list[str | Table]:
    """Return what was measured, the stable fields of the record, and its rows or its values by batch size."""
    what = record["what"]
    title = " · ".join(str(record[key]) for key in ("what", "shape", "dtype")) + f" · {record['gpu'] or record['cpu']}"
    single = [(key, record[key]) for key in KEYS[what][4:] if not isinstance(record[key], dict | list)]
    found: list[str | Table] = [title, _table(("field", "value"), single)]
    columns = _SHOWN["columns"].get(what, [])
    if "rows" in record:
        found.append(_table(columns, [[row[key] for key in columns] for row in record["rows"]]))
    elif columns:
        batches = record[columns[0]]
        found.append(_table(["batch", *columns], [[b, *(record[key][b] for key in columns)] for b in batches]))
    return found


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    made = Table(*(name.replace("_", " ") for name in columns))  # so that long names wrap
    for row in rows:
        made.add_row(*map(_cell, row))
    return made


def _cell(value: Any) -> str:
    if not isinstance(value, float):
        return "–" if value is None else str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
