"""What workers are told → the workers, several at once where memory allows, followed until the last has ended.

Their number is given, or found out: one does the first cell, and its most memory says how many fit. A cell for which the
GPU's memory did not do while others ran beside it is handed back, to be done again with nothing beside it. Where a worker
finds no room to start beside others, those go on without it; one that finds none alone ends the study.
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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ruplar.errors import UserError
from ruplar.experiments import memory
from ruplar.experiments import storage as disk
from ruplar.experiments.plan import Cell
from ruplar.experiments.worker import Job

log = logging.getLogger(__name__)

Watch = Callable[[dict[str, Any]], None]
"""Gets every event: ready or no room, start, step, done, failed (see `worker.py`), and again: failed, its last try to come."""
_ROOM = 0.8
"""Share of the free memory that workers may fill; the rest is for what the first cell did not show."""


def loaders_of(cell: Cell) -> int:
    """Processes that encode while a cell trains; none where everything was encoded before."""
    config = cell.config
    ahead = config.speed.pretokenize and not (config.method.make().dynamic or config.prior.make().dynamic)
    return 0 if ahead else int(config.training.get("dataloader_num_workers", 0))


@dataclass
class _Worker:
    """A process, the plans it was given, its own log, what it is at (study and cell), whether others were there meanwhile."""

    process: subprocess.Popen
    plans: Sequence[Path]
    log: Path
    cell: tuple[str, str] | None = None
    did: int = 0
    ready: bool = False
    ended: bool = False
    beside: bool = False
    no_room: str = ""

    def clear(self) -> None:
        """Remove its plans, and its log when it said nothing."""
        empty = [self.log] if self.log.is_file() and not self.log.stat().st_size else []
        for file in (*self.plans, *empty):
            file.unlink(missing_ok=True)


class Pool:
    """Workers that share one study or several, from the first to the last.

    Args:
        plans: What they are told, a job a study.
        jobs: How many at once; None: found out.
        watch: Gets their events.
    """

    def __init__(self, plans: Sequence[Job], jobs: int | None, watch: Watch):
        self.plans, self.watch = plans, watch
        self.cells = {(job.study.name, cell.name): (job, cell) for job in plans for cell in job.cells}
        self.auto, self.jobs = jobs is None, min(jobs or 1, len(self.cells))
        # how many fit: on a GPU one cell shows it first
        self.sought = self.auto and plans[0].device.startswith("cuda")
        self.events: queue.Queue[tuple[_Worker, dict[str, Any] | None]] = queue.Queue()
        self.workers: list[_Worker] = []
        self.room = 0.0
        self.fit = len(self.cells)  # never more at once: fewer after one that found no room to start
        known = (disk.recorded(cell, job.places) for job in plans for cell in job.others)
        self.peak = max((record.peak_gb or 0.0 for record in known if record is not None), default=0.0)
        self.over: set[tuple[str, str]] = set()
        self.later: set[tuple[str, str]] = set()

    def run(self) -> list[Job]:
        """Start workers as long as there is something to begin, and follow them until the last has ended.

        Returns:
            What is to be done again, by one process a cell: what was out of memory, with the rows that ask its model.
        """
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
            (job, tuple(cell for cell in job.cells if (job.study.name, cell.name) in self.later)) for job in self.plans
        )
        return [replace(job, cells=cells, alone=True, most=1) for job, cells in chosen if cells]

    def _fill(self) -> None:
        """As many workers as may be; each more than the cells nobody is at would find nothing to do."""
        alive = [worker for worker in self.workers if not worker.ended]
        taken = {worker.cell for worker in alive if worker.cell}
        idle = sum(worker.cell is None for worker in alive)
        free = len(self.cells.keys() - self.over - taken) - idle
        deadline = self.plans[0].deadline
        if deadline is not None and time.time() >= deadline:
            return
        for _ in range(min(self.jobs - len(alive), free)):
            self._start()

    def _start(self) -> None:
        number, threads = len(self.workers) + 1, max(1, (os.cpu_count() or 1) // self.jobs)
        files = []
        for job in self.plans:
            # named by this process too: another start of the study writes its own beside them
            name = f"{os.getpid()}-{number}{'-alone' if job.alone else ''}.json"
            files.append(job.places.work / ".workers" / name)
            share = memory.share_of(job.share, self.jobs, job.device)
            # before the number is found no share can be given, and one without would leave the others no room
            replace(job, threads=threads, share=share, most=1 if self.sought else job.most).write(files[-1])
        said = files[0].with_suffix(".log")
        with said.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "ruplar.experiments.worker", *map(str, files)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, text=True,
            )  # fmt: skip
        others = [other for other in self.workers if not other.ended]
        worker = _Worker(process, files, said, beside=bool(others))
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
        grows = kind in ("done", "failed") or (kind == "ready" and not self.sought)
        if self.auto and grows and self.peak:
            self._grow()
        self.watch(event)

    def _postpone(self, key: tuple[str, str], beside: bool) -> None:
        """Keep a cell that was out of memory for the end, unless it had all of it; what asks its model must wait for it."""
        job, cell = self.cells[key]
        asking = {(key[0], other.name) for other in job.cells if other.needs(cell)}
        self.over |= asking
        self.later |= asking | ({key} if beside else set())

    def _grow(self) -> None:
        """As many as fit: by the memory of the largest cell so far, and by cores, of which an average cell takes so many."""
        loaders = [loaders_of(cell) for _, cell in self.cells.values()]
        cores = int((os.cpu_count() or 1) / (1 + sum(loaders) / len(loaders)))
        fitting = max(1, min(cores, int(_ROOM * self.room / self.peak), self.fit))
        if fitting != self.jobs:
            log.info("%d at once: %.1f GB each, %.1f GB free at the start.", fitting, self.peak, self.room)
        self.jobs, self.sought = fitting, False

    def _ended(self, worker: _Worker) -> None:
        worker.ended = True
        code = worker.process.returncode
        if worker.cell is not None:
            job, cell = self.cells[worker.cell]
            reason = f"its process ended with {'signal ' + str(-code) if code < 0 else 'status ' + str(code)}"
            disk.write_failure(cell, job.places, reason, job.session)
            self.over.add(worker.cell)
            self.watch({"event": "failed", "cell": cell.name, "reason": reason, "study": job.study.name})
            return
        if worker.no_room:
            self._shrink(worker)
            return
        if not worker.ready:
            said = worker.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise UserError(f"a worker could not start: {said[-1] if said else f'status {code}'} ({worker.log}).")
        # it found nothing to do: what is left is done, failed, or held by another start of this study
        if not worker.did:
            taken = {other.cell for other in self.workers if not other.ended}
            self.over |= self.cells.keys() - taken

    def _shrink(self, worker: _Worker) -> None:
        """Go on with fewer than there were when a worker found no room to start; alone it had all there is."""
        if not worker.beside:
            raise UserError(
                f"no worker could start, the GPU is full: {worker.no_room} ({worker.log}). Free its memory or choose another "
                "--device, and run the study again: it goes on where it stopped."
            )
        alive = sum(not other.ended for other in self.workers)
        self.jobs = self.fit = max(1, alive)
        log.warning("a worker found no room to start (%s); from now on %d at once.", worker.no_room, self.jobs)
