"""`ruplar study`: run the cells of a study, several at a time, then print its results table."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from ruplar.cli import options
from ruplar.cli.listing import completion
from ruplar.errors import Interrupted, UserError

if TYPE_CHECKING:
    from ruplar.experiments.job import Job
    from ruplar.experiments.plan import Cell
    from ruplar.experiments.run import Outcome

out = Console()
SOME_FAILED, SOME_LEFT = 1, 3
"""Exit status: some cell failed; or none failed, but some are left (time budget, or locked by another process)."""


def study(
    name: Annotated[
        str,
        typer.Argument(
            metavar="STUDY",
            help="Study: a name in `ruplar list studies`, or a YAML file.",
            autocompletion=completion("studies"),
        ),
    ],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Settings that override all rows, e.g. training.max_steps=600.")
    ] = None,
    show_plan: Annotated[
        bool, typer.Option("--plan", help="Print the cells and their status without running them.")
    ] = False,
    jobs: Annotated[
        str, typer.Option(help="Cells run in parallel; auto: as many as fit in memory; 0: in this process.")
    ] = "auto",
    only: Annotated[
        str | None,
        typer.Option(help="Run only these rows or cells: comma-separated LABEL or LABEL-seedN, with * as wildcard."),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="Comma-separated random seeds that replace those of the study.")
    ] = None,
    budget_seconds: Annotated[
        float | None, typer.Option(min=0, help="Start no new cell after this many seconds.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Folder of the records. Default: results/STUDY."),
    ] = None,
    work: Annotated[
        Path | None,
        typer.Option(help="Folder of models and logs. Default: runs/STUDY."),
    ] = None,
    final: Annotated[
        bool,
        typer.Option(
            "--final", help="Evaluate every finished cell on the test sets, once; the study file must be committed."
        ),
    ] = False,
    again: Annotated[
        list[str] | None,
        typer.Option(metavar="LABEL", help="With --final: evaluate this row again; its results say so. Repeatable."),
    ] = None,
    frozen_at: Annotated[
        str | None,
        typer.Option(metavar="COMMIT", help="With --final: the commit of the study file, if git does not track it."),
    ] = None,
    reuse: Annotated[
        bool, typer.Option(help="Reuse models of other studies that were trained with the same settings and code.")
    ] = True,
    data_dir: options.DataDir = None,
    device: options.Device = "auto",
    ray: options.Ray = None,
    gpus: options.Gpus = None,
    as_json: options.AsJson = False,
) -> None:
    """Run a study: train and evaluate rows × seeds.

    All rows are trained and evaluated under equal conditions. Repeat the command to resume an interrupted study. Only
    --final evaluates on the test sets.
    """
    if not final and (again or frozen_at):
        raise UserError(f"{'--again' if again else '--frozen-at'}: needs --final.")
    options.check_ray(ray, gpus, jobs=jobs != "auto")
    overrides = overrides or []

    def planned() -> Job:
        return _planned(name, overrides, only, seeds, (output, work))

    plan = planned()
    if show_plan:
        _show_plan(plan, as_json)
        return
    from ruplar.experiments.job import Options
    from ruplar.experiments.plan import find_study
    from ruplar.experiments.run import run_study

    how = Options(
        device=device if ray is not None else options.pick_device(device),
        jobs=_jobs(jobs),
        budget=budget_seconds,
        data_dir=data_dir,
        reuse=reuse,
    )
    started = time.monotonic()
    if final:
        _check_final(overrides, {"--seeds": seeds, "--jobs": how.jobs, "--ray": ray})
        from ruplar.experiments.protocol import ask_test_sets, frozen_commit

        commit = frozen_commit(find_study(name), frozen_at)
        with _progress(out, len(plan.chosen), as_json) as watch:
            found = ask_test_sets(replace(plan, options=how), commit, again or (), watch)
        _finish(plan, found, time.monotonic() - started, as_json)
        return
    with ExitStack() as stack:
        pool = None
        if ray is not None:
            from ruplar.cluster.cells import cell_tasks

            where, pool = stack.enter_context(cell_tasks(ray, device, gpus))
            how = replace(how, device=where)
        before = None
        while before is None or len(plan.cells) > len(before.cells):  # rows that were waiting for their tries
            left = None if budget_seconds is None else max(0.0, budget_seconds - (time.monotonic() - started))
            with _progress(out, len(plan.chosen), as_json) as watch:
                try:
                    found = run_study(replace(plan, options=replace(how, budget=left)), watch, pool)
                except KeyboardInterrupt:
                    raise Interrupted("interrupted: all checkpoints are kept; repeat the command to resume.") from None
            before, plan = plan, planned()
    _finish(plan, found, time.monotonic() - started, as_json)


def _check_final(overrides: Sequence[str], given: dict[str, object]) -> None:
    """Refuse what would change the committed list of rows, or has no effect on an evaluation in this process."""
    if overrides:
        raise UserError(
            f"--final: evaluates the rows of the committed study file, so '{overrides[0]}' cannot be set here."
        )
    for option, value in given.items():
        if value is not None:
            raise UserError(
                f"{option}: cannot be used with --final, which evaluates all finished cells one after another."
            )


def _planned(
    name: str,
    overrides: Sequence[str],
    only: str | None,
    seeds: str | None,
    folders: tuple[Path | None, Path | None],
) -> Job:
    from ruplar.experiments.job import Job
    from ruplar.experiments.plan import find_study, load_study, plan
    from ruplar.experiments.storage import Places
    from ruplar.experiments.tries import picks_of

    chosen = load_study(name, {"seeds": options.integers(seeds, "--seeds") if seeds else None})
    results, runs = (
        options.writable_folder(given or Path(usual) / chosen.name)
        for given, usual in zip(folders, ("results", "runs"), strict=True)
    )
    places = Places(results, runs)
    cells = plan(chosen, overrides, find_study(name).parent, picks=picks_of(chosen, places))
    return Job(chosen, tuple(cells), tuple(_picked(cells, only or "*")), places)


def _jobs(text: str) -> int | None:
    if text == "auto":
        return None
    if not text.isdigit():
        raise UserError(f"--jobs: cannot read '{text}'. Give an integer, or auto.")
    return int(text)


def _picked(cells: Sequence[Cell], only: str) -> list[Cell]:
    wanted = [part.strip() for part in only.split(",") if part.strip()]

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
            raise UserError(f"--only: '{cell.label}' evaluates the model of '{cell.of}'; select that row too.")
    return found


def _show_plan(plan: Job, as_json: bool) -> None:
    from ruplar.display import table
    from ruplar.experiments.plan import tries_of
    from ruplar.experiments.tries import picks_of

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
        options.print_json(rows)
        return
    on = ", ".join(source.name for source in chosen.on)
    on += f"; with --final: {', '.join(source.name for source in chosen.test)}" if chosen.test else ""
    shown = ((str(r["cell"]), str(r["method"]), str(r["steps"] or ""), str(r["status"])) for r in rows)
    out.print(
        table(
            f"{chosen.name}: {len(rows)} cells, evaluated on {on}",
            ("cell", "method", "steps", "status"),
            shown,
            texts=2,
        )
    )
    out.print(
        f"equal in all rows: {', '.join(chosen.same)}\nrecords: {places.results}, models: {places.work}",
        highlight=False,
    )
    waiting = [row for row in tries_of(chosen) if row not in picks_of(chosen, places)]
    if waiting:
        options.print_text(out, f"after their tries, trained with the best one: {', '.join(waiting)}")


@contextmanager
def _progress(console: Console, total: int, quiet: bool) -> Iterator[Any]:
    if quiet:
        yield lambda event: None
    elif not console.is_terminal:
        yield lambda event: _print_event(console, event)
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
                elif event["event"] in ("done", "failed", "again"):
                    if name in tasks:
                        progress.remove_task(tasks.pop(name))
                    progress.advance(cells, event["event"] != "again")
                    _print_event(progress.console, event)

            yield watch


def _print_event(console: Console, event: dict[str, Any]) -> None:
    kind = event["event"]
    if kind == "start":
        text = f"started  {event['cell']}{'  (retried exclusively)' if event['again'] else ''}"
    elif kind == "done":
        scores = ", ".join(f"{name} {score:.1f} %" for name, score in event["scores"].items())
        reused = f"  (model reused from {event['model_from']})" if event.get("model_from") else ""
        text = f"done     {event['cell']}  {scores}  in {event['seconds']:.0f} s{reused}"
    elif kind == "failed":
        text = f"failed   {event['cell']}  {event['reason']}"
    elif kind == "again":
        text = (
            f"deferred {event['cell']}  after an out-of-memory error; will be retried exclusively: {event['reason']}"
        )
    else:
        return
    options.print_text(console, text)


def _finish(plan: Job, found: Outcome, seconds: float, as_json: bool) -> None:
    done = len(plan.chosen) - len(found.failed) - len(found.left)
    if as_json:
        results = str(plan.places.results)
        options.print_json({"done": done, "failed": found.failed, "left": found.left, "results": results})
    else:
        _print_summary(plan, found, done, seconds)
    if found.failed or found.left:
        raise typer.Exit(SOME_FAILED if found.failed else SOME_LEFT)


def _print_summary(plan: Job, found: Outcome, done: int, seconds: float) -> None:
    from ruplar.report.rows import collect
    from ruplar.report.table import to_markdown
    from ruplar.report.tables import results_table

    places = plan.places
    try:
        options.print_text(out, to_markdown([results_table(collect(places.results))]).rstrip())
    except UserError as error:  # no complete run yet; still print what follows
        options.print_text(out, f"no table: {error}")
    options.print_text(
        out,
        f"{done} of {len(plan.chosen)} cells of {plan.study.name} are done ({seconds:.0f} s); records: {places.results}",
    )
    for name, reason in found.failed.items():
        options.print_text(out, f"failed   {name}: {reason}  (log: {places.work / name / 'log.txt'})")
    if found.left:
        options.print_text(out, f"left     {', '.join(found.left)}; repeat the command to resume")
