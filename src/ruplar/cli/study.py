"""`ruplar study`: run the cells of a study, several at a time."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
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
"""Exit status: some cell failed; or none failed, but some are left, because another process runs them."""


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
    show_plan: Annotated[bool, typer.Option("--plan", help="Print the cells and their status; run nothing.")] = False,
    jobs: Annotated[int, typer.Option(min=0, help="Cells run at the same time; 0: one by one in this process.")] = 1,
    only: Annotated[
        str | None,
        typer.Option(help="Run only these rows or cells: comma-separated LABEL or LABEL-seedN, with * as wildcard."),
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="Comma-separated seeds that replace those of the study.")] = None,
    output: Annotated[Path | None, typer.Option(help="Folder of the records. Default: results/STUDY.")] = None,
    work: Annotated[Path | None, typer.Option(help="Folder of models and logs. Default: runs/STUDY.")] = None,
    final: Annotated[
        bool,
        typer.Option("--final", help="Evaluate finished cells on the test sets, once; needs a committed study file."),
    ] = False,
    again: Annotated[
        list[str] | None,
        typer.Option(metavar="LABEL", help="With --final: evaluate this row again; tables mark it. Repeatable."),
    ] = None,
    frozen_at: Annotated[
        str | None,
        typer.Option(metavar="COMMIT", help="With --final: the commit of the study file, if git does not track it."),
    ] = None,
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
    if final and (overrides or seeds is not None or jobs > 1):
        raise UserError(
            "--final: evaluates the rows and seeds of the committed study file, one by one. Remove settings, "
            "--seeds and --jobs."
        )
    options.check_ray(ray, gpus, jobs=jobs > 1, final=final)
    overrides = overrides or []

    def planned() -> Job:
        return _planned(
            name, overrides, only, seeds, (output, work), data_dir, not (show_plan or final), checks=not show_plan
        )

    plan = planned()
    if show_plan:
        if as_json:
            options.print_json({cell.name: plan.status(cell) for cell in plan.chosen})
        for cell in () if as_json else plan.chosen:
            options.print_text(out, f"{plan.status(cell):8} {cell.name}")
        return
    from ruplar.experiments.job import Options
    from ruplar.experiments.plan import find_study
    from ruplar.experiments.run import run_study

    def watch(event: dict[str, Any]) -> None:
        if not as_json:
            _print_event(event)

    how = Options(device if ray is not None else options.pick_device(device), jobs, data_dir)
    if final:
        from ruplar.experiments.protocol import evaluate_on_test_sets, frozen_commit

        commit = frozen_commit(find_study(name), frozen_at)
        _finish(plan, evaluate_on_test_sets(replace(plan, options=how), commit, again or (), watch), as_json)
        return
    with ExitStack() as stack:
        run = None
        if ray is not None:
            from ruplar.cluster.cells import cluster_cells

            where, share, run = stack.enter_context(cluster_cells(ray, device, gpus))
            how = replace(how, device=where, jobs=share)
        before = None
        while before is None or len(plan.cells) > len(before.cells):  # rows that were waiting for their tries
            try:
                found = run_study(replace(plan, options=how), watch, run)
            except KeyboardInterrupt:
                raise Interrupted("interrupted: checkpoints are intact; repeat the command to resume.") from None
            before, plan = plan, planned()
    _finish(plan, found, as_json)


def _planned(
    name: str,
    overrides: Sequence[str],
    only: str | None,
    seeds: str | None,
    folders: tuple[Path | None, Path | None],
    data_dir: Path | None,
    runs: bool,
    checks: bool,
) -> Job:
    """Plan a study; where it `runs`, choices among tries are put on record. `checks`: missing files are an error."""
    from ruplar.experiments.job import Job
    from ruplar.experiments.plan import find_study, load_study, plan
    from ruplar.experiments.storage import Places
    from ruplar.experiments.tries import picks_of

    chosen = load_study(name, {"seeds": options.integers(seeds, "--seeds") if seeds is not None else None})
    results, work = (
        options.writable_folder(given or Path(usual) / chosen.name)
        for given, usual in zip(folders, ("results", "runs"), strict=True)
    )
    places = Places(results, work)
    picks, look = picks_of(chosen, places, write=runs), {"check_files": checks, "check_init": checks}
    cells = plan(chosen, overrides, find_study(name).parent, picks=picks, data_dir=data_dir, **look)
    return Job(chosen, tuple(cells), tuple(_picked(cells, "*" if only is None else only)), places)


def _picked(cells: Sequence[Cell], only: str) -> list[Cell]:
    wanted = [part.strip() for part in only.split(",") if part.strip()]

    def fits(cell: Cell, word: str) -> bool:
        return any(fnmatch(name, word) for name in (cell.label, f"{cell.label}-seed{cell.seed}", cell.name))

    found = [cell for cell in cells if any(fits(cell, word) for word in wanted)]
    nothing = [word for word in wanted if not any(fits(cell, word) for cell in cells)]
    if nothing or not found:
        labels = ", ".join(dict.fromkeys(cell.label for cell in cells))
        raise UserError(f"--only: no cell is named '{' '.join(nothing)}'. Rows: {labels}.")
    names = {cell.name for cell in found}
    for cell in found:
        if any(cell.needs(other) and other.name not in names for other in cells):
            raise UserError(f"--only: '{cell.label}' evaluates the model of '{cell.of}'; select that row too.")
    return found


def _print_event(event: dict[str, Any]) -> None:
    text = event.get("reason", "")
    if event["event"] == "failed" and event.get("again"):
        text = f"{text}  It will be run again alone."
    elif event["event"] == "done":
        scores = ", ".join(f"{name} {score:.1f} %" for name, score in event["scores"].items())
        text = f"{scores}  in {event['seconds']:.0f} s"
    options.print_text(out, f"{event['event']:8} {event['cell']}  {text}".rstrip())


def _finish(plan: Job, found: Outcome, as_json: bool) -> None:
    done, places = len(plan.chosen) - len(found.failed) - len(found.left), plan.places
    if as_json:
        options.print_json({"done": done, "failed": found.failed, "left": found.left, "results": str(places.results)})
    else:
        options.print_text(
            out, f"{done} of {len(plan.chosen)} cells are done; `ruplar report {places.results}` prints the table"
        )
        for name, reason in found.failed.items():
            options.print_text(out, f"failed   {name}: {reason}  (log: {places.work / name / 'log.txt'})")
        if found.left:
            options.print_text(out, f"left     {', '.join(found.left)}; repeat the command to resume")
    if found.failed or found.left:
        raise typer.Exit(SOME_FAILED if found.failed else SOME_LEFT)
