"""`ruplar data fetch`: download benchmark files. `ruplar data prepare`: pre-tokenize the training data of recipes and studies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ruplar.cache import data_folder
from ruplar.cli.options import names_and_settings, print_text, writable_folder
from ruplar.errors import UserError, unknown

if TYPE_CHECKING:
    from ruplar.config import RunConfig

out = Console()
err = Console(stderr=True)


def fetch(
    names: Annotated[
        list[str] | None, typer.Argument(help="Datasets to download; without a name, lists the known ones.")
    ] = None,
    to: Annotated[
        Path | None, typer.Option(help="Output folder. [default: $RUPLAR_CACHE/data, else ~/.cache/ruplar/data]")
    ] = None,
) -> None:
    """Download benchmark files and verify their content.

    Without a name, lists the known datasets.
    """
    from ruplar.data.fetch import check_names
    from ruplar.data.fetch import fetch as download

    if not names:
        _list_sets(to)
        return
    check_names(names)
    problems = []
    for name in dict.fromkeys(names):
        try:
            with download_bar(name) as progress:
                file, state = download(name, to or data_folder(), progress)
            print_text(out, f"{name}: {state}, {file}")
        except UserError as error:
            problems.append(str(error))
    if problems:
        raise UserError(*problems)


def _list_sets(folder: Path | None) -> None:
    from ruplar.data.locations import KNOWN_SETS, locate, parts_of

    table = Table("name", "rows", "file")
    table.columns[1].justify = "right"
    for name, known in KNOWN_SETS.items():
        try:
            file = known.of and f"selected from {', '.join(parts_of(name))}" or locate(name, folder).path
        except UserError:
            file = None
        table.add_row(name, f"{known.rows:,}" if known.rows else "", Text(str(file or "not found")))
    out.print(table)


@contextmanager
def download_bar(name: str) -> Iterator[Callable[..., None]]:
    """Show a progress bar on a terminal; called with the bytes downloaded, their total if known, and optionally a note."""
    if not err.is_terminal:
        yield lambda done, total, note="": None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total, note="": bar.update(task, completed=done, total=total, description=f"{name} {note}")


def prepare(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="RECIPE|STUDY... [KEY=VALUE]...",
            help="Names in `ruplar list recipes` or `ruplar list studies`, or YAML files, then the settings that training will use.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            help="Output folder. [default: runs/.encoded, where training looks; for `ruplar train --output F/run`, give F/.encoded]"
        ),
    ] = None,
) -> None:
    """Pre-tokenize the training data of recipes and studies.

    Needs no GPU and loads no weights.
    """
    from ruplar.data.cache import ENCODED

    names, overrides = names_and_settings(words, "recipe and no study", "recipes")
    folder = writable_folder(output or Path("runs") / ENCODED)
    encodings = [one for name in dict.fromkeys(names) for one in _encodings(name, overrides)]
    from ruplar.train.prepare import prepare as prepare_one

    for label, config in encodings:
        done = prepare_one(config, folder)
        lines = [f"{label}: {done.chains:,} chains" if done.chains else label]
        lines += [f"  {done.folder}{'  (already there)' if done.there else ''}"] if done.folder else []
        lines += [f"  {done.note}"] if done.note else []
        print_text(out, "\n".join(lines))


def _encodings(name: str, overrides: Sequence[str]) -> list[tuple[str, RunConfig]]:
    """Name of a recipe or study → each distinct pre-tokenized dataset: its label and the first config that uses it."""
    from ruplar.config import load_recipe
    from ruplar.experiments.plan import find_study, load_study, plan, tries_of

    if not _is_study(name):
        config = load_recipe(name, overrides, check_init=False)
        return [(config.name, config)]
    from ruplar.train.prepare import encoding_of

    study = load_study(name)
    groups: dict[str, list[Any]] = {}
    tries = {group: [*found.values()] for group, found in tries_of(study).items()}
    for i in range(max(map(len, tries.values()), default=1)):  # a row may be trained with each of its tries
        picks = {group: {"settings": of[i % len(of)], "seed": study.seeds[0]} for group, of in tries.items()}
        for cell in plan(study, overrides, find_study(name).parent, check_init=False, picks=picks):
            if cell.of is None:  # the other cells reuse a trained model
                groups.setdefault(encoding_of(cell.config), []).append(cell)
    labels = [", ".join(dict.fromkeys(cell.label for cell in cells)) for cells in groups.values()]
    return [(f"{study.name}: {label}", cells[0].config) for label, cells in zip(labels, groups.values(), strict=True)]


def _is_study(name: str) -> bool:
    """Return whether a name or a YAML file is a study's; a file is recognised by its keys."""
    from ruplar.config import recipes
    from ruplar.config.text import parse
    from ruplar.experiments.plan import studies

    if name.endswith((".yaml", ".yml")):
        file = Path(name)
        if not file.is_file():
            raise UserError(f"no recipe or study file '{name}'.")
        data = parse(file.read_text(encoding="utf-8", errors="replace"), where=name)
        return isinstance(data, dict) and bool(data.keys() & {"rows", "seeds"})
    known = (*recipes(), *studies())
    if name not in known:
        raise UserError(f"{unknown('recipe or study', name, known)} For your own, pass its path, FILE.yaml.")
    return name not in recipes()
