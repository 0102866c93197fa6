"""A study and overrides → its cells: one checked config per row and seed, all trained under equal conditions.

Later settings win: recipe, study, row, grid, command line.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruplar.config import RunConfig, load_recipe
from ruplar.data.locations import KNOWN_SETS, known_as, locate
from ruplar.data.scenarios import JOINED
from ruplar.domains.base import Domain
from ruplar.errors import UserError
from ruplar.evaluate.question_sets import Part, open_questions
from ruplar.evaluate.record import TRY
from ruplar.experiments.study import (
    VALID,
    RowSettings,
    Study,
    find_study,
    folder_name,
    load_study,
    named,
    studies,
    unequal,
)

__all__ = ["Cell", "Study", "find_study", "load_study", "plan", "rows_of", "studies"]

log = logging.getLogger(__name__)

_Read = Callable[[RowSettings, Sequence[str]], RunConfig]
Picks = Mapping[str, Mapping[str, Any]]
"""Row → the `settings` chosen among its tries, and the `seed` of the tries."""


@dataclass(frozen=True)
class Cell:
    """One row with one seed: one training and its evaluation."""

    label: str  # the row's label, with the values of the grid
    seed: int
    # checked; for a row that evaluates another row's model, that row's with this row's method settings
    config: RunConfig
    overrides: tuple[str, ...]
    of: str | None = None  # the row whose model is evaluated; None when this cell trains its own
    printed: str | None = None  # the paper's name for the row
    # method settings of a row that evaluates another row's model, in place of those it was trained with
    inference: Mapping[str, Any] = field(default_factory=dict)
    soup: tuple[int, ...] = ()  # the seeds of `of` whose weights are averaged; empty: the model of this cell's seed

    def needs(self, other: Cell) -> bool:
        """Return whether it evaluates the model that the other cell trains, or a soup with it."""
        return self.of == other.label and other.seed in (self.soup or (self.seed,))

    @property
    def name(self) -> str:
        """Name of its folder."""
        return folder_name(self.label, self.seed)


def plan(
    study: Study,
    overrides: Sequence[str] = (),
    folder: Path | None = None,
    *,
    check_files: bool = True,
    check_init: bool = True,
    picks: Picks | None = None,
    data_dir: Path | None = None,
) -> list[Cell]:
    """Return all cells of a study, seed by seed, so that an interrupted study has complete seeds; tries come first.

    A row with tries has only these until `picks` has its choice. Without `check_init` nothing is run, so evaluation sets may be missing.
    """
    problems: dict[str, list[str]] = {}

    def read(row: RowSettings, overrides: Sequence[str]) -> RunConfig:
        return load_recipe(recipe_of(row, folder), overrides, check_files=check_files, check_init=check_init)

    cells: list[Cell] = []
    labels: dict[str, None] = {}
    for seed in study.seeds:
        for found in [*_tries(study, seed, picks or {}), *_rows(study, picks or {})]:
            label, row, given, _ = found
            soup = _soup(study, row, seed)
            if row.soup_of is not None and not soup:
                continue
            labels[label] = None
            last = [*given, *overrides, f"seed={soup[0] if soup else seed}"]
            try:
                cells.append(_cell(study, found, last, read, soup))
            except UserError as error:
                for problem in error.problems:
                    problems.setdefault(problem, []).append(label)
        if problems:
            break  # the next seed has the same problems
    every = ["all rows" if len(rows) == len(labels) > 1 else f"rows.{', '.join(rows)}" for rows in problems.values()]
    wrong = [f"{rows}: {problem}" for rows, problem in zip(every, problems, strict=True)]
    if not wrong:
        _warn_of_missing_soups(study, cells)
        wrong += unequal({cell.label: cell.config for cell in cells if cell.of is None}, study.controls)
        domain = cells[0].config.data.domain.make()
        wrong += _set_problems(study, domain, data_dir) if check_files and check_init else []
    if wrong:
        raise UserError(*wrong, where=f"study {study.name}")
    return cells


def rows_of(study: Study) -> dict[str, str]:
    """Label → key in the study of all rows, one for each combination of a grid, in the order of the table; tries come last."""
    keys = {id(row): key for key, row in study.rows.items()}
    return {label: keys[id(row)] for label, row, *_ in _every_row(study)}


def tries_of(study: Study) -> dict[str, dict[str, dict[str, Any]]]:
    """Group of tries → label of each try → its settings.

    A group is named after its row. Tries that set a value of the grid are a group of their own, named after that value too.
    """
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for label, row in study.rows.items():
        for one in row.tries:
            group = named(label, {key: one[key] for key in study.points(row)[0] if key in one})
            found.setdefault(group, {})[named(label + TRY, one)] = one
    return found


def _set_problems(study: Study, domain: Domain, data_dir: Path | None) -> Iterator[str]:
    """Yield what would fail after training: sets that cannot be found or, but for test sets, read; test sets under `on:`."""
    of_ablation = [study.ablate] if study.ablate is not None and study.ablate not in study.test else []
    for place, sources in (("on", study.on), ("ablate", of_ablation), ("test", study.test)):
        for source in (one for one in sources if not one.is_generated and one.source != VALID):
            try:
                if place == "test":
                    for name in JOINED.get(source.source, (source.source,)):
                        locate(name, data_dir)
                    continue
                [questions] = open_questions([Part(source.name, source)], domain, data_dir=data_dir)
                for name in (one for one in known_as(questions.examples) if KNOWN_SETS[one].test):
                    yield f"{place}: '{source.name}' has the content of '{name}', a test set; list it under test:"
            except UserError as error:
                yield f"{place}: {error}"


def _warn_of_missing_soups(study: Study, cells: Sequence[Cell]) -> None:
    for label, row in study.rows.items():
        if row.soup_of is not None and label not in {cell.label for cell in cells}:
            log.warning("row '%s' is left out: %d seeds are too few for a soup.", label, len(study.seeds))


def _soup(study: Study, row: RowSettings, seed: int) -> tuple[int, ...]:
    """Return the seeds of the soup that this seed completes; () for another seed, or where seeds are left over."""
    size, at = row.size or len(study.seeds), study.seeds.index(seed) + 1
    if row.soup_of is None or at % size or size < 2:
        return ()
    return study.seeds[at - size : at]


_Row = tuple[str, RowSettings, list[str], str | None]
"""Label, row, the settings of its place in the grid, and the label of the row whose model it evaluates."""


def _rows(study: Study, picks: Picks) -> Iterator[_Row]:
    groups = tries_of(study)
    for label, row in study.rows.items():
        group = trained = row.trained_in or label
        for chosen in study.points(row):
            own = named(trained, chosen)
            group = own if own in groups else group  # its choice is for this budget and the later ones
            if group in groups and group not in picks:
                continue
            picked = picks[group]["settings"] if group in picks else {}
            yield named(label, chosen), row, _written({**picked, **chosen}), own if row.trained_in else None


def _tries(study: Study, seed: int, picks: Picks) -> Iterator[_Row]:
    """The tries of every row, at the first values of the grid and with one seed: the study's first, or that on record."""
    for group, tries in tries_of(study).items():
        if seed == (picks[group]["seed"] if group in picks else study.seeds[0]):
            for label, one in tries.items():
                row = study.rows[label.partition(TRY)[0]]
                yield label, row, _written({**study.points(row)[0], **one}), None


def _every_row(study: Study) -> list[_Row]:
    every = {label: {"settings": {}, "seed": 0} for label in tries_of(study)}
    return [*_rows(study, every), *_tries(study, study.seeds[0], {})]


def _cell(study: Study, found: _Row, last: Sequence[str], read: _Read, soup: tuple[int, ...]) -> Cell:
    label, row, _, of = found
    base = study.rows[row.trained_in] if row.trained_in else row
    sets = [study.set, base.set, *([row.set] if row.of is not None else [])]
    overrides = [*(one for part in sets for one in _written(part)), *last]
    config = read(base, overrides)
    if config.data.valid is None and VALID in [source.source for source in (*study.on, study.ablate) if source]:
        raise UserError(f"on: and ablate: {VALID} needs a validation set, but its recipe has none (data.valid).")
    inference = {} if row.of is None else {key.removeprefix("method."): value for key, value in row.set.items()}
    return Cell(label, config.seed, config, tuple(overrides), of, study.printed.get(label), inference, soup)


def recipe_of(row: RowSettings, folder: Path | None) -> str:
    """Return the recipe of a row; a relative path is relative to the study's folder or the working directory."""
    name = str(row.recipe)
    beside = folder is not None and name.endswith((".yaml", ".yml")) and (folder / name).is_file()
    return f"{folder}/{name}" if beside else name


def _written(settings: Mapping[str, Any]) -> list[str]:
    return [f"{key}={json.dumps(value)}" for key, value in settings.items()]
