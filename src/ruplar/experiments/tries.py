"""Rows with tries → the settings that answer most validation questions correctly, chosen once all tries are over.

RESULTS/STUDY/picked.json     group of tries → its choice, the seed of its tries and their accuracies; what is on record is kept

Tries that set a value of the grid, e.g. a larger budget, are a group of their own: they choose for that value and the later
ones. Every row of a table should have as many tries as the others. A try whose training failed cannot be chosen; one that was
killed is run again first.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ruplar.config import RunConfig
from ruplar.errors import UserError, unknown
from ruplar.evaluate.record import RECORD, read_record
from ruplar.experiments.plan import find_study, load_study, plan, rows_of, tries_of
from ruplar.experiments.storage import FAILED, Places
from ruplar.experiments.study import VALID, Study, folder_name
from ruplar.io import write_json

PICKED = "picked.json"


def picks_of(study: Study, places: Places, write: bool = False) -> dict[str, dict[str, Any]]:
    """Return the choices on record and those of rows whose tries are over; with `write`, these are put on record."""
    file = places.results / PICKED
    known: dict[str, dict[str, Any]] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    found = dict(known)
    groups = tries_of(study)
    for group, tries in groups.items():
        scores = {label: _accuracy(label, study.seeds[0], places) for label in tries}
        over = {label: score for label, score in scores.items() if score is not None and score >= 0}
        if group not in known and over and None not in scores.values():
            best = max(over, key=lambda label: over[label])  # the first of equal ones
            found[group] = {"settings": tries[best], "seed": study.seeds[0], "valid": over}
    if write and found != known:
        write_json(file, found)
    return {group: pick for group, pick in found.items() if group in groups}


def row_config(row: str, overrides: Sequence[str] = ()) -> tuple[RunConfig, tuple[str, ...]]:
    """Return the config with which a study trains one row (`STUDY:LABEL`), and the settings applied to its recipe."""
    name, _, label = row.partition(":")
    study = load_study(name)
    seeds = [int(one.removeprefix("seed=")) for one in overrides if re.fullmatch(r"seed=\d+", one)]
    picks = picks_of(study, Places(Path("results") / study.name, Path("runs") / study.name))
    rows = rows_of(study)
    if label not in rows:
        raise UserError(f"--row: {unknown('row', label, rows)} Write STUDY:LABEL, e.g. main:CODI.")
    alone = {key: row for key, row in study.rows.items() if key in (rows[label], study.rows[rows[label]].trained_in)}
    study = study.model_copy(update={"rows": alone, "controls": (), "seeds": seeds[-1:] or study.seeds[:1]})
    every = plan(study, overrides, find_study(name).parent, check_init=False, picks=picks)
    cells = {cell.label: cell for cell in every}
    if label not in cells:
        raise UserError(f"--row: '{label}' needs a choice among its tries. Run `ruplar study {name}` first.")
    if cells[label].of is not None:
        raise UserError(f"--row: '{label}' trains no model; it evaluates that of '{cells[label].of}'.")
    return cells[label].config, cells[label].overrides


def _accuracy(label: str, seed: int, places: Places) -> float | None:
    """Validation accuracy of a try; -1 where it failed, None where it is not over or will be run again."""
    name = folder_name(label, seed)
    if (places.results / name / RECORD).is_file():
        results = read_record(places.results / name).benchmarks
        return next((result.accuracy for result in results if result.name == VALID), None)
    file = places.work / name / FAILED
    failed = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
    return None if failed is None or failed["again"] or failed.get("killed") else -1.0
