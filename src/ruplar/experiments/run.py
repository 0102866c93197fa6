"""A study → workers that run its cells in parallel where memory allows → what failed and what is left.

The number of workers is given, or measured: one worker runs the first cell, and its peak memory determines how many fit. A cell
that runs out of GPU memory while others run is deferred and retried exclusively. When a worker cannot start, the others
continue without it; if none can start, the study ends.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ruplar.errors import UserError
from ruplar.experiments import memory, storage
from ruplar.experiments.job import Job
from ruplar.experiments.plan import Cell
from ruplar.experiments.worker import work

log = logging.getLogger(__name__)

Watch = Callable[[dict[str, Any]], None]
"""Gets every event: ready or not started, start, step, done, failed (see `worker.py`), and again: failed, to be retried exclusively."""
_ROOM = 0.8
"""Fraction of the free memory that workers may fill; the first cell may not show the highest peak."""


@dataclass
class Outcome:
    """Result of a study: name of a cell → why it failed; names of cells that were not run."""

    failed: dict[str, str] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)


def run_study(job: Job, watch: Watch, pool: Callable[..., Any] | None = None) -> Outcome:
    """Run the chosen cells of a study; finished cells are skipped. `pool` replaces `Pool`, the workers on this machine."""
    options = job.options
    options = replace(
        options,
        session=uuid.uuid4().hex,
        deadline=None if options.budget is None else time.time() + options.budget,
        # a worker on the CPU runs one cell: only on a GPU can the peak memory of a process be reset
        most=None if options.device.startswith("cuda") or options.jobs == 0 else 1,
        exclusive=options.jobs in (0, 1),
    )
    job = replace(job, options=options)
    for cell in job.cells:
        job.status(cell)  # refuses before anything runs
    storage.write_study(job.study, job.cells, job.places)
    todo = replace(job, chosen=tuple(cell for cell in job.chosen if job.status(cell) != "done"))
    if todo.chosen and options.jobs == 0:
        work(todo, watch)
    elif todo.chosen:
        pool = pool or Pool
        again = pool(todo, options.jobs, watch).run()
        if again.chosen:
            pool(again, 1, watch).run()
    return _outcome(job)


def _outcome(job: Job) -> Outcome:
    found = Outcome()
    for cell in job.chosen:
        known = job.failed(cell)
        if known is not None:
            found.failed[cell.name] = known["reason"]
        elif job.status(cell) != "done":
            found.left.append(cell.name)
    return found


def loaders_of(cell: Cell) -> int:
    """Return the data loader processes of a cell; 0 where its data are pre-tokenized."""
    config = cell.config
    before = config.speed.pretokenize and not (config.method.make().dynamic or config.prior.make().dynamic)
    return 0 if before else int(config.training.get("dataloader_num_workers", 0))


@dataclass
class _Worker:
    """A process, its job file, its log, the name of its current cell, and whether others ran in parallel."""

    process: subprocess.Popen
    file: Path
    log: Path
    cell: str | None = None
    did: int = 0
    ready: bool = False
    ended: bool = False
    beside: bool = False
    problem: str = ""  # why it could not start

    def clear(self) -> None:
        """Remove its job file, and its log if it is empty."""
        self.file.unlink(missing_ok=True)
        if self.log.is_file() and not self.log.stat().st_size:
            self.log.unlink()


class Pool:
    """Workers that share a study; their number is measured where `jobs` is None."""

    def __init__(self, job: Job, jobs: int | None, watch: Watch):
        self.job, self.watch, self.options = job, watch, job.options
        self.cells = {cell.name: cell for cell in job.chosen}
        self.auto, self.jobs = jobs is None, min(jobs or 1, len(self.cells))
        # on a GPU the first cell shows how many fit
        self.measuring = self.auto and self.options.device.startswith("cuda")
        self.events: queue.Queue[tuple[_Worker, dict[str, Any] | None]] = queue.Queue()
        self.workers: list[_Worker] = []
        self.room = 0.0
        known = (storage.recorded(cell, job.places) for cell in job.cells)
        self.peak = max((record.peak_gb or 0.0 for record in known if record is not None), default=0.0)
        self.over: set[str] = set()
        self.later: set[str] = set()

    def run(self) -> Job:
        """Start workers while cells are left, and follow them until the last has ended → what to retry exclusively."""
        try:
            self._fill()
            while any(not worker.ended for worker in self.workers):
                worker, event = self.events.get()
                if event is None:
                    self._ended(worker)
                else:
                    self._happened(worker, event)
                self._fill()
        finally:
            for worker in self.workers:
                if worker.process.poll() is None:
                    worker.process.terminate()
                    worker.process.wait()
                worker.clear()
        chosen = tuple(cell for cell in self.job.chosen if cell.name in self.later)
        return replace(self.job, chosen=chosen, options=replace(self.options, exclusive=True, most=1))

    def _fill(self) -> None:
        alive = [worker for worker in self.workers if not worker.ended]
        running = {worker.cell for worker in alive if worker.cell}
        idle = sum(worker.cell is None for worker in alive)
        free = len(self.cells.keys() - self.over - running) - idle
        deadline = self.options.deadline
        if deadline is not None and time.time() >= deadline:
            return
        for _ in range(min(self.jobs - len(alive), free)):
            self._start()

    def _start(self) -> None:
        number, threads = len(self.workers) + 1, max(1, (os.cpu_count() or 1) // self.jobs)
        options = replace(
            self.options,
            threads=threads,
            share=memory.share_of(self.jobs, self.options.device),
            # while measuring no share is known, and a worker without a limit would leave no memory for others
            most=1 if self.measuring else self.options.most,
        )
        # the process id keeps the files of two starts of a study apart
        name = f"{os.getpid()}-{number}{'-exclusive' if options.exclusive else ''}.json"
        file = self.job.places.work / ".workers" / name
        replace(self.job, options=options).write(file)
        output = file.with_suffix(".log")
        with output.open("wb") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", "ruplar.experiments.worker", str(file)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
            )  # fmt: skip
        worker = _Worker(process, file, output)
        self.workers.append(worker)
        threading.Thread(target=self._listen, args=(worker,), daemon=True).start()

    def _listen(self, worker: _Worker) -> None:
        assert worker.process.stdout is not None
        for text in worker.process.stdout:
            self.events.put((worker, json.loads(text)))
        worker.process.wait()
        self.events.put((worker, None))

    def _happened(self, worker: _Worker, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "ready":
            worker.ready, self.room = True, self.room or event["room_gb"]
        elif kind == "not started":
            worker.problem = event["reason"]
        elif kind == "start":
            worker.cell = event["cell"]
            others = [other for other in self.workers if other.cell and not other.ended and other is not worker]
            worker.beside = bool(others)
            for other in others:
                other.beside = True
        elif kind in ("done", "failed"):
            worker.cell, worker.did = None, worker.did + 1
            self.over.add(event["cell"])
            self.peak = max(self.peak, event.get("peak_gb") or 0.0)
            if event.get("again"):
                self._postpone(event["cell"], worker.beside)
                event = {**event, "event": "again" if worker.beside else kind}
        grows = kind in ("done", "failed") or (kind == "ready" and not self.measuring)
        if self.auto and grows and self.peak:
            self._grow()
        self.watch(event)

    def _postpone(self, name: str, beside: bool) -> None:
        """Defer a cell that ran out of memory, unless it ran exclusively, and the cells that need its model."""
        dependent = {other.name for other in self.job.chosen if other.needs(self.cells[name])}
        self.over |= dependent
        self.later |= dependent | ({name} if beside else set())

    def _grow(self) -> None:
        """Set the number of workers by the peak memory of the largest cell so far, and by cores per cell."""
        loaders = [loaders_of(cell) for cell in self.cells.values()]
        cores = int((os.cpu_count() or 1) / (1 + sum(loaders) / len(loaders)))
        fitting = max(1, min(cores, int(_ROOM * self.room / self.peak)))
        if fitting != self.jobs:
            log.info("%d parallel workers: %.1f GB each, %.1f GB free at the start.", fitting, self.peak, self.room)
        self.jobs, self.measuring = fitting, False

    def _ended(self, worker: _Worker) -> None:
        worker.ended = True
        code = worker.process.returncode
        if worker.cell is not None:
            reason = f"its process ended with {'signal ' + str(-code) if code < 0 else 'status ' + str(code)}"
            storage.write_failure(self.cells[worker.cell], self.job.places, reason, self.options.session)
            self.over.add(worker.cell)
            self.watch({"event": "failed", "cell": worker.cell, "reason": reason})
        elif not worker.ready:
            self._shrink(worker)
        elif not worker.did:  # it found nothing to run: what is left is done, failed, or claimed by another process
            running = {other.cell for other in self.workers if not other.ended}
            self.over |= self.cells.keys() - running

    def _shrink(self, worker: _Worker) -> None:
        """Continue with one worker less after one could not start, usually because the GPU is full."""
        reason = worker.problem or f"status {worker.process.returncode}"
        if self.jobs == 1:
            raise UserError(
                f"no worker could start: {reason} ({worker.log}). If the GPU is full, free its memory or choose another "
                "--device, and run the same command again: it resumes."
            )
        self.jobs, self.auto = self.jobs - 1, False
        log.warning("a worker could not start (%s); continuing with %d.", reason, self.jobs)
