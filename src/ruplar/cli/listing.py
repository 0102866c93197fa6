"""`ruplar list` → what can be named in a recipe or on the command line, each with its first line."""

from __future__ import annotations

import importlib
import textwrap
from typing import Annotated

import typer
from rich.console import Console

from ruplar import plugins
from ruplar.errors import UserError

out = Console()
_COLUMN = 26


def list_(
    kind: Annotated[
        str | None,
        typer.Argument(
            help="domains, spans, priors, methods, backbones, recipes, studies, generators, families; all when left out."
        ),
    ] = None,
) -> None:
    """The plug-ins and recipes, each with its first line."""
    from ruplar.config import recipes
    from ruplar.data.sources import GENERATORS
    from ruplar.errors import unknown
    from ruplar.experiments.plan import studies
    from ruplar.model.fetch import backbones
    from ruplar.problems.word_problems import FAMILIES

    shelves: dict[str, dict[str, str]] = {
        **{k: {n: plugins.describe(k, n) for n in plugins.names(k)} for k in plugins.CLASSES},
        "backbones": backbones(),
        "recipes": recipes(),
        "studies": studies(),
        "generators": {name: _about(name) for name in GENERATORS},
        "families": {name: family.about for name, family in FAMILIES.items()},
    }
    if kind is not None and kind not in shelves:
        raise UserError(unknown("kind", kind, shelves))
    for name, rows in shelves.items():
        if kind in (None, name):
            out.print(name, style="bold")
            for key, line in rows.items():
                for piece in textwrap.wrap(line, out.width - _COLUMN, break_on_hyphens=False):
                    out.print(f"  {key:{_COLUMN - 3}} {piece}", markup=False, highlight=False, soft_wrap=True)
                    key = ""


def _about(generator: str) -> str:
    """First line of a generator's docstring."""
    module = importlib.import_module(f"ruplar.problems.{generator.replace('-', '_')}")
    return (module.__doc__ or "").split("\n")[0]
