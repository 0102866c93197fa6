"""`ruplar study`: study files → their cells, done several at once with a bar each, then their tables."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from ruplar.cli.options import AsJson, DataDir, Device, integers, names_and_settings, no_file, pick_device, print_json
from ruplar.errors import UserError

if TYPE_CHECKING:
    from ruplar.experiments.plan import Cell
    from ruplar.experiments.run import Job, Outcome

out = Console()
SOME_FAILED, SOME_LEFT = 1, 3
"""Exit status: a cell failed; none failed, but time ran out or another process holds some."""


def study(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="STUDY... [KEY=VALUE]...",
            help="Studies of `ruplar list studies`, or YAML files; then dotted settings of all rows, e.g. training.max_steps=600.",
        ),
    ],
    show_plan: Annotated[bool, typer.Option("--plan", help="Only show the cells and how far each is.")] = False,
    jobs: Annotated[
        str, typer.Option(help="Cells at once; auto: as many as fit in memory; 0: in this process.")
    ] = "auto",
    only: Annotated[
        str | None, typer.Option(help="Comma-separated labels or LABEL-seedN of one study; * stands for anything.")
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="Comma-separated, in place of the study's.")] = None,
    budget_seconds: Annotated[float | None, typer.Option(min=0, help="Begin no cell after so many seconds.")] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Where records go; results/STUDY when left out. Of several studies: their folder."),
    ] = None,
    work: Annotated[
        Path | None, typer.Option(help="Where models and logs go; runs/STUDY when left out. Of several: their folder.")
    ] = None,
    reuse: Annotated[
        bool, typer.Option(help="Reuse records and models of other studies that were made with the same settings.")
    ] = True,
    persistent_workers: Annotated[
        bool | None,
        typer.Option(
            help="A worker runs several cells; by default on a GPU only, where memory statistics can be reset."
        ),
    ] = None,
    memory_share: Annotated[
        float | None,
        typer.Option(
            help="Share of the GPU's memory for each job, above 0 and up to 1; of N > 1 jobs each has 0.95 / N."
        ),
    ] = None,
    data_dir: DataDir = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Methods × seeds under equal conditions: train, ask, record; goes on where it was stopped."""
    names, overrides = names_and_settings(words, "study", "studies")
    if only is not None and len(names) > 1:
        raise UserError("--only: names rows of one study; several are named.")
    plans = [_planned(name, overrides, only, seeds, (output, work), alone=len(names) == 1) for name in names]
    twice = sorted({p.study.name for p in plans if sum(q.study.name == p.study.name for q in plans) > 1})
    if twice:
        raise UserError(
            f"two studies are both called '{twice[0]}', so their records would lie in one folder. Rename one."
        )
    if show_plan:
        found = [_show_plan(plan, as_json) for plan in plans]
        if as_json:
            print_json(found[0] if len(plans) == 1 else dict(zip((p.study.name for p in plans), found, strict=True)))
        return
    from ruplar.experiments.run import Options, run_studies

    options = Options(
        device=pick_device(device),
        jobs=_jobs(jobs),
        budget=budget_seconds,
        data_dir=data_dir,
        share=memory_share,
        reuse=reuse,
        persistent_workers=persistent_workers,
    )
    started = time.monotonic()
    with _watching(out, sum(len(plan.chosen) for plan in plans), as_json, several=len(plans) > 1) as watch:
        outcomes = run_studies(plans, options, watch)
    _close(list(zip(plans, outcomes, strict=True)), time.monotonic() - started, as_json)


def _planned(
    name: str,
    overrides: Sequence[str],
    only: str | None,
    seeds: str | None,
    folders: tuple[Path | None, Path | None],
    alone: bool,
) -> Job:
    """A study by its name or file, checked, with the cells that are to be done and where they go."""
    from ruplar.experiments.plan import find_study, load_study, plan
    from ruplar.experiments.run import Job
    from ruplar.experiments.storage import Places

    chosen, wanted = load_study(name, {"seeds": integers(seeds, "--seeds") if seeds else None}), _wanted(only)
    cells = plan(
        chosen,
        overrides,
        find_study(name).parent,
        wanted=lambda label: any(fnmatch(label, word.rpartition("-seed")[0] or word) for word in wanted),
    )
    results, runs = (
        no_file(given if given and alone else (given or Path(usual)) / chosen.name)
        for given, usual in zip(folders, ("results", "runs"), strict=True)
    )
    return Job(chosen, tuple(cells), tuple(_picked(cells, wanted)), Places(results, runs))


def _jobs(text: str) -> int | None:
    if text == "auto":
        return None
    if not text.isdigit():
        raise UserError(f"--jobs: cannot read '{text}'. Write a whole number, or auto.")
    return int(text)


def _wanted(only: str | None) -> list[str]:
    return ["*"] if only is None else [part.strip() for part in only.split(",") if part.strip()]


def _picked(cells: Sequence[Cell], wanted: Sequence[str]) -> list[Cell]:
    """The cells that --only names, by label, by label and seed, or by folder."""

    def fits(cell: Cell, word: str) -> bool:
        return any(fnmatch(name, word) for name in (cell.label, f"{cell.label}-seed{cell.seed}", cell.name))

    found = [cell for cell in cells if any(fits(cell, word) for word in wanted)]
    nothing = [word for word in wanted if not any(fits(cell, word) for cell in cells)]
    if nothing or not found:
        labels = ", ".join(dict.fromkeys(cell.label for cell in cells))
        raise UserError(f"--only: no cell is called '{' '.join(nothing)}'. Rows: {labels}.")
    names = {cell.name for cell in found}
    for cell in found:
        if any(cell.needs(other) and other.name not in names for other in cells):
            raise UserError(f"--only: '{cell.label}' needs the model of '{cell.of}'; name that row too.")
    return found


def _show_plan(plan: Job, as_json: bool) -> list[dict[str, Any]]:
    """The cells and how far each is: printed as a table, unless it is for programs."""
    from ruplar.display import table

    chosen, places = plan.study, plan.places
    rows: list[dict[str, Any]] = [
        {
            "cell": cell.name,
            "method": cell.config.method.name,
            "steps": cell.config.training.get("max_steps"),
            "set": [o for o in cell.overrides if not o.startswith("seed=")],
            "status": plan.status(cell),
        }
        for cell in plan.chosen
    ]
    if as_json:
        return rows
    on = ", ".join(source.name for source in chosen.on)
    shown = ((str(r["cell"]), str(r["method"]), str(r["steps"] or ""), str(r["status"])) for r in rows)
    out.print(
        table(f"{chosen.name}: {len(rows)} cells, asked {on}", ("cell", "method", "steps", "status"), shown, texts=2)
    )
    out.print(
        f"equal in all rows: {', '.join(chosen.same)}\nrecords {places.results}, models {places.work}", highlight=False
    )
    return rows


@contextmanager
def _watching(console: Console, total: int, quiet: bool, several: bool) -> Iterator[Any]:
    """Bars on a terminal, a line a cell elsewhere; yields a function of events. Of several studies, cells are told with theirs."""

    def named(event: dict[str, Any]) -> dict[str, Any]:
        return {**event, "cell": f"{event['study']}/{event['cell']}"} if several and "cell" in event else event

    if quiet:
        yield lambda event: None
    elif not console.is_terminal:
        yield lambda event: _tell(console, named(event))
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
                event = named(event)
                name = event.get("cell", "")
                if event["event"] == "start":
                    tasks[name] = progress.add_task(name, total=None)
                elif event["event"] == "step" and name in tasks:
                    text = f"{name}  {event['what']}"
                    progress.update(tasks[name], description=text, completed=event["done"], total=event["of"])
                elif event["event"] in ("done", "failed", "again"):
                    if name in tasks:
                        progress.remove_task(tasks.pop(name))
                    progress.advance(cells, event["event"] != "again")
                    _tell(progress.console, event)

            yield watch


def _tell(console: Console, event: dict[str, Any]) -> None:
    kind = event["event"]
    if kind == "start":
        text = f"start   {event['cell']}{'  retried exclusively' if event['again'] else ''}"
    elif kind == "done":
        scores = ", ".join(f"{name} {score:.1f} %" for name, score in event["scores"].items())
        how = f"reused from {event['reused_from']}" if event["reused_from"] else f"in {event['seconds']:.0f} s"
        text = f"done    {event['cell']}  {scores}  {how}"
    elif kind == "failed":
        text = f"failed  {event['cell']}  {event['reason']}"
    elif kind == "again":
        text = f"later   {event['cell']}  deferred, will be retried exclusively: {event['reason']}"
    else:
        return
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def _close(ended: Sequence[tuple[Job, Outcome]], seconds: float, as_json: bool) -> None:
    """The tables of what is there, what is missing and why, and the exit status."""
    told = {plan.study.name: _told(plan, found) for plan, found in ended}
    if as_json:
        print_json(next(iter(told.values())) if len(told) == 1 else told)
    else:
        for plan, found in ended:
            _summary(plan, found, seconds)
    if any(found.failed or found.left for _, found in ended):
        raise typer.Exit(SOME_FAILED if any(found.failed for _, found in ended) else SOME_LEFT)


def _told(plan: Job, found: Outcome) -> dict[str, Any]:
    done = len(plan.chosen) - len(found.failed) - len(found.left)
    return {"done": done, "failed": found.failed, "left": found.left, "results": str(plan.places.results)}


def _summary(plan: Job, found: Outcome, seconds: float) -> None:
    from ruplar.report.rows import collect
    from ruplar.report.tables import results_table, to_markdown

    places, done = plan.places, _told(plan, found)["done"]
    try:
        _say(to_markdown([results_table(collect(places.results))]).rstrip())
    except UserError as error:  # nothing done yet, or none may enter a table: that must not hide what follows
        _say(f"no table: {error}")
    _say(
        f"{done} of {len(plan.chosen)} cells of {plan.study.name} are done, {seconds:.0f} s; records in {places.results}"
    )
    for name, reason in found.failed.items():
        _say(f"failed  {name}: {reason}  (log: {places.work / name / 'log.txt'})")
    if found.left:
        _say(f"left    {', '.join(found.left)}; the same command goes on with them")


def _say(text: str) -> None:
    out.print(text, highlight=False, markup=False, soft_wrap=True)
