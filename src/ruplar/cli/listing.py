"""`ruplar list`: an overview of everything a recipe or a command can name; `ruplar list KIND`: one line each."""

from __future__ import annotations

import importlib
import textwrap
from typing import Annotated

import typer
from rich.console import Console

from ruplar import plugins
from ruplar.errors import UserError, unknown

out = Console()
_COLUMN = 26


def list_(
    kind: Annotated[
        str | None,
        typer.Argument(
            help="What to describe: domains, spans, priors, methods, backbones, recipes, studies, generators or families."
        ),
    ] = None,
) -> None:
    """List recipes, studies, plug-ins and backbones.

    Without an argument, prints all names; with a kind, describes each entry of that kind.
    """
    entries = _entries()
    if kind is not None and kind not in entries:
        raise UserError(unknown("kind", kind, entries))
    for line in _overview(entries) if kind is None else _described(entries[kind]):
        out.print(line, markup=False, highlight=False, soft_wrap=True)


def _entries() -> dict[str, dict[str, str]]:
    from ruplar.config import recipes
    from ruplar.data.sources import GENERATORS
    from ruplar.experiments.plan import studies
    from ruplar.model.fetch import backbones
    from ruplar.problems.word_problems import FAMILIES

    return {
        **{kind: {name: plugins.describe(kind, name) for name in plugins.names(kind)} for kind in plugins.CLASSES},
        "backbones": backbones(),
        "recipes": recipes(),
        "studies": studies(),
        "generators": {name: _first_line(name) for name in GENERATORS},
        "families": {name: family.about for name, family in FAMILIES.items()},
    }


def _first_line(generator: str) -> str:
    module = importlib.import_module(f"ruplar.problems.{generator.replace('-', '_')}")
    return (module.__doc__ or "").split("\n")[0]


def _overview(entries: dict[str, dict[str, str]]) -> list[str]:
    lines = []
    for kind, rows in entries.items():
        lines += [f"{kind} ({len(rows)})", *_columns(list(rows)), ""]
    return [*lines, "`ruplar list KIND` describes each entry, e.g. `ruplar list recipes`."]


def _columns(names: list[str]) -> list[str]:
    """Set names in as many equal columns as fit the terminal, read downwards."""
    width = max(map(len, names)) + 2
    count = max(1, (out.width - 2) // width)
    height = -(-len(names) // count)
    rows = (names[start::height] for start in range(height))
    return ["  " + "".join(name.ljust(width) for name in row).rstrip() for row in rows]


def _described(rows: dict[str, str]) -> list[str]:
    lines = []
    for name, text in rows.items():
        pieces = textwrap.wrap(text, out.width - _COLUMN, break_on_hyphens=False)
        lines += [f"  {name if i == 0 else '':{_COLUMN - 3}} {piece}" for i, piece in enumerate(pieces)]
    return lines
