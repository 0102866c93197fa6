"""`ruplar report`: run.json files → tables on the terminal, in a Markdown block, or an HTML page with figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console

from ruplar.cli.options import AsJson, print_json, writable_folder
from ruplar.errors import UserError

if TYPE_CHECKING:
    from ruplar.report.rows import Row

out = Console()


def report(
    runs: Annotated[list[Path], typer.Argument(help="run.json files, or folders that contain them.")],
    form: Annotated[
        Literal["markdown", "csv", "json", "html"],
        typer.Option(
            "--as",
            help="Output format. csv has one line per row, with test results and published numbers as columns.",
        ),
    ] = "markdown",
    as_json: AsJson = False,
    on: Annotated[str | None, typer.Option(help="Comma-separated benchmarks to include; all if not given.")] = None,
    tests: Annotated[
        bool | None,
        typer.Option(help="Paired significance tests of every row against the best. Default: only for studies."),
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="Also test every row against this row, which may belong to another study.")
    ] = None,
    printed: Annotated[bool, typer.Option(help="Show the published numbers next to a study's results.")] = True,
    update: Annotated[
        list[str] | None,
        typer.Option(help="FILE:NAME: replace the block results:NAME in FILE with the tables. Repeatable."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write a self-contained HTML page with tables and figures.")
    ] = None,
    figures: Annotated[Path | None, typer.Option(help="Write all figures to this folder, as PNG and SVG.")] = None,
    drafts: Annotated[
        bool,
        typer.Option("--drafts", help="Include partial runs in the page and figures; the page is marked as a draft."),
    ] = False,
) -> None:
    """Make tables, figures and pages from run.json files."""
    if drafts and not (html or figures):
        raise UserError("--drafts: partial runs are left out of tables. Use it with --html or --figures.")
    if html or figures:
        if on is not None:
            raise UserError("--on: selects rows of a table; --html and --figures show all benchmarks.")
        _pages(runs, html, figures, drafts)
        return
    as_json = as_json or form == "json"
    if as_json and not update and (tests or against is not None):
        named = "--against" if against is not None else "--tests"
        raise UserError(f"{named}: JSON contains only the rows. CSV has the tests as columns: --as csv.")
    from ruplar.report.csv_rows import to_csv
    from ruplar.report.rows import collect
    from ruplar.report.tables import tables, to_html, to_markdown

    rows = _on(collect(runs), on)
    wanted = any(row.study for row in rows) if tests is None else tests
    if as_json:
        print_json([row.as_dict() for row in rows])
    elif form == "csv" and not update:
        _print(to_csv(rows, tests=wanted, against=against, printed=printed))
    if (as_json or form == "csv") and not update:
        return
    found = tables(rows, tests=wanted, against=against, printed=printed)
    if not update:
        _print(to_html(found) if form == "html" else to_markdown(found))
    for target in update or []:
        _update(target, to_markdown(found))


def _on(rows: list[Row], sets: str | None) -> list[Row]:
    """Return the rows of the named benchmarks, or all rows."""
    if sets is None:
        return rows
    wanted = [name.strip() for name in sets.split(",")]
    known = sorted({row.benchmark for row in rows})
    for name in wanted:
        if name not in known:
            raise UserError(f"--on: no run was evaluated on '{name}'. Available: {', '.join(known)}.")
    return [row for row in rows if row.benchmark in wanted]


def _update(target: str, text: str) -> None:
    """Replace one block of a Markdown file; the target is written FILE:NAME."""
    from ruplar.report.tables import replace_block

    file, _, name = target.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise UserError(f"--update: there is no file '{file}'. Write FILE:NAME, e.g. README.md:{name or 'demo'}.")
    path.write_text(replace_block(path.read_text(encoding="utf-8"), name, text), encoding="utf-8")


def _pages(runs: list[Path], html: Path | None, figures: Path | None, drafts: bool) -> None:
    from ruplar.report.write import write_report

    if html is not None and html.is_dir():
        raise UserError(f"--html: {html} is a folder. Name a file, e.g. {html / 'page.html'}.")
    if figures is not None:
        writable_folder(figures)
    for file in write_report(runs, html, figures, drafts=drafts):
        out.print(f"written  {file}", highlight=False, soft_wrap=True)


def _print(text: str) -> None:
    out.print(text, markup=False, highlight=False, emoji=False, soft_wrap=True, end="")
