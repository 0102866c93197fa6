"""A study file → a checked `Study`: rows × seeds, what they are evaluated on, and what must be equal in all rows.

name: main
rows:                                              label → recipe and settings that differ from it
  RuPLaR-Mix: embedded-ruplar
  RuPLaR-Temp: {recipe: embedded-ruplar, set: {prior.name: temperature}}
  CoLaR-2: {of: CoLaR-5, set: {method.compression: 2}}      the model of another row with other inference settings
  Mix soup: {soup_of: RuPLaR-Mix, size: 3}           the model soup of three seeds of that row
  CODI: {recipe: embedded-codi, tries: [{training.learning_rate: 8e-4}, {training.learning_rate: 3e-3}]}
                                                   the row with the better one on `valid` (`tries.py`)
grid: {prior.operand_share: [0.1, 0.2]}            every row once for each combination
seeds: [1, 2, 3]
on: [valid, word-problems]                         selection sets and generated problems; valid: the recipe's validation set
test: [gsm8k-aug, gsm-hard, svamp, multiarith]     test sets, evaluated once by `ruplar study NAME --final` (`protocol.py`)
set: {training.max_steps: 600}                     for all rows
controls: [data, steps, batch, init, adapter, prompt, operands]   what must be equal in all rows
base: _embedded                                    another study; this file has only the differences
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from ruplar.config import RunConfig
from ruplar.config.files import YamlFiles
from ruplar.data.locations import VALID, role_of
from ruplar.data.sources import SourceConfig
from ruplar.errors import UserError, unknown
from ruplar.evaluate.record import TRY
from ruplar.settings import Settings, explain

STUDIES = YamlFiles("study", Path(__file__).parents[1] / "studies")
studies, find_study = STUDIES.names, STUDIES.find

Aspect = Literal["data", "steps", "batch", "init", "adapter", "prompt", "operands"]
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._,=+()-]*")


class RowSettings(Settings):
    """One row of the table."""

    recipe: str | None = Field(None, description="A packaged recipe, or a file relative to the study's folder.")
    of: str | None = Field(None, description="Evaluate the model of this row with other settings of its method.")
    soup_of: str | None = Field(None, description="Evaluate the model soup (averaged weights) of this row's seeds.")
    size: int | None = Field(
        None, ge=2, description="With soup_of, seeds per soup: the first ones, the next ones, …; null: all seeds."
    )
    set: dict[str, Any] = Field({}, description="Dotted settings of this row.")
    reference: str | None = Field(
        None, description="The row that is 100 % for this one: the written chain trained alike; null: the study's."
    )
    grid: dict[str, list[Any]] = Field({}, description="Dotted setting → values; the row once for each combination.")
    tries: tuple[dict[str, Any], ...] = Field(
        (),
        description="Dotted settings to choose from on `valid`: each is tried once, before the row is trained. Tries that set "
        "a grid value select for that value and later ones.",
    )

    @model_validator(mode="before")
    @classmethod
    def _bare_recipe(cls, value: Any) -> Any:
        return {"recipe": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one_model(self) -> RowSettings:
        if [self.recipe, self.of, self.soup_of].count(None) != 2:
            raise ValueError("a row has exactly one of recipe:, of: and soup_of:")
        if self.soup_of is not None and (self.set or self.grid):
            raise ValueError("a soup is evaluated as its models were trained: soup_of allows neither set nor grid")
        if self.tries and self.recipe is None:
            raise ValueError("tries are settings of a training: they need recipe")
        if self.size is not None and self.soup_of is None:
            raise ValueError("size is the number of seeds of a soup: it needs soup_of")
        return self

    @property
    def trained_in(self) -> str | None:
        """The row whose models it evaluates; None when it trains its own."""
        return self.of or self.soup_of


class Study(Settings):
    """The contents of a study file."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="Name of its folder under results.")
    about: str = Field("", description="The question it answers, in one sentence.")
    rows: dict[str, RowSettings] = Field(min_length=1, description="Label → row, in the order of the table.")
    seeds: tuple[int, ...] = Field((1, 2, 3), min_length=1, description="Seeds; each row is trained once per seed.")
    on: tuple[SourceConfig, ...] = Field(
        min_length=1, description="Selection sets and generated problems that every model is evaluated on."
    )
    test: tuple[SourceConfig, ...] = Field((), description="Test sets, evaluated once by `ruplar study NAME --final`.")
    set: dict[str, Any] = Field({}, description="Dotted settings of all rows, e.g. the budget.")
    grid: dict[str, list[Any]] = Field({}, description="Dotted setting → values; all rows once for each combination.")
    controls: tuple[Aspect, ...] = Field(
        ("data", "steps", "batch", "init", "adapter", "prompt", "operands"), description="What all rows must share."
    )
    ablate: SourceConfig | None = Field(
        None, description="Also run the latent ablation, on these questions; on a test set with --final only."
    )
    latency_questions: int = Field(0, ge=0, description="Also time this many questions at batch size 1.")
    batch_size: int = Field(64, ge=1, description="Batch size: questions answered at once.")
    engine: Literal["auto", "fast", "reference"] = Field(
        "auto", description="The fast engine (auto, fast) or the reference engine."
    )
    readable: int = Field(
        100, ge=0, description="Samples of each benchmark that are stored with their decoded latents (the first ones)."
    )
    reference: str | None = Field(None, description="The row to compare the others with; a row may name its own.")
    printed: dict[str, str] = Field({}, description="Label → the paper's name for it, if it differs.")
    not_run: dict[str, str] = Field({}, description="Label → the paper's name of a row that was not run here.")

    @model_validator(mode="after")
    def _fits(self) -> Study:
        wrong = []
        if len(set(self.seeds)) < len(self.seeds):
            wrong.append(f"seeds: {list(self.seeds)} has duplicates")
        wrong += _role_problems(self)
        for label, row in self.rows.items():
            wrong += _row_problems(label, row, self)
        wrong += _label_problems(self)
        given = [name for name in (self.reference, *(row.reference for row in self.rows.values())) if name]
        wrong += [unknown("row", name, self.rows).rstrip(".") for name in given if name not in self.rows]
        for label in [label for label, of in self.references().items() if not of] if not wrong else ():
            wrong.append(f"rows.{label}: its reference has no row with these values; give it the same grid")
        if wrong:
            raise ValueError("; ".join(wrong))
        return self

    def points(self, row: RowSettings) -> list[dict[str, Any]]:
        """Return the combinations of the values of a row's grid, or that of the row it evaluates; one without settings if none."""
        grid = {**self.grid, **self.rows.get(row.of or "", row).grid}
        return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]

    def references(self) -> dict[str, str]:
        """Label → the label that is 100 % for it: its reference with the same values of the grid; "" where that has no such row."""
        found = {}
        for label, row in self.rows.items():
            name = row.reference or self.reference or ""
            for at in self.points(row) if name else ():
                same = [p for p in self.points(self.rows[name]) if all(at.get(k, at) == v for k, v in p.items())]
                found[named(label, at)] = named(name, same[0]) if same else ""
        return found


def _role_problems(study: Study) -> Iterator[str]:
    for source in study.on:
        if role_of(source.source) == "test":
            yield f"on: '{source.source}' is a test set; move it to test:, which `ruplar study NAME --final` asks once"
    for source in study.test:
        role = "selection" if source.source == VALID else role_of(source.source)
        if role in ("selection", "train"):
            yield f"test: '{source.source}' is a {role} set; move it to on:"
    for name in sorted({source.name for source in study.on} & {source.name for source in study.test}):
        yield f"'{name}' is in on: and in test:; remove one"
    if study.ablate is not None and role_of(study.ablate.source) == "test" and study.ablate not in study.test:
        yield f"ablate: '{study.ablate.source}' is a test set that test: does not list"


def _row_problems(label: str, row: RowSettings, study: Study) -> Iterator[str]:
    if not _LABEL.fullmatch(label):
        yield f"rows.{label}: a label has letters, digits, spaces and ._,=+-()"
    if row.trained_in is not None:
        key, base = "of" if row.of else "soup_of", study.rows.get(row.trained_in)
        if base is None or base.recipe is None:
            yield f"rows.{label}.{key}: '{row.trained_in}' is not a row that is trained"
        elif row.grid or (row.soup_of and (base.grid or study.grid)):
            yield f"rows.{label}.{key}: which model of a row with a grid is ambiguous"
    if row.tries and VALID not in {source.source for source in study.on}:
        yield f"rows.{label}.tries: are chosen on '{VALID}', which on: does not list"
    if row.of is not None and (bad := [key for key in row.set if not key.startswith("method.")]):
        yield f"rows.{label}.set: {bad[0]} cannot change after the model of '{row.of}' is trained"


def _label_problems(study: Study) -> Iterator[str]:
    rows, tries = [], []
    for label, row in study.rows.items():
        rows += [named(label, point) for point in study.points(row)]
        tries += [named(label + TRY, one) for one in row.tries]
    for label in rows:
        if TRY in f"{label} ":
            yield f"rows.{label}: '{TRY}' is reserved for the labels of tries; rename the row or the grid's value"
    folders = Counter(folder_name(label, 0) for label in [*rows, *tries])
    for label in [*rows, *tries]:
        if folders[folder_name(label, 0)] > 1:
            yield f"rows.{label}: another row or try has the same folder name; rename one, or remove what is listed twice"


def named(label: str, settings: Mapping[str, Any]) -> str:
    """Label of a row and its place in a grid → the label of its cells: `CODI operand_share=0.1`."""
    return " ".join([label.strip(), *(f"{key.rpartition('.')[2]}={value}" for key, value in settings.items())])


def folder_name(label: str, seed: int) -> str:
    """Return `LABEL-seedN`, with underscores for blanks, commas and slashes."""
    return f"{re.sub(r'[ ,/]+', '_', label)}-seed{seed}"


def load_study(name_or_path: str, changes: Mapping[str, Any] | None = None) -> Study:
    """Load and check a study; `changes` replaces whole entries of it (seeds, on)."""
    file = find_study(name_or_path)
    data = STUDIES.read(file)
    try:
        return Study.model_validate({**data, **{k: v for k, v in (changes or {}).items() if v is not None}})
    except ValidationError as error:
        raise UserError(*(explain(detail, Study) for detail in error.errors()), where=str(file)) from error


# --- controls: what must be equal in all rows ----------------------------------------------------------------------

_STEPS = {"max_steps": -1, "num_train_epochs": 3.0}
"""The defaults of transformers, for recipes that set only one of the two."""
_OPERANDS = "canonical_operands"


def _data(config: RunConfig) -> dict[str, Any]:
    return {f"data.{key}": value for key, value in config.as_dict()["data"].items() if key != _OPERANDS}


def _batch(config: RunConfig) -> int:
    each, times = "per_device_train_batch_size", "gradient_accumulation_steps"
    return config.training.get(each, 8) * config.training.get(times, 1)


_ASPECTS: dict[str, Callable[[RunConfig], dict[str, Any]]] = {
    "data": _data,
    "steps": lambda c: {f"training.{key}": c.training.get(key, default) for key, default in _STEPS.items()},
    "batch": lambda c: {"the effective batch size": _batch(c)},
    "init": lambda c: {f"backbone.{key}": getattr(c.backbone, key) for key in ("name", "weights", "init")},
    "adapter": lambda c: {"backbone.lora": c.as_dict()["backbone"]["lora"]},
    "prompt": lambda c: {f"prompt.{key}": value for key, value in c.as_dict()["prompt"].items()},
    "operands": lambda c: {f"data.{_OPERANDS}": c.data.canonical_operands},
}
"""Aspect → its settings and their values."""


def unequal(configs: Mapping[str, RunConfig], controls: Sequence[str]) -> Iterator[str]:
    """Yield a sentence for every difference from the first row in an aspect that must be equal; `configs` is by label."""
    (first, expected), *others = configs.items()
    for label, config in others:
        for aspect in controls:
            wanted, found = _ASPECTS[aspect](expected), _ASPECTS[aspect](config)
            for key in wanted:
                if wanted[key] != found[key]:
                    yield (
                        f"rows.{label}: {key} is {found[key]}, but {wanted[key]} in '{first}'. Make them equal, or remove "
                        f"'{aspect}' from controls: if the study compares it."
                    )
