"""A study → its cells, run one process each and several at a time → what failed and what is left.

A cell that runs out of GPU memory while others run is run again alone at the end.
"""

import multiprocessing
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing import connection
from typing import Any

from ruplar.experiments import storage
from ruplar.experiments.job import Job
from ruplar.experiments.plan import Cell
from ruplar.experiments.worker import Watch, fail, run_alone, turn


@dataclass
class Outcome:
    """Result of a study: name of a cell → why it failed; names of cells that were not run."""

    failed: dict[str, str] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)


def run_study(job: Job, watch: Watch, run: Callable[[Job, Watch], None] | None = None) -> Outcome:
    """Run the chosen cells of a study; finished cells are skipped. `run` replaces the processes on this machine."""
    job = replace(job, options=replace(job.options, session=uuid.uuid4().hex))
    for cell in job.cells:
        job.status(cell)  # refuses before anything runs
    storage.write_study(job.study, job.cells, job.places)
    todo = replace(job, chosen=in_order([cell for cell in job.chosen if job.status(cell) != "done"]))
    run = run or (run_cells if job.options.jobs else _run_here)
    run(todo, watch)
    full = [cell for cell in todo.chosen if (known := todo.failed(cell)) is not None and known["again"]]
    if full:
        needing = [cell for cell in todo.chosen if any(cell.needs(other) for other in full)]
        run(replace(todo, chosen=(*full, *needing), options=replace(todo.options, jobs=1)), watch)
    return _outcome(job)


def in_order(cells: Sequence[Cell]) -> tuple[Cell, ...]:
    """Return the cells in their order, each after those whose models it needs."""
    found: dict[str, Cell] = {}
    for cell in cells:
        needed = [other for other in cells if cell.needs(other)]
        found |= {other.name: other for other in (*needed, cell)}
    return tuple(found.values())


def _outcome(job: Job) -> Outcome:
    found = Outcome()
    for cell in job.chosen:
        known = job.failed(cell)
        if known is not None:
            found.failed[cell.name] = known["reason"]
        elif job.status(cell) != "done":
            found.left.append(cell.name)
    return found


def _run_here(job: Job, watch: Watch) -> None:
    for cell in job.chosen:
        turn(cell, job, watch)


def run_cells(job: Job, watch: Watch) -> None:
    """Run each cell in a process of its own, as many at a time as asked for."""
    job = replace(job, options=replace(job.options, jobs=min(job.options.jobs, len(job.chosen))))
    start = multiprocessing.get_context("spawn")
    waiting = list(job.chosen)
    running: dict[Any, tuple[Cell, Any]] = {}
    try:
        while waiting or running:
            ahead = [*waiting, *(cell for cell, _ in running.values())]
            free = [cell for cell in waiting if not any(cell.needs(other) for other in ahead)]
            for cell in free[: job.options.jobs - len(running)]:
                events, to_parent = start.Pipe(duplex=False)
                process = start.Process(target=run_alone, args=(cell, job, to_parent))
                process.start()
                to_parent.close()
                running[events] = cell, process
                waiting.remove(cell)
            told: list[Any] = connection.wait(list(running))
            for events in told:
                try:
                    watch(events.recv())
                except EOFError:
                    _ended(*running.pop(events), job, watch)
    finally:
        for _, process in running.values():
            process.terminate()
            _join(process)


def _join(process: Any, seconds: float = 30.0) -> None:
    """Wait for a process that is ending, and kill it if it hangs."""
    process.join(seconds)
    process.kill()
    process.join()


def _ended(cell: Cell, process: Any, job: Job, watch: Watch) -> None:
    _join(process)
    code = process.exitcode
    if code and job.failed(cell) is None and job.status(cell) != "done":
        reason = f"its process ended with {'signal ' + str(-code) if code < 0 else 'status ' + str(code)}"
        fail(cell, job, watch, reason, killed=True)
