"""A job on disk → cells trained, evaluated and recorded, one after another, in one process that imports torch once.

    python -m ruplar.experiments.worker JOB.json

Several workers share a job: each claims the next free cell. Events go to standard output, one
JSON object per line, for the process that started the worker; all other output of a cell goes to its log. A worker ends when
its parent process does, so a killed study leaves nothing running.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ruplar.errors import UserError
from ruplar.experiments import memory, storage
from ruplar.experiments.job import Job
from ruplar.experiments.plan import Cell

log = logging.getLogger("ruplar.experiments.worker")  # run as a program, this module is named __main__

Emit = Callable[[dict[str, Any]], None]
_EVERY = 0.5  # seconds between two progress events of a cell


def work(job: Job, emit: Emit) -> None:
    """Run cells until none is left that this worker can run; wait for models that other workers train."""
    done = 0
    while job.options.most is None or done < job.options.most:
        if job.options.deadline is not None and time.time() >= job.options.deadline:
            return
        outcome = _next(job, emit)
        if outcome == "none":
            return
        if outcome == "wait":
            time.sleep(_EVERY)
        else:
            done += 1


def _next(job: Job, emit: Emit) -> str:
    """Run the first free cell: `done` or `failed`; `wait` when all that is left depends on other workers, else `none`."""
    waiting = False
    for cell in job.chosen:
        how = turn(cell, job, emit)
        if how in ("done", "failed"):
            return how
        waiting = waiting or how == "wait"
    return "wait" if waiting else "none"


def turn(cell: Cell, job: Job, emit: Emit) -> str:
    """Run a cell if it is free and not yet done: `done` or `failed`; else `held`, `passed` or `wait` (see `_ready`)."""
    with storage.claim(cell, job.places) as mine:
        if not mine:
            return "held"
        try:
            known = job.failed(cell)
            again = known is not None and job.options.exclusive and known["again"]
            if (known is not None and not again) or job.status(cell) == "done":
                return "passed"
            ready = _ready(cell, job)
        except UserError as error:
            return _fail(cell, job, emit, error)
        return _do(cell, job, emit, again) if ready == "ready" else ready


def _ready(cell: Cell, job: Job) -> str:
    """Return `ready` when the model a cell evaluates exists; `wait` when it will exist later.

    `passed`: the row that trains it will be retried exclusively, and this cell after it.
    """
    if cell.of is None or (job.places.model_of(cell) / storage.TRAINED).is_file():
        return "ready"
    found = [_awaited(cell, other, job) for other in job.cells if cell.needs(other)]
    return next((how for how in ("passed", "wait") if how in found), "ready")


def _awaited(cell: Cell, other: Cell, job: Job) -> str:
    trained = job.places.run(other) / storage.TRAINED
    if trained.is_file():
        return "ready"
    known, mine = job.failed(other), other.name in {c.name for c in job.chosen}
    if known is not None and known["again"] and not job.options.exclusive:
        return "passed"
    if known is not None and not (known["again"] and mine):
        raise UserError(f"it needs the model of '{cell.of}', which failed.")
    if (not mine or job.status(other) == "done") and not trained.is_file():  # no worker will train it: do not wait
        raise UserError(
            f"it needs the model of '{cell.of}', which has a record but no model ({job.places.run(other)}). Restore the "
            f"model, or remove {job.places.result(other)} to train it again."
        )
    return "wait"


def _do(cell: Cell, job: Job, emit: Emit, again: bool) -> str:
    from ruplar.experiments.cell import run_cell

    last = {"at": 0.0, "what": ""}

    def report(what: str, done: int, of: int) -> None:
        now = time.monotonic()
        if what != last["what"] or now - last["at"] >= _EVERY or done >= of:  # type: ignore[operator]
            last.update(at=now, what=what)
            emit({"event": "step", "cell": cell.name, "what": what, "done": done, "of": of})

    emit({"event": "start", "cell": cell.name, "again": again})
    began = time.monotonic()
    (job.places.run(cell) / storage.FAILED).unlink(missing_ok=True)
    with logged(job.places.run(cell) / storage.LOG):
        if again:
            log.info("%s: retried exclusively after an out-of-memory error.", cell.name)
        try:
            record = run_cell(cell, job, report)
        except UserError as error:
            return _fail(cell, job, emit, error)
        except Exception as error:  # the other cells continue; the log has the traceback
            with (job.places.run(cell) / storage.LOG).open("a", encoding="utf-8") as file:
                traceback.print_exc(file=file)
            return _fail(cell, job, emit, error)
    scores = {result.name: round(result.accuracy, 2) for result in record.benchmarks}
    seconds = time.monotonic() - began
    about = {"seconds": seconds, "peak_gb": record.peak_gb, "model_from": record.model_from}
    emit({"event": "done", "cell": cell.name, "scores": scores, **about})
    return "done"


def _fail(cell: Cell, job: Job, emit: Emit, error: Exception) -> str:
    reason = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
    full = memory.out_of_memory(error)
    if full and job.options.share is not None:
        reason += f" It was limited to {job.options.share:.0%} of the GPU's memory: use fewer --jobs."
    again = full and not job.options.exclusive
    storage.write_failure(cell, job.places, reason, job.options.session, again=again)
    emit({"event": "failed", "cell": cell.name, "reason": reason, "again": again})
    return "failed"


@contextmanager
def logged(file: Path) -> Iterator[None]:
    """Append standard output and error, of C code and child processes too, to a file."""
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
    """Exit when standard input closes: the parent process has died."""

    def watch() -> None:
        while os.read(0, 1):  # not sys.stdin: its lock would still be held when the interpreter exits
            pass
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def log_rows() -> None:
    """Log the rows of a run, which this package does at INFO; other packages only warn."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s", stream=sys.stderr, force=True)
    logging.getLogger("ruplar").setLevel(logging.INFO)


def main(file: str) -> None:
    """See the module's docstring."""
    _end_with_parent()
    events = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # keep other output out of the events
    job = Job.read(Path(file))
    options = job.options

    def emit(event: dict[str, Any]) -> None:
        events.write(json.dumps(event) + "\n")

    try:
        memory.limit(options.device, options.share)
        room = memory.room_gb(options.device)
    except Exception as error:  # even the CUDA context may not fit
        emit({"event": "not started", "reason": f"{type(error).__name__}: {str(error).splitlines()[0]}"})
        raise
    import torch

    if options.threads is not None:  # with a GPU too: workers share the CPU
        torch.set_num_threads(min(options.threads, torch.get_num_threads()))
    log_rows()
    emit({"event": "ready", "room_gb": room})
    work(job, emit)


if __name__ == "__main__":
    main(sys.argv[1])
