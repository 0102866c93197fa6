"""The cells of one study or several → workers that do them, several at once where memory allows → what came of it.

The number of workers is given, or found out: one does the first cell, and its most memory says how many fit.
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
from ruplar.study import disk
from ruplar.study.plan import Cell, Study
from ruplar.study.worker import Job, work

log = logging.getLogger(__name__)

Watch = Callable[[dict[str, Any]], None]
"""Gets every event: ready, start, step, done, failed; see `worker.py`."""
_ROOM = 0.8
"""Share of the free memory that workers may fill; the rest is for what the first cell did not show."""


@dataclass(frozen=True)
class How:
    """How a study is run.

    Attributes:
        device: Of all workers.
        jobs: Workers at once; 0: in this process, None: as many as memory and cores allow.
        budget: Seconds after which no cell is begun.
        data_dir: Folder with the files of known sets.
        reuse: Whether a worker does several cells; None: on a GPU, where memory figures can be reset.
    """

    device: str = "cpu"
    jobs: int | None = None
    budget: float | None = None
    data_dir: Path | None = None
    reuse: bool | None = None


@dataclass
class Outcome:
    """What came of it: cell's name → why it failed; names of those not done for another reason."""

    failed: dict[str, str] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Planned:
    """A study that is to be run: its settings, all its cells, those of them to do, and where they go."""

    study: Study
    cells: Sequence[Cell]
    chosen: Sequence[Cell]
    places: disk.Places


def run_study(
    study: Study, cells: Sequence[Cell], chosen: Sequence[Cell], places: disk.Places, how: How, watch: Watch
) -> Outcome:
    """Do the chosen cells of one study; see `run_studies`."""
    return run_studies([Planned(study, cells, chosen, places)], how, watch)[0]


def run_studies(plans: Sequence[Planned], how: How, watch: Watch) -> list[Outcome]:
    """Do the chosen cells of each study, in order, by the same workers; those done before are passed over.

    Args:
        plans: Their studies checked.
        how: On what, how many at once, how long.
        watch: Told what happens.

    Returns:
        One outcome a study.

    Raises:
        UserError: What lies there was made under other settings, or the workers cannot be started.
    """
    for plan in plans:
        for cell in plan.cells:
            disk.status(cell, plan.places, plan.study)  # refuses before anything runs
    session, deadline = uuid.uuid4().hex, None if how.budget is None else time.time() + how.budget
    reuse = how.device.startswith("cuda") if how.reuse is None else how.reuse
    jobs = []
    for plan in plans:
        disk.write_study(plan.study, plan.cells, plan.places)
        todo = tuple(cell for cell in plan.chosen if disk.status(cell, plan.places, plan.study) != "done")
        if todo:
            jobs.append(
                Job(
                    plan.study,
                    todo,
                    tuple(plan.cells),
                    plan.places,
                    device=how.device,
                    session=session,
                    deadline=deadline,
                    most=None if reuse else 1,
                    data_dir=how.data_dir,
                )
            )
    if jobs and how.jobs == 0:
        work([replace(job, most=None) for job in jobs], watch)
    elif jobs:
        _Pool(jobs, how.jobs, watch).run()
    return [_outcome(plan, session) for plan in plans]


def _outcome(plan: Planned, session: str) -> Outcome:
    found = Outcome()
    for cell in plan.chosen:
        known = disk.failure(cell, plan.places)
        if known is not None and known["session"] == session:
            found.failed[cell.name] = known["reason"]
        elif disk.status(cell, plan.places, plan.study) != "done":
            found.left.append(cell.name)
    return found


def loaders_of(cell: Cell) -> int:
    """Processes that encode while a cell trains; none where everything was encoded before."""
    config = cell.config
    ahead = config.speed.encode_ahead and not (config.method.make().fresh or config.prior.make().fresh)
    return 0 if ahead else int(config.training.get("dataloader_num_workers", 0))


@dataclass
class _Worker:
    """A process, the plans it was given, its own log, and what it is at (study and cell)."""

    process: subprocess.Popen
    plans: Sequence[Path]
    log: Path
    cell: tuple[str, str] | None = None
    did: int = 0
    ready: bool = False
    ended: bool = False

    def clear(self) -> None:
        """Remove its plans, and its log when it said nothing."""
        empty = [self.log] if self.log.is_file() and not self.log.stat().st_size else []
        for file in (*self.plans, *empty):
            file.unlink(missing_ok=True)


class _Pool:
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
        self.events: queue.Queue[tuple[_Worker, dict[str, Any] | None]] = queue.Queue()
        self.workers: list[_Worker] = []
        self.room = 0.0
        known = (disk.recorded(cell, job.places) for job in plans for cell in job.others)
        self.peak = max((record.peak_gb or 0.0 for record in known if record is not None), default=0.0)
        self.over: set[tuple[str, str]] = set()

    def run(self) -> None:
        """Start workers as long as there is something to begin, and follow them until the last has ended."""
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
            files.append(job.places.work / ".workers" / f"{os.getpid()}-{number}.json")
            replace(job, threads=threads).write(files[-1])
        said = files[0].with_suffix(".log")
        with said.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "ruplar.study.worker", *map(str, files)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, text=True,
            )  # fmt: skip
        worker = _Worker(process, files, said)
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
        elif kind == "start":
            worker.cell = (event["study"], event["cell"])
        elif kind in ("done", "failed"):
            worker.cell, worker.did = None, worker.did + 1
            self.over.add((event["study"], event["cell"]))
            self.peak = max(self.peak, event.get("peak_gb") or 0.0)
        if self.auto and kind in ("ready", "done") and self.peak:
            self._grow()
        self.watch(event)

    def _grow(self) -> None:
        """As many as fit: by the memory of the largest cell so far, and by cores, of which an average cell takes so many."""
        loaders = [loaders_of(cell) for _, cell in self.cells.values()]
        cores = int((os.cpu_count() or 1) / (1 + sum(loaders) / len(loaders)))
        fitting = max(1, min(cores, int(_ROOM * self.room / self.peak), len(self.cells)))
        if fitting != self.jobs:
            log.info("%d at once: %.1f GB each, %.1f GB free at the start.", fitting, self.peak, self.room)
        self.jobs = fitting

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
        if not worker.ready:
            said = worker.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise UserError(f"a worker could not start: {said[-1] if said else f'status {code}'} ({worker.log}).")
        # it found nothing to do: what is left is done, failed, or held by another start of this study
        if not worker.did:
            taken = {other.cell for other in self.workers if not other.ended}
            self.over |= self.cells.keys() - taken
