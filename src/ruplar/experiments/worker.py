"""A plan on disk → cells brought to their records, one after another, in one process that imports torch once.

    python -m ruplar.experiments.worker PLAN.json ...

Several workers share a plan: each takes the next cell nobody holds, then goes on to the next plan. What happens goes to
standard output, a JSON object a line, for the process that started it; everything else a cell says goes to its log. A
worker ends when the one that started it is gone, so a killed study leaves nothing running.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruplar.errors import UserError
from ruplar.experiments import memory
from ruplar.experiments import reuse as taken
from ruplar.experiments import storage as disk
from ruplar.experiments.plan import Cell, Study

log = logging.getLogger("ruplar.experiments.worker")  # as a program this module is called otherwise

Emit = Callable[[dict[str, Any]], None]
_EVERY = 0.5
"""Seconds between two words about the same cell."""


@dataclass(frozen=True)
class Job:
    """What a worker is told.

    Attributes:
        study: The settings.
        cells: Those to do.
        others: All cells of the study, `cells` among them.
        places: Where they lie.
        device: As torch names it.
        session: Names this start of the study: a cell that failed in it is not tried again in it.
        deadline: No cell is begun after this time (seconds since 1970); None: no such time.
        most: Cells to do before ending; None: all. One a process keeps the memory figures of a CPU apart.
        threads: Of torch on the CPU; None: its own choice.
        data_dir: Folder with the files of known sets.
        share: Of the GPU's memory, at most; None: no limit.
        alone: Nothing runs beside its cells. Otherwise one that is out of memory is kept for such a job, which tries it again.
    """

    study: Study
    cells: tuple[Cell, ...]
    others: tuple[Cell, ...]
    places: disk.Places
    device: str = "cpu"
    session: str = ""
    deadline: float | None = None
    most: int | None = None
    threads: int | None = None
    data_dir: Path | None = None
    share: float | None = None
    alone: bool = False

    def write(self, file: Path) -> None:
        """As JSON."""
        plain = {key: getattr(self, key) for key in ("device", "session", "deadline", "most", "threads", "share", "alone")}  # fmt: skip
        names = [cell.name for cell in self.cells]
        paths = {"results": str(self.places.results), "work": str(self.places.work)}
        about = {"study": self.study.model_dump(mode="json"), "cells": names, "others": [c.as_dict() for c in self.others]}  # fmt: skip
        disk.write_json(file, {**plain, **paths, **about, "data_dir": self.data_dir and str(self.data_dir)})

    @classmethod
    def read(cls, file: Path) -> Job:
        """What `write` wrote."""
        data = json.loads(file.read_text(encoding="utf-8"))
        others = tuple(Cell.from_dict(cell) for cell in data.pop("others"))
        names, folder = set(data.pop("cells")), data.pop("data_dir")
        return cls(
            study=Study.model_validate(data.pop("study")),
            cells=tuple(cell for cell in others if cell.name in names),
            others=others,
            places=disk.Places(Path(data.pop("results")), Path(data.pop("work"))),
            data_dir=Path(folder) if folder else None,
            **data,
        )


def work(jobs: Sequence[Job], emit: Emit) -> None:
    """Do cells, study by study, until none is left that this worker can do.

    What hangs on another worker's cell is left for a second round: meanwhile there may be something to do in another study.
    """
    done = 0
    for patient in (False, True):
        for job in jobs:
            done += _work(job, emit, patient, None if job.most is None else job.most - done)


def _work(job: Job, emit: Emit, patient: bool, most: int | None) -> int:
    """Do cells of one study → how many; `patient` waits for others'."""
    done = 0

    def tell(event: dict[str, Any]) -> None:
        emit({**event, "study": job.study.name})

    while most is None or done < most:
        if job.deadline is not None and time.time() >= job.deadline:
            return done
        outcome = _next(job, tell)
        if outcome == "wait" and patient:
            time.sleep(_EVERY)
        elif outcome in ("wait", "none"):
            return done
        else:
            done += 1
    return done


def _next(job: Job, emit: Emit) -> str:
    """Do the first cell nobody holds: `done` or `failed`; `wait` when all that is left hangs on others' work."""
    waiting = False
    for cell in job.cells:
        how = _turn(cell, job, emit)
        if how in ("done", "failed"):
            return how
        waiting = waiting or how == "wait"
    return "wait" if waiting else "none"


def _turn(cell: Cell, job: Job, emit: Emit) -> str:
    with disk.claim(cell, job.places) as mine:
        if not mine:
            return "held"
        try:
            known = _failed(cell, job)
            again = known is not None and job.alone and known["again"]
            if known is not None and not again:
                return "passed"
            record = disk.recorded(cell, job.places)
            if record is not None and disk.asked_all(record, job.study):
                return "passed"
            ready = _ready(cell, job)
        except UserError as error:
            return _fail(cell, job, emit, error)
        return _do(cell, job, emit, again) if ready == "ready" else ready


def _failed(cell: Cell, job: Job) -> dict[str, Any] | None:
    known = disk.failure(cell, job.places)
    return known if known is not None and known["session"] == job.session else None


def _ready(cell: Cell, job: Job) -> str:
    """Whether the model a cell asks is there, or its record elsewhere: `ready`, or `wait`; refused when it never will be.

    `passed`: it will be when the other row is tried again, alone; both are left for that.
    """
    trained = job.places.model_of(cell) / disk.TRAINED
    if cell.of is None or trained.is_file():
        return "ready"
    if taken.asked_elsewhere(cell, job.places, job.study, job.others, job.data_dir) is not None:
        return "ready"
    found = [_awaited(cell, other, job) for other in job.others if cell.needs(other)]
    return next((how for how in ("passed", "wait") if how in found), "ready")


def _awaited(cell: Cell, other: Cell, job: Job) -> str:
    """The same of one of the models it asks."""
    trained = job.places.run(other) / disk.TRAINED
    if trained.is_file():
        return "ready"
    known, mine = _failed(other, job), other.name in {c.name for c in job.cells}
    if known is not None and known["again"] and not job.alone:
        return "passed"
    if known is not None and not (known["again"] and mine):
        raise UserError(f"it asks the model of '{cell.of}', which failed.")
    done = not mine or disk.status(other, job.places, job.study) == "done"
    if done and not trained.is_file():  # nobody will make it: waiting for it would never end
        raise UserError(
            f"it asks the model of '{cell.of}', whose record is there but whose model is not ({job.places.run(other)}). "
            f"Bring the model back, or remove {job.places.result(other)}: then it is trained anew."
        )
    return "wait"


def _do(cell: Cell, job: Job, emit: Emit, again: bool) -> str:
    from ruplar.experiments.cell import Bench, run_cell

    last = {"at": 0.0, "what": ""}

    def tell(what: str, done: int, of: int) -> None:
        now = time.monotonic()
        if what != last["what"] or now - last["at"] >= _EVERY or done >= of:  # type: ignore[operator]
            last.update(at=now, what=what)
            emit({"event": "step", "cell": cell.name, "what": what, "done": done, "of": of})

    emit({"event": "start", "cell": cell.name, "again": again})
    began = time.monotonic()
    bench = Bench(job.study, job.places, job.device, job.data_dir)
    (job.places.run(cell) / disk.FAILED).unlink(missing_ok=True)
    with logged(job.places.run(cell) / disk.LOG):
        if again:
            log.info("%s: again, alone; beside others it was out of memory.", cell.name)
        try:
            record = run_cell(cell, bench, job.others, tell)
        except UserError as error:
            return _fail(cell, job, emit, error)
        except Exception as error:  # the other cells must go on; the log has the whole of it
            with (job.places.run(cell) / disk.LOG).open("a", encoding="utf-8") as file:
                traceback.print_exc(file=file)
            return _fail(cell, job, emit, error)
    scores = {result.name: round(result.accuracy, 2) for result in record.benchmarks}
    about = {"seconds": time.monotonic() - began, "peak_gb": record.peak_gb, "scores": scores}
    emit({"event": "done", "cell": cell.name, **about})
    return "done"


def _fail(cell: Cell, job: Job, emit: Emit, error: Exception) -> str:
    reason = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
    full = memory.out_of_memory(error)
    if full:
        reason += memory.way_out(job.share)
    disk.write_failure(cell, job.places, reason, job.session, again=full and not job.alone)
    emit({"event": "failed", "cell": cell.name, "reason": reason, "again": full and not job.alone})
    return "failed"


@contextmanager
def logged(file: Path) -> Iterator[None]:
    """Everything written to standard output and error, by C code and child processes too, goes to the end of a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    before = os.dup(1), os.dup(2)
    with file.open("ab") as target:
        os.dup2(target.fileno(), 1)
        os.dup2(target.fileno(), 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for old, number in zip(before, (1, 2), strict=True):
            os.dup2(old, number)
            os.close(old)


def _end_with_parent() -> None:
    """End when standard input does: the process that started this one has died."""

    def watch() -> None:
        while os.read(0, 1):  # not sys.stdin: its lock would be held when the interpreter ends
            pass
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main(arguments: Sequence[str]) -> None:
    """See the module's docstring."""
    _end_with_parent()
    events = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # nothing else may write among the events
    jobs = [Job.read(Path(argument)) for argument in arguments]
    job = jobs[0]  # they share everything but study, cells and places

    def emit(event: dict[str, Any]) -> None:
        events.write(json.dumps(event) + "\n")

    try:
        memory.limit(job.device, job.share)
        room = memory.room_gb(job.device)
    except Exception as error:
        if memory.out_of_memory(error):  # even what every process has on a GPU may find no room there
            emit({"event": "no room", "reason": f"{type(error).__name__}: {str(error).splitlines()[0]}"})
        raise
    import torch

    if job.threads is not None:  # beside a GPU too: what a worker does on the CPU would stand in the others' way
        torch.set_num_threads(min(job.threads, torch.get_num_threads()))
    # rows of a run are told at INFO by this package; other packages only warn
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s", stream=sys.stderr)
    logging.getLogger("ruplar").setLevel(logging.INFO)

    emit({"event": "ready", "room_gb": room})
    work(jobs, emit)


if __name__ == "__main__":
    main(sys.argv[1:])
