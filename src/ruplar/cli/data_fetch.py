"""`ruplar data fetch NAME…` → benchmark files in the download cache; without names, the list of known sets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from ruplar.cache import data_folder
from ruplar.errors import UserError

if TYPE_CHECKING:
    from ruplar.data.fetch import Progress as Report

out = Console()
err = Console(stderr=True)


def fetch(
    names: Annotated[
        list[str] | None, typer.Argument(help="Names of the sets to download; without a name, all sets are listed.")
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(help="Folder to write the files to. [default: data in $RUPLAR_CACHE, else ~/.cache/ruplar/data]"),
    ] = None,
    unverified: Annotated[
        bool,
        typer.Option("--unverified", help="Accept a file whose questions and answers differ from the known set's."),
    ] = False,
) -> None:
    """Download benchmark files by name and verify their content; without a name, list the known sets."""
    from ruplar.data.fetch import Fetcher, check_names

    if not names:
        _list(to)
        return
    check_names(names)
    fetcher = Fetcher(to or data_folder(), unverified)
    problems = []
    for name in dict.fromkeys(names):
        try:
            with _bar(name) as progress:
                found = fetcher.fetch(name, progress)
        except UserError as error:
            problems.append(str(error))
            continue
        origin = f", from {found.origin}" if found.origin else ""
        out.print(f"{name}: {found.state}, {found.path}{origin}", markup=False, highlight=False, soft_wrap=True)
    if problems:
        raise UserError(*problems)


def _list(folder: Path | None) -> None:
    """Print every known set: its rows, where it is downloaded from, and where its file is."""
    from ruplar.data.fetch import hub_files
    from ruplar.data.locations import KNOWN_SETS

    table = Table("name", "rows", "download", "file")
    table.columns[1].justify = "right"
    for name, known in KNOWN_SETS.items():
        hosts = [_github(known.url)] if known.url else ["no download known"]
        hosts += [f"hub:{hub_files(name)[0].repo}"] if hub_files(name) else []
        table.add_row(name, f"{known.rows:,}" if known.rows else "", "\n".join(hosts), _file(name, folder))
    out.print(table)


def _github(url: str) -> str:
    """`https://raw.githubusercontent.com/owner/repo/…` → `github:owner/repo`."""
    owner, repo = url.split("/media/")[-1].removeprefix("https://raw.githubusercontent.com/").split("/")[:2]
    return f"github:{owner}/{repo}"


def _file(name: str, folder: Path | None) -> str:
    """The path of a set's file in the folder, or else in the first place where readers find it; "not there" without one."""
    from ruplar.data.locations import KNOWN_SETS, locate

    file = (folder or data_folder()) / KNOWN_SETS[name].file
    if file.is_file():
        return str(file)
    try:
        found = locate(name, folder).path
    except UserError:
        found = None
    return str(found or "not there")


@contextmanager
def _bar(name: str) -> Iterator[Report]:
    """Show a progress bar of the bytes downloaded, on a terminal; it disappears at the end."""
    if not err.is_terminal:
        yield lambda done, total: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
