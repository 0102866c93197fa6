"""Studies → workers that run their cells in parallel where memory allows → what failed and what is left.

The number of workers is given, or measured: one worker runs the first cell, and its peak memory determines how many fit. A cell
that runs out of GPU memory while others run is deferred and retried exclusively. When a worker finds no memory to start, the
others continue without it; if no worker can start, the study ends.
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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ruplar.errors import UserError
from ruplar.experiments import memory, storage
from ruplar.experiments.job import Job, Options
from ruplar.experiments.plan import Cell
from ruplar.experiments.worker import work

log = logging.getLogger(__name__)

Watch = Callable[[dict[str, Any]], None]
"""Gets every event: ready or no room, start, step, done, failed (see `worker.py`), and again: failed, to be retried exclusively."""
_ROOM = 0.8
"""Fraction of the free memory that workers may fill; the first cell may not show the highest peak."""


@dataclass
class Outcome:
    """Result of a study: name of a cell → why it failed; names of cells that were not run."""

    failed: dict[str, str] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)


def run_studies(
    jobs: Sequence[Job], options: Options, watch: Watch, pool: Callable[..., Any] | None = None
) -> list[Outcome]:
    """Run the chosen cells of each study, in order, with the same workers; finished cells are skipped.

    `pool` replaces `Pool`, the workers on this machine.
    """
    memory.check_share(options.share, options.device)
    several = options.device.startswith("cuda") if options.persistent_workers is None else options.persistent_workers
    options = replace(
        options,
        session=uuid.uuid4().hex,
        deadline=None if options.budget is None else time.time() + options.budget,
        most=None if several or options.jobs == 0 else 1,
        exclusive=options.jobs in (0, 1),
    )
    jobs = [replace(job, options=options) for job in jobs]
    open_cells = [tuple(cell for cell in job.chosen if job.status(cell) != "done") for job in jobs]
    for job in jobs:
        for cell in job.cells:
            job.status(cell)  # refuses before anything runs
    for job in jobs:
        storage.write_study(job.study, job.cells, job.places)
    todo = [replace(job, chosen=cells) for job, cells in zip(jobs, open_cells, strict=True) if cells]
    if todo and options.jobs == 0:
        memory.limit(options.device, options.share)
        work(todo, watch)
    elif todo:
        pool = pool or Pool
        again = pool(todo, options.jobs, watch).run()
        if again:
            pool(again, 1, watch).run()
    return [_outcome(job) for job in jobs]


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
    """A process, its job files, its log, its current cell (study and name), and whether others ran in parallel."""

    process: subprocess.Popen
    files: Sequence[Path]
    log: Path
    cell: tuple[str, str] | None = None
    did: int = 0
    ready: bool = False
    ended: bool = False
    beside: bool = False
    no_room: str = ""

    def clear(self) -> None:
        """Remove its job files, and its log if it is empty."""
        empty = [self.log] if self.log.is_file() and not self.log.stat().st_size else []
        for file in (*self.files, *empty):
            file.unlink(missing_ok=True)


class Pool:
    """Workers that share one study or several; their number is measured where `jobs` is None."""

    def __init__(self, plans: Sequence[Job], jobs: int | None, watch: Watch):
        self.plans, self.watch, self.options = plans, watch, plans[0].options
        self.cells = {(job.study.name, cell.name): (job, cell) for job in plans for cell in job.chosen}
        self.auto, self.jobs = jobs is None, min(jobs or 1, len(self.cells))
        # on a GPU the first cell shows how many fit
        self.measuring = self.auto and self.options.device.startswith("cuda")
        self.events: queue.Queue[tuple[_Worker, dict[str, Any] | None]] = queue.Queue()
        self.workers: list[_Worker] = []
        self.room = 0.0
        self.fit = len(self.cells)  # upper limit; lower after a worker found no memory to start
        known = (storage.recorded(cell, job.places) for job in plans for cell in job.cells)
        self.peak = max((record.peak_gb or 0.0 for record in known if record is not None), default=0.0)
        self.over: set[tuple[str, str]] = set()
        self.later: set[tuple[str, str]] = set()

    def run(self) -> list[Job]:
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
        chosen = (
            (job, tuple(cell for cell in job.chosen if (job.study.name, cell.name) in self.later))
            for job in self.plans
        )
        options = replace(self.options, exclusive=True, most=1)
        return [replace(job, chosen=cells, options=options) for job, cells in chosen if cells]

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
            share=memory.share_of(self.options.share, self.jobs, self.options.device),
            # while measuring no share is known, and a worker without a limit would leave no memory for others
            most=1 if self.measuring else self.options.most,
        )
        # the process id keeps the files of two starts of a study apart
        name = f"{os.getpid()}-{number}{'-exclusive' if options.exclusive else ''}.json"
        files = [job.places.work / ".workers" / name for job in self.plans]
        for job, path in zip(self.plans, files, strict=True):
            replace(job, options=options).write(path)
        output = files[0].with_suffix(".log")
        with output.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "ruplar.experiments.worker", *map(str, files)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, text=True,
            )  # fmt: skip
        others = [other for other in self.workers if not other.ended]
        worker = _Worker(process, files, output, beside=bool(others))
        for other in others:
            other.beside = other.beside or not other.ready
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
        elif kind == "no room":
            worker.no_room = event["reason"]
        elif kind == "start":
            worker.cell = (event["study"], event["cell"])
            others = [other for other in self.workers if other.cell and not other.ended and other is not worker]
            worker.beside = bool(others)
            for other in others:
                other.beside = True
        elif kind in ("done", "failed"):
            worker.cell, worker.did = None, worker.did + 1
            self.over.add((event["study"], event["cell"]))
            self.peak = max(self.peak, event.get("peak_gb") or 0.0)
            if event.get("again"):
                self._postpone((event["study"], event["cell"]), worker.beside)
                event = {**event, "event": "again" if worker.beside else kind}
        grows = kind in ("done", "failed") or (kind == "ready" and not self.measuring)
        if self.auto and grows and self.peak:
            self._grow()
        self.watch(event)

    def _postpone(self, key: tuple[str, str], beside: bool) -> None:
        """Defer a cell that ran out of memory, unless it ran exclusively, and the cells that need its model."""
        job, cell = self.cells[key]
        dependent = {(key[0], other.name) for other in job.chosen if other.needs(cell)}
        self.over |= dependent
        self.later |= dependent | ({key} if beside else set())

    def _grow(self) -> None:
        """Set the number of workers by the peak memory of the largest cell so far, and by cores per cell."""
        loaders = [loaders_of(cell) for _, cell in self.cells.values()]
        cores = int((os.cpu_count() or 1) / (1 + sum(loaders) / len(loaders)))
        fitting = max(1, min(cores, int(_ROOM * self.room / self.peak), self.fit))
        if fitting != self.jobs:
            log.info("%d parallel workers: %.1f GB each, %.1f GB free at the start.", fitting, self.peak, self.room)
        self.jobs, self.measuring = fitting, False

    def _ended(self, worker: _Worker) -> None:
        worker.ended = True
        code = worker.process.returncode
        if worker.cell is not None:
            job, cell = self.cells[worker.cell]
            reason = f"its process ended with {'signal ' + str(-code) if code < 0 else 'status ' + str(code)}"
            storage.write_failure(cell, job.places, reason, self.options.session)
            self.over.add(worker.cell)
            self.watch({"event": "failed", "cell": cell.name, "reason": reason, "study": job.study.name})
            return
        if worker.no_room:
            self._shrink(worker)
            return
        if not worker.ready:
            lines = worker.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise UserError(f"a worker could not start: {lines[-1] if lines else f'status {code}'} ({worker.log}).")
        # it found nothing to run: what is left is done, failed, or claimed by another process
        if not worker.did:
            running = {other.cell for other in self.workers if not other.ended}
            self.over |= self.cells.keys() - running

    def _shrink(self, worker: _Worker) -> None:
        """Continue with fewer workers after one found no memory to start; without others, it had all the memory."""
        if not worker.beside:
            raise UserError(
                f"no worker could start, the GPU is full: {worker.no_room} ({worker.log}). Free its memory or choose another "
                "--device, and run the same command again: it resumes."
            )
        alive = sum(not other.ended for other in self.workers)
        self.jobs = self.fit = max(1, alive)
        log.warning("a worker found no memory to start (%s); continuing with %d.", worker.no_room, self.jobs)
