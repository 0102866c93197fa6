"""A study file and overrides → its cells: one checked config a row and seed, all made under the same conditions.

    name: main
    recipes: [embedded-cot, embedded-no_cot]           rows named after their recipes, or
    rows:                                              label → recipe and what is set otherwise
      RuPLaR-Mix: embedded-ruplar
      RuPLaR-Temp: {recipe: embedded-ruplar, set: {prior.name: temperature}}
      CoLaR-2: {of: CoLaR-5, set: {method.compression: 2}}      the other row's model, asked under other settings
      Mix mean: {mean_of: RuPLaR-Mix, take: 3}           the mean of the weights of three seeds' models of that row
    grid: {prior.operand_share: [0.1, 0.2]}            every row once for each combination
    seeds: [1, 2, 3]
    on: [valid, word-problems]                         valid: the recipe's own validation questions, to choose by
    set: {training.max_steps: 600}                     for all rows
    same: [data, steps, batch, init, adapter, prompt]  what must be equal
    base: _embedded                                    another study this one holds only the differences to

Later settings win: recipe, study, row, grid, command line.
"""

from __future__ import annotations

import itertools
import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from ruplar.config import RunConfig, from_dict, load_recipe, recipes
from ruplar.config.check import explain
from ruplar.config.text import merge, parse
from ruplar.data.sources import SourceConfig
from ruplar.errors import UserError, unknown
from ruplar.experiments.controls import problems
from ruplar.settings import Settings

log = logging.getLogger(__name__)

FOLDER = Path(__file__).parents[1] / "studies"
"""Where the packaged studies are."""
VALID = "valid"

Aspect = Literal["data", "steps", "batch", "init", "adapter", "prompt", "optimiser"]
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._,=+-]*")


class RowSettings(Settings):
    """One row of the table."""

    recipe: str | None = Field(None, description="A packaged recipe, or a file seen from the study's folder.")
    of: str | None = Field(None, description="Ask the model trained in this row, under other settings of its method.")
    mean_of: str | None = Field(None, description="Ask the mean of the weights of this row's models (`average`).")
    take: int | None = Field(
        None, ge=2, description="With mean_of, seeds to a mean: the first so many, the next, …; all when left out."
    )
    set: dict[str, Any] = Field({}, description="Dotted settings of this row.")
    grid: dict[str, list[Any]] = Field({}, description="Dotted setting → values; the row once for each combination.")
    printed: str | None = Field(None, description="The paper's name for this row, when it is another.")

    @model_validator(mode="before")
    @classmethod
    def _bare_recipe(cls, value: Any) -> Any:
        return {"recipe": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one_model(self) -> RowSettings:
        if [self.recipe, self.of, self.mean_of].count(None) != 2:
            raise ValueError("a row has either a recipe, or of: or mean_of: the row whose model or models it asks")
        if self.mean_of is not None and (self.set or self.grid):
            raise ValueError("the mean of a row's models is asked as they are: mean_of goes with no set and no grid")
        if self.take is not None and self.mean_of is None:
            raise ValueError("take says how many models a mean is of: it goes with mean_of")
        return self

    @property
    def trained_in(self) -> str | None:
        """The row whose models it asks; None when it trains its own."""
        return self.of or self.mean_of


class Study(Settings):
    """What a study file may say."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="Names its folder under results.")
    about: str = Field("", description="What it is to find out, in a sentence.")
    recipes: tuple[str, ...] = Field((), description="Rows named after their recipes.")
    rows: dict[str, RowSettings] = Field({}, description="Label → row; their order is that of the table.")
    seeds: tuple[int, ...] = Field((1, 2, 3), min_length=1, description="Each row is trained once with each.")
    on: tuple[SourceConfig, ...] = Field(min_length=1, description="What every model is asked; valid: validation.")
    set: dict[str, Any] = Field({}, description="Dotted settings of all rows: the budget, say.")
    grid: dict[str, list[Any]] = Field({}, description="Dotted setting → values; all rows once for each combination.")
    same: tuple[Aspect, ...] = Field(
        ("data", "steps", "batch", "init", "adapter", "prompt"), description="What all rows must have in common."
    )
    ablate: SourceConfig | None = Field(None, description="Also replace the latents, on these questions.")
    latency_questions: int = Field(0, ge=0, description="Ask so many questions one at a time too, for ms_batch1.")
    batch_size: int = Field(64, ge=1, description="Questions answered at a time.")
    engine: Literal["auto", "fast", "reference"] = Field(
        "auto", description="What answers them: the fast engine (auto, fast) or the plain loop (reference)."
    )
    readable: int = Field(
        100, ge=0, description="Questions of each set whose latents are kept readable, the first ones."
    )
    reference: str | None = Field(None, description="The row others are tested against, besides the best.")
    printed: dict[str, str] = Field({}, description="Label → the paper's name for it; for the cells of a grid.")
    not_run: dict[str, str] = Field(
        {}, description="Label → the paper's name, of what it printed and nobody here has run."
    )

    @model_validator(mode="after")
    def _fits(self) -> Study:
        wrong = []
        if bool(self.recipes) == bool(self.rows):
            wrong.append("a study has either recipes or rows")
        if len(set(self.seeds)) < len(self.seeds):
            wrong.append(f"seeds: {list(self.seeds)} names one twice")
        wrong += [f"rows.{label}: a label has letters, digits, spaces and ._,=+-" for label in self.rows if not _LABEL.fullmatch(label)]  # fmt: skip
        for label, row in self.rows.items():
            if row.trained_in is not None:
                key, base = "of" if row.of else "mean_of", self.rows.get(row.trained_in)
                if base is None or base.recipe is None:
                    wrong.append(f"rows.{label}.{key}: '{row.trained_in}' is not a row that is trained")
                elif self.grid or base.grid or row.grid:
                    wrong.append(f"rows.{label}.{key}: of a row with a grid it is not said which model is meant")
            if row.of is not None and (bad := [key for key in row.set if not key.startswith("method.")]):
                wrong.append(f"rows.{label}.set: {bad[0]} cannot change once the model of '{row.of}' is trained")
        if self.reference is not None and self.reference not in {*self.rows, *self.recipes}:
            wrong.append(unknown("row", self.reference, {*self.rows, *self.recipes}).rstrip("."))
        if wrong:
            raise ValueError("; ".join(wrong))
        return self


@dataclass(frozen=True)
class Cell:
    """One row with one seed: what is trained once and asked once.

    Attributes:
        label: The row's, with the grid's values.
        seed: Of the training.
        config: Checked; for a row that asks another's model, that one's with this row's method settings.
        overrides: What was laid on the recipe, in order.
        of: The label whose model is asked; None when this cell trains its own.
        mean: The seeds of that label whose models' mean is asked; empty: the model of this cell's seed.
        printed: The paper's name for the row.
        asks: Settings of the method for a row that asks another's model, in place of those it was trained with.
    """

    label: str
    seed: int
    config: RunConfig
    overrides: tuple[str, ...]
    of: str | None = None
    printed: str | None = None
    asks: Mapping[str, Any] = field(default_factory=dict)
    mean: tuple[int, ...] = ()

    def needs(self, other: Cell) -> bool:
        """Whether it asks the model the other one trains, or a mean with it."""
        return self.of == other.label and other.seed in (self.mean or (self.seed,))

    @property
    def name(self) -> str:
        """Its folder's name."""
        return folder_name(self.label, self.seed)

    def as_dict(self) -> dict[str, Any]:
        """Plain data; `from_dict` reads it back."""
        plain = {key: getattr(self, key) for key in ("label", "seed", "of", "printed", "asks")}
        lists = {"overrides": list(self.overrides), "mean": list(self.mean)}
        return {**plain, **lists, "config": self.config.as_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Cell:
        """What `as_dict` wrote → the cell."""
        config = from_dict(data["config"], f"the plan of {data['label']}")
        return cls(
            **{**data, "config": config, "overrides": tuple(data["overrides"]), "mean": tuple(data.get("mean", ()))}
        )


def folder_name(label: str, seed: int) -> str:
    """`LABEL-seedN`, blanks and commas as underscores."""
    return f"{re.sub(r'[ ,]+', '_', label)}-seed{seed}"


def studies() -> dict[str, str]:
    """Packaged studies: name → the first line of its heading."""
    files = sorted(FOLDER.glob("[!_]*.yaml"))
    return {f.stem: f.read_text(encoding="utf-8").split("\n", 1)[0].lstrip("# ") for f in files}


def find_study(name_or_path: str) -> Path:
    """A packaged study by name, or any by path."""
    if name_or_path.endswith((".yaml", ".yml")):
        if not Path(name_or_path).is_file():
            raise UserError(f"no study file '{name_or_path}'.")
        return Path(name_or_path)
    if name_or_path not in studies():
        known = unknown("study", name_or_path, studies())
        raise UserError(f"{known} A study of your own is given by its path, FILE.yaml.")
    return FOLDER / f"{name_or_path}.yaml"


def load_study(name_or_path: str, changes: Mapping[str, Any] | None = None) -> Study:
    """A study, checked; `changes` replaces whole entries of it (seeds, on).

    Raises:
        UserError: With all its problems.
    """
    file = find_study(name_or_path)
    data = _read(file)
    try:
        return Study.model_validate({**data, **{k: v for k, v in (changes or {}).items() if v is not None}})
    except ValidationError as error:
        raise UserError(*(explain(detail, Study) for detail in error.errors()), where=str(file)) from error


def _read(file: Path, below: tuple[Path, ...] = ()) -> dict[str, Any]:
    """The file's data laid on its base's."""
    data = parse(file.read_text(encoding="utf-8"), where=str(file))
    if not isinstance(data, Mapping):
        raise UserError("a study is a list of entries (key: value); this file has none.", where=str(file))
    rest = {key: value for key, value in data.items() if key != "base"}
    if "base" not in data:
        return rest
    beside = file.parent / f"{data['base']}".removesuffix(".yaml")
    base = next(
        (f for f in (beside.with_name(f"{beside.name}.yaml"), FOLDER / f"{data['base']}.yaml") if f.is_file()), None
    )
    if base is None or base in (*below, file):
        raise UserError(f"base: there is no study '{data['base']}' to build on.", where=str(file))
    return merge(_read(base, (*below, file)), rest)


def plan(
    study: Study,
    overrides: Sequence[str] = (),
    folder: Path | None = None,
    *,
    check_files: bool = True,
    check_init: bool = True,
    wanted: Callable[[str], bool] = lambda label: True,
) -> list[Cell]:
    """All cells of a study, seed by seed, so that a study cut short has whole seeds; a mean with the last of its seeds.

    Args:
        study: Checked.
        overrides: From the command line, laid on every row.
        folder: Where recipes given by a relative path are looked for.
        check_files: Whether data files and folders must exist; off for listing.
        check_init: Whether the runs they start from must be there too; off where no weights are needed.
        wanted: Label → whether its cells are to be done. A row that is not, and whose recipe is not there, is left out.

    Raises:
        UserError: A row's recipe or settings are wrong, or rows differ in what must be the same; all at once.
    """
    wrong: list[str] = []
    read = _reader(folder, check_files, check_init)
    by_seed: dict[int, list[Cell]] = {seed: [] for seed in study.seeds}
    for seed in study.seeds:
        for label, row, given in _rows(study):
            recipe = _trains(study, row).recipe
            if not wanted(label) and recipe is not None and _missing(recipe):
                log.warning("row '%s' is left out: there is no recipe '%s'.", label, recipe)
                continue
            mean = _mean(study, row, seed)
            if row.mean_of is not None and not mean:
                continue
            last = [*given, *overrides, f"seed={mean[0] if mean else seed}"]
            try:
                by_seed[seed].append(_cell(study, label, row, last, read, mean))
            except UserError as error:
                wrong += [f"rows.{label}: {problem}" for problem in error.problems]
        if wrong:
            break  # the next seed would say the same
    cells = [cell for found in by_seed.values() for cell in found]
    if not wrong:
        _tell_of_means_left_out(study, cells, wanted)
        wrong += problems({cell.label: cell.config for cell in cells if cell.of is None}, study.same)
    if wrong:
        raise UserError(*wrong, where=f"study {study.name}")
    return cells


def _tell_of_means_left_out(study: Study, cells: Sequence[Cell], wanted: Callable[[str], bool]) -> None:
    for label, row in study.rows.items():
        if row.mean_of is not None and wanted(label) and label not in {cell.label for cell in cells}:
            log.warning("row '%s' is left out: %d seeds are too few for a mean.", label, len(study.seeds))


def _trains(study: Study, row: RowSettings) -> RowSettings:
    """The row whose training it asks for: itself, or the one it names."""
    return row if row.trained_in is None else study.rows[row.trained_in]


def labels(study: Study) -> list[str]:
    """Of all rows, grids spelled out, in the order of the table."""
    return [label for label, _, _ in _rows(study)]


def _missing(recipe: str) -> bool:
    return not recipe.endswith((".yaml", ".yml")) and recipe not in recipes()


def _mean(study: Study, row: RowSettings, seed: int) -> tuple[int, ...]:
    """The seeds of the mean whose last one this is; none for another seed, or where seeds are left over."""
    take, at = row.take or len(study.seeds), study.seeds.index(seed) + 1
    if row.mean_of is None or at % take or take < 2:
        return ()
    return study.seeds[at - take : at]


def _rows(study: Study) -> Iterator[tuple[str, RowSettings, list[str]]]:
    """Label, row and the grid's settings, for every combination."""
    rows = study.rows or {name: RowSettings(recipe=name) for name in study.recipes}
    for label, row in rows.items():
        grid = {**study.grid, **row.grid}
        for values in itertools.product(*grid.values()):
            chosen = dict(zip(grid, values, strict=True))
            tail = " ".join(f"{key.rpartition('.')[2]}={value}" for key, value in chosen.items())
            yield f"{label} {tail}".strip(), row, [_written(*item) for item in chosen.items()]


def _cell(
    study: Study,
    label: str,
    row: RowSettings,
    last: Sequence[str],
    read: Callable[..., RunConfig],
    mean: tuple[int, ...],
) -> Cell:
    base = _trains(study, row)
    sets = [study.set, base.set, *([row.set] if row.of is not None else [])]
    overrides = [*(_written(*item) for part in sets for item in part.items()), *last]
    config = read(str(base.recipe), overrides)
    if config.data.valid is None and any(source.source == VALID for source in study.on):
        raise UserError(f"on: {VALID} asks its validation questions, but it has none (data.valid).")
    asks = {} if row.of is None else {key.removeprefix("method."): value for key, value in row.set.items()}
    printed = row.printed or study.printed.get(label)
    return Cell(label, config.seed, config, tuple(overrides), row.trained_in, printed, asks, mean)


def _reader(folder: Path | None, check_files: bool, check_init: bool) -> Callable[..., RunConfig]:
    """Reads recipes; those given by a relative path lie beside the study, or where the command was typed."""

    def read(recipe: str, overrides: Sequence[str]) -> RunConfig:
        if recipe.endswith((".yaml", ".yml")) and folder is not None and (folder / recipe).is_file():
            recipe = str(folder / recipe)
        return load_recipe(recipe, overrides, check_files=check_files, check_init=check_init)

    return read


def _written(key: str, value: Any) -> str:
    """As on the command line; JSON is YAML."""
    return f"{key}={json.dumps(value)}"
