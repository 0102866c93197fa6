"""A cell → trained, evaluated and recorded, or its failure on record.

A cell's output goes to its log. Its process ends when the one that started it does, so a killed study leaves nothing running.
"""

import logging
import multiprocessing
import os
import signal
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

log = logging.getLogger(__name__)

Watch = Callable[[dict[str, Any]], None]
"""Gets every event: start, done or failed, as a dict."""


def turn(cell: Cell, job: Job, emit: Watch) -> bool:
    """Run a cell if it is not yet done and what it needs is there; False when another process holds it."""
    with storage.claim(cell, job.places) as mine:
        if mine:
            known = job.failed(cell)
            again = known is not None and job.alone and known["again"]
            try:
                if (known is None or again) and job.status(cell) != "done" and _ready(cell, job):
                    _run(cell, job, emit, again)
            except UserError as error:
                fail(cell, job, emit, str(error))
        return mine


def _ready(cell: Cell, job: Job) -> bool:
    """Return whether the models a cell needs are there; False when they will be later."""
    for other in job.cells:
        if not cell.needs(other) or (job.places.run(other) / storage.TRAINED).is_file():
            continue
        known = job.failed(other)
        if job.status(other) == "running" or (known is not None and known["again"] and not job.alone):
            return False
        if known is not None:
            raise UserError(f"it needs the model of '{cell.of}', which failed.")
        raise UserError(
            f"it needs the model of '{cell.of}', which is not there ({job.places.run(other)}). Restore the model, or "
            f"remove {job.places.result(other)} to train it again."
        )
    return True


def _run(cell: Cell, job: Job, emit: Watch, again: bool) -> None:
    from ruplar.experiments.cell import run_cell

    emit({"event": "start", "cell": cell.name, "again": again})
    began = time.monotonic()
    (job.places.run(cell) / storage.FAILED).unlink(missing_ok=True)
    with logged(job.places.run(cell) / storage.LOG):
        if again:
            log.info("%s: run again alone after an out-of-memory error.", cell.name)
        try:
            memory.limit(job.options.device, memory.share_of(job.options.jobs, job.options.device))
            record = run_cell(cell, job)
        except Exception as error:  # the other cells continue
            reason = str(error)
            if not isinstance(error, UserError):
                reason = f"{type(error).__name__}: {error}"
                with (job.places.run(cell) / storage.LOG).open("a", encoding="utf-8") as file:
                    traceback.print_exc(file=file)
            fail(cell, job, emit, reason, again=memory.out_of_memory(error) and not job.alone)
            return
    scores = {result.name: round(result.accuracy, 2) for result in record.benchmarks}
    emit({"event": "done", "cell": cell.name, "scores": scores, "seconds": time.monotonic() - began})


def fail(cell: Cell, job: Job, emit: Watch, reason: str, again: bool = False, killed: bool = False) -> None:
    """Record why a cell failed; with `again` it will be run again alone, with `killed` its process was."""
    storage.write_failure(cell, job.places, reason, job.options.session, again=again, killed=killed)
    emit({"event": "failed", "cell": cell.name, "reason": reason, "again": again})


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


def log_rows() -> None:
    """Log the rows of a run, which this package does at INFO; other packages only warn."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s", stream=sys.stderr, force=True)
    logging.getLogger("ruplar").setLevel(logging.INFO)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def run_alone(cell: Cell, job: Job, events: Any) -> None:
    """Run a cell in a process of its own; `events` is the pipe to the process that started it."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends this process
    os.dup2(2, 1)
    import torch

    torch.set_num_threads(max(1, min(torch.get_num_threads(), (os.cpu_count() or 1) // job.options.jobs)))
    log_rows()
    turn(cell, job, events.send)
