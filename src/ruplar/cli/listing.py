"""`ruplar list`: an overview of everything a recipe or a command can name; `ruplar list KIND`: one line each."""

from collections.abc import Callable
from typing import Annotated

import typer
from rich.columns import Columns
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ruplar import plugins
from ruplar.errors import UserError, unknown

out = Console()
_COLUMN = 25


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
    for name, rows in entries.items() if kind is None else ():
        out.print(f"{name} ({len(rows)})", highlight=False)
        out.print(Padding(Columns(rows, equal=True, column_first=True, padding=(0, 2)), (0, 0, 1, 2)))
    if kind is None:
        out.print("`ruplar list KIND` describes each entry, e.g. `ruplar list recipes`.", highlight=False)
        return
    described = Table.grid("", "", padding=(0, 1))
    described.columns[0].min_width = _COLUMN
    for name, text in entries[kind].items():
        described.add_row(Text(f"  {name}"), Text(text))
    out.print(described)


def completion(kind: str) -> Callable[[str], list[str]]:
    """Return a function that completes the names of a kind in a shell."""
    return lambda incomplete: [name for name in _entries()[kind] if name.startswith(incomplete)]


def _entries() -> dict[str, dict[str, str]]:
    from ruplar.config import recipes
    from ruplar.data.sources import GENERATORS, module_of
    from ruplar.experiments.plan import studies
    from ruplar.model.fetch import backbones
    from ruplar.problems.word_problems import FAMILIES

    return {
        **{kind: {name: plugins.describe(kind, name) for name in plugins.names(kind)} for kind in plugins.CLASSES},
        "backbones": backbones(),
        "recipes": recipes(),
        "studies": studies(),
        "generators": {name: str(module_of(name).__doc__).split("\n")[0] for name in GENERATORS},
        "families": {name: family.about for name, family in FAMILIES.items()},
    }
