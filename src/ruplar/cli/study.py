"""`ruplar study`: a study file → its cells, done several at once with a bar each, then its table."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from ruplar.cli.options import AsJson, DataDir, Device, integers, no_file, pick_device, print_json
from ruplar.errors import UserError

if TYPE_CHECKING:
    from ruplar.study.disk import Places
    from ruplar.study.plan import Cell, Study
    from ruplar.study.run import Outcome

out = Console()
SOME_FAILED, SOME_LEFT = 1, 3
"""Exit status: a cell failed; none failed, but time ran out or another process holds some."""


def study(
    name: Annotated[str, typer.Argument(metavar="STUDY", help="A study of `ruplar list studies`, or a YAML file.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Dotted settings of all rows, e.g. training.max_steps=600.")
    ] = None,
    show_plan: Annotated[bool, typer.Option("--plan", help="Only show the cells and how far each is.")] = False,
    jobs: Annotated[
        str, typer.Option(help="Cells at once; auto: as many as fit in memory; 0: in this process.")
    ] = "auto",
    only: Annotated[
        str | None, typer.Option(help="Comma-separated labels or LABEL-seedN; * stands for anything.")
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="Comma-separated, in place of the study's.")] = None,
    budget_seconds: Annotated[float | None, typer.Option(min=0, help="Begin no cell after so many seconds.")] = None,
    output: Annotated[Path | None, typer.Option(help="Where records go; results/STUDY when left out.")] = None,
    work: Annotated[Path | None, typer.Option(help="Where models and logs go; runs/STUDY when left out.")] = None,
    reuse: Annotated[
        bool | None,
        typer.Option(help="A worker does several cells; as a rule on a GPU only, for memory figures' sake."),
    ] = None,
    data_dir: DataDir = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Methods × seeds under equal conditions: train, ask, record; goes on where it was stopped."""
    from ruplar.study import disk
    from ruplar.study.plan import find_study, load_study, plan

    chosen = load_study(name, {"seeds": integers(seeds, "--seeds") if seeds else None})
    wanted = _wanted(only)
    cells = plan(
        chosen,
        overrides or [],
        find_study(name).parent,
        wanted=lambda label: any(fnmatch(label, word.rpartition("-seed")[0] or word) for word in wanted),
    )
    places = disk.Places(no_file(output or Path("results") / chosen.name), no_file(work or Path("runs") / chosen.name))
    todo = _picked(cells, wanted)
    if show_plan:
        _show_plan(chosen, todo, places, as_json)
        return
    from ruplar.study.run import How, run_study

    how = How(pick_device(device), _jobs(jobs), budget_seconds, data_dir, reuse)
    started = time.monotonic()
    with _watching(out, len(todo), quiet=as_json) as watch:
        found = run_study(chosen, cells, todo, places, how, watch)
    _close(chosen, found, places, len(todo), time.monotonic() - started, as_json)


def _jobs(text: str) -> int | None:
    if text == "auto":
        return None
    if not text.isdigit():
        raise UserError(f"--jobs: cannot read '{text}'. Write a whole number, or auto.")
    return int(text)


def _wanted(only: str | None) -> list[str]:
    return ["*"] if only is None else [part.strip() for part in only.split(",") if part.strip()]


def _picked(cells: Sequence[Cell], wanted: Sequence[str]) -> list[Cell]:
    """The cells that --only names, by label or by folder."""

    def fits(cell: Cell, word: str) -> bool:
        return fnmatch(cell.label, word) or fnmatch(cell.name, word)

    found = [cell for cell in cells if any(fits(cell, word) for word in wanted)]
    nothing = [word for word in wanted if not any(fits(cell, word) for cell in cells)]
    if nothing or not found:
        labels = ", ".join(dict.fromkeys(cell.label for cell in cells))
        raise UserError(f"--only: no cell is called '{' '.join(nothing)}'. Rows: {labels}.")
    names = {(cell.label, cell.seed) for cell in found}
    for cell in found:
        if cell.of is not None and (cell.of, cell.seed) not in names:
            raise UserError(f"--only: '{cell.label}' asks the model of '{cell.of}'; name that row too.")
    return found


def _show_plan(chosen: Study, cells: Sequence[Cell], places: Places, as_json: bool) -> None:
    from ruplar.show import table
    from ruplar.study import disk

    rows = [
        {
            "cell": cell.name,
            "method": cell.config.method.name,
            "steps": cell.config.training.get("max_steps"),
            "set": [o for o in cell.overrides if not o.startswith("seed=")],
            "status": disk.status(cell, places, chosen),
        }
        for cell in cells
    ]
    if as_json:
        print_json(rows)
        return
    on = ", ".join(source.name for source in chosen.on)
    shown = ((str(r["cell"]), str(r["method"]), str(r["steps"] or ""), str(r["status"])) for r in rows)
    out.print(
        table(f"{chosen.name}: {len(rows)} cells, asked {on}", ("cell", "method", "steps", "status"), shown, texts=2)
    )
    out.print(
        f"equal in all rows: {', '.join(chosen.same)}\nrecords {places.results}, models {places.work}", highlight=False
    )


@contextmanager
def _watching(console: Console, total: int, quiet: bool) -> Iterator[Any]:
    """Bars on a terminal, a line a cell elsewhere; yields a function of events."""
    if quiet:
        yield lambda event: None
    elif not console.is_terminal:
        yield lambda event: _tell(console, event)
    else:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=console) as progress:
            cells = progress.add_task("cells", total=total)
            tasks: dict[str, Any] = {}

            def watch(event: dict[str, Any]) -> None:
                name = event.get("cell", "")
                if event["event"] == "start":
                    tasks[name] = progress.add_task(name, total=None)
                elif event["event"] == "step" and name in tasks:
                    text = f"{name}  {event['what']}"
                    progress.update(tasks[name], description=text, completed=event["done"], total=event["of"])
                elif event["event"] in ("done", "failed"):
                    if name in tasks:
                        progress.remove_task(tasks.pop(name))
                    progress.advance(cells)
                    _tell(progress.console, event)

            yield watch


def _tell(console: Console, event: dict[str, Any]) -> None:
    kind = event["event"]
    if kind == "start":
        text = f"begun   {event['cell']}"
    elif kind == "done":
        scores = ", ".join(f"{name} {score:.1f} %" for name, score in event["scores"].items())
        text = f"done    {event['cell']}  {scores}  in {event['seconds']:.0f} s"
    elif kind == "failed":
        text = f"failed  {event['cell']}  {event['reason']}"
    else:
        return
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def _close(chosen: Study, found: Outcome, places: Places, total: int, seconds: float, as_json: bool) -> None:
    """The table of what is there, what is missing and why, and the exit status."""
    from ruplar.report.rows import collect
    from ruplar.report.tables import results_table, to_markdown

    done = total - len(found.failed) - len(found.left)
    if as_json:
        print_json({"done": done, "failed": found.failed, "left": found.left, "results": str(places.results)})
    else:
        try:
            _say(to_markdown([results_table(collect(places.results))]).rstrip())
        except UserError as error:  # nothing done yet, or none may enter a table: that must not hide what follows
            _say(f"no table: {error}")
        _say(f"{done} of {total} cells of {chosen.name} are done, {seconds:.0f} s; records in {places.results}")
        for name, reason in found.failed.items():
            _say(f"failed  {name}: {reason}  (log: {places.work / name / 'log.txt'})")
        if found.left:
            _say(f"left    {', '.join(found.left)}; the same command goes on with them")
    if found.failed or found.left:
        raise typer.Exit(SOME_FAILED if found.failed else SOME_LEFT)


def _say(text: str) -> None:
    out.print(text, highlight=False, markup=False, soft_wrap=True)
