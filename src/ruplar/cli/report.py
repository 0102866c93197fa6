"""`ruplar report`: run.json files → tables on the terminal or in a block of a page, study pages, HTML, figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

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
        typer.Option(
            help="Significance tests of every row against the best, paired by question; on by default for studies."
        ),
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="Test every row against this one too; it may belong to another study.")
    ] = None,
    printed: Annotated[bool, typer.Option(help="Show the numbers reported in the paper next to a study's.")] = True,
    update: Annotated[
        list[str] | None,
        typer.Option(help="FILE:NAME: replace the block results:NAME in FILE with the tables. Repeatable."),
    ] = None,
    by: Annotated[
        Literal["steps"] | None,
        typer.Option(
            help="Print only accuracy by the number of steps in the reference chain, one table per benchmark."
        ),
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(help="Write one study's page of the results appendix (Markdown), with its figure next to it."),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write one self-contained page with tables and figures.")] = None,
    figures: Annotated[Path | None, typer.Option(help="Write every figure to this folder, as PNG and SVG.")] = None,
    drafts: Annotated[
        bool,
        typer.Option("--drafts", help="With --html or --figures: include partial runs; the page says so at the top."),
    ] = False,
) -> None:
    """Make tables, pages and figures from run.json files."""
    if drafts and not (html or figures):
        raise UserError("--drafts: partial runs enter no table. It needs --html or --figures.")
    if html or figures:
        _pages(runs, html, figures, drafts)
        return
    if page:
        _study_page(runs, page, against)
        return
    if as_json and (tests or against is not None or update):
        raise UserError("--json: prints the rows only. Leave out --tests, --against and --update.")
    from ruplar.report.breakdown import steps_tables
    from ruplar.report.marks import marked
    from ruplar.report.rows import collect
    from ruplar.report.table import to_markdown
    from ruplar.report.tables import tables

    rows = collect(runs)
    if as_json:
        print_json([row.as_dict() for row in rows])
        return
    wanted = any(row.study for row in rows) if tests is None else tests
    if by == "steps":
        shown = [marked(table, rows) for table in steps_tables(rows)]
    else:
        shown = tables(rows, tests=wanted, against=against, printed=printed)
    found = to_markdown(shown)
    if not update:
        print_text(out, found.rstrip("\n"))
    for target in update or []:
        _update(target, found)


def _update(target: str, text: str) -> None:
    from ruplar.report.table import replace_block

    file, _, name = target.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise UserError(f"--update: there is no file '{file}'. Write FILE:NAME, e.g. README.md:{name or 'demo'}.")
    path.write_text(replace_block(path.read_text(encoding="utf-8"), name, text), encoding="utf-8")


def _pages(runs: list[Path], html: Path | None, figures: Path | None, drafts: bool) -> None:
    from ruplar.report.page import write_report

    if html is not None and html.is_dir():
        raise UserError(f"--html: {html} is a folder. Name a file, e.g. {html / 'page.html'}.")
    for folder in (html and html.parent, figures):
        if folder is not None:
            writable_folder(folder)
    for file in write_report(runs, html, figures, drafts=drafts):
        out.print(f"written  {file}", highlight=False, soft_wrap=True)


def _study_page(runs: list[Path], page: Path, against: str | None) -> None:
    from ruplar.report.study_page import write_study_page

    if len(runs) != 1 or not runs[0].is_dir():
        raise UserError("--page: give one folder, e.g. results/main.")
    writable_folder(page.parent)
    for file in write_study_page(runs[0], page, against):
        out.print(f"written  {file}", highlight=False, soft_wrap=True)
