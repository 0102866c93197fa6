"""`ruplar data …` → chains written and checked; the other verbs are in `cli/convert.py`, `cli/augment.py`, `cli/data_fetch.py`, `cli/prepare.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ruplar import plugins
from ruplar.cli.augment import augment, overlap
from ruplar.cli.convert import convert
from ruplar.cli.data_fetch import fetch
from ruplar.cli.options import AsJson, DataDir, free_file, integers, print_json
from ruplar.cli.prepare import prepare
from ruplar.errors import UserError
from ruplar.types import Example

data = typer.Typer(
    help="Chains: download them, write them, multiply them, convert them, find what is wrong with them.",
    no_args_is_help=True,
)
data.command("convert")(convert)
data.command("augment")(augment)
data.command("overlap")(overlap)
data.command("fetch")(fetch)
data.command("prepare")(prepare)
out = Console()


@data.command("make")
def make(
    file: Annotated[Path, typer.Argument(help="The jsonl file to write.")],
    count: Annotated[int, typer.Option(min=1, help="How many problems.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Which ones.")] = 1,
    families: Annotated[
        str | None, typer.Option(help="Comma-separated, or short, situations or held-out; see `ruplar list families`.")
    ] = None,
    steps: Annotated[str, typer.Option(help="Fewest and most steps.")] = "1,6",
    domain: Annotated[str, typer.Option(help="What they are about: arithmetic, dates or logic.")] = "arithmetic",
    drills: Annotated[bool, typer.Option("--drills", help="Bare arithmetic instead of word problems.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
) -> None:
    """Write problems with chains that re-execute to their answers."""
    from ruplar.data.sources import generator, group
    from ruplar.problems.drills import generate as generate_drills
    from ruplar.problems.word_problems import write_jsonl

    low, high = integers(steps, "--steps", 2)
    if families is not None and (domain != "arithmetic" or drills):
        what = "drills" if drills else f"problems of the domain '{domain}'"
        raise UserError(f"--families: {what} have none; leave it out.")
    if drills and domain != "arithmetic":
        raise UserError(f"--drills: there are none of the domain '{domain}'.")
    chosen: dict[str, Any] = (
        {"families": [one for name in families.split(",") for one in group(name)]} if families is not None else {}
    )
    generate: Callable[..., Iterator[Example]] = generate_drills if drills else generator(domain)
    free_file(file, force)
    written = write_jsonl(file, generate(count, seed, steps=(low, high), **chosen))
    out.print(f"{written:,} problems in {file}", highlight=False)


@data.command("check")
def check(
    file: Annotated[str, typer.Argument(help="A file, a known set or a Hub name.")],
    domain: Annotated[str, typer.Option(help="See `ruplar list domains`, or a dotted name of yours.")] = "arithmetic",
    format: Annotated[str | None, typer.Option(help="Shape of the rows; found out when left out.")] = None,
    data_dir: DataDir = None,
    show: Annotated[int, typer.Option(min=0, help="Problems of each kind to show.")] = 5,
    rows: Annotated[
        int, typer.Option(min=0, help="Rows to show in full, as they were understood, from the first on.")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """What was understood of every chain, what is left out and why, and which steps do not re-execute."""
    from ruplar.data.check import check_chains

    found = check_chains(file, plugins.make("domains", domain), format=format, data_dir=data_dir, rows=rows)
    if as_json:
        print_json(found.as_dict())
    else:
        out.print(found.text(show), markup=False, highlight=False, soft_wrap=True)
