"""`ruplar report`: run.json files → tables on the terminal, or one page."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ruplar.cli.options import AsJson, print_json, print_text, writable_folder
from ruplar.errors import UserError

out = Console()


def report(
    runs: Annotated[list[Path], typer.Argument(help="run.json files, or folders that contain them.")],
    as_json: AsJson = False,
    tests: Annotated[
        bool | None,
        typer.Option(help="Test every row against the best, paired by question; on by default for studies."),
    ] = None,
    against: Annotated[str | None, typer.Option(help="Also test every row of its study against this one.")] = None,
    page: Annotated[
        Path | None,
        typer.Option(help="Write a page for one folder: Markdown and figures or, ending in .html, a single file."),
    ] = None,
    drafts: Annotated[
        bool, typer.Option("--drafts", help="With --page: include partial runs; the page says so at the top.")
    ] = False,
) -> None:
    """Make tables or a page from run.json files."""
    if drafts and not page:
        raise UserError("--drafts: needs --page; tables exclude partial runs.")
    if page and tests is not None:
        raise UserError("--page: has the tests of its study. Leave out --tests and --no-tests.")
    if as_json and (page or tests or against is not None):
        raise UserError("--json: prints the rows only. Leave out --page, --tests and --against.")
    if page:
        _write_page(runs, page, against, drafts)
        return
    from ruplar.report.rows import collect
    from ruplar.report.table import to_markdown
    from ruplar.report.tables import tables

    rows = collect(runs)
    if as_json:
        print_json([row.as_dict() for row in rows])
        return
    wanted = any(row.study for row in rows) if tests is None else tests
    print_text(out, to_markdown(tables(rows, tests=wanted, against=against)).rstrip("\n"))


def _write_page(runs: list[Path], page: Path, against: str | None, drafts: bool) -> None:
    from ruplar.report.page import write_page

    if len(runs) != 1 or not runs[0].is_dir():
        raise UserError("--page: pass one folder, e.g. results/main.")
    if page.is_dir():
        raise UserError(f"--page: {page} is a folder. Choose a file, e.g. {page / 'page.html'}.")
    writable_folder(page.parent)
    for file in write_page(runs[0], page, against, drafts=drafts):
        print_text(out, f"written  {file}")
