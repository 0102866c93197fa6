"""Cells of a study → Ray tasks: one task per cell, started again on another node when its node dies.

A cell that is started again resumes from its last checkpoint. The lock of its folder keeps a process that has outlived its node
from running the cell twice. A cell that evaluates another cell's model waits for that task.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ruplar.cluster.pool import LOSSES, connected, share_of_gpu
from ruplar.errors import UserError
from ruplar.experiments import memory, storage, worker
from ruplar.experiments.job import Job
from ruplar.experiments.run import Watch

_EVERY = 0.5  # seconds between two looks at events, and at a lock that another process holds


@contextmanager
def cell_tasks(address: str, device: str, gpus: float | None) -> Iterator[tuple[str, Callable[..., CellTasks]]]:
    """Yield the device of the cells, and what runs them in place of a pool of local workers."""
    with connected(address) as ray:
        where, each = share_of_gpu(ray, device, gpus)
        yield where, partial(CellTasks, ray, each)


class CellTasks:
    """The cells of a study on a cluster; `gpus` for each, at least a whole one to run exclusively."""

    def __init__(self, ray: Any, gpus: float, job: Job, _jobs: int | None, watch: Watch):
        gpus = max(1.0, gpus) if job.options.exclusive and gpus else gpus
        share = memory.share_of(int(1 / gpus) if gpus else 1, job.options.device)
        self.ray, self.gpus, self.watch = ray, gpus, watch
        self.job = replace(job, options=replace(job.options, share=share, exclusive=gpus >= 1))
        self.cells = {cell.name: cell for cell in job.chosen}
        self.file = job.places.work / ".workers" / f"{os.getpid()}-ray.json"
        self.tasks: dict[str, Any] = {}
        self.started: set[str] = set()

    def run(self) -> Job:
        """Run all cells → those to retry exclusively, after an out-of-memory error."""
        from ray.util.queue import Queue
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = NodeAffinitySchedulingStrategy(self.ray.get_runtime_context().get_node_id(), soft=False)
        self.events = Queue(actor_options={"num_cpus": 0, "scheduling_strategy": here})
        # a process per cell: the peak memory of a process cannot be reset
        self.task = self.ray.remote(num_cpus=1, num_gpus=self.gpus, max_calls=1, max_retries=LOSSES)(_run)
        self.job.write(self.file)
        try:
            pending = {self._submit(name): name for name in self.cells}
            while pending:
                over, _ = self.ray.wait(list(pending), num_returns=len(pending), timeout=_EVERY)
                self._pass_on_events()
                for ref in over:
                    self._ended(ref, pending.pop(ref))
        finally:
            self.file.unlink(missing_ok=True)
        return _to_retry(self.job)

    def _submit(self, name: str) -> Any:
        """Start the task of a cell once, after those whose models it needs."""
        if name not in self.tasks:
            needed = [self._submit(other.name) for other in self.job.chosen if self.cells[name].needs(other)]
            self.tasks[name] = self.task.remote(str(Path.cwd()), str(self.file), name, self.events, *needed)
        return self.tasks[name]

    def _pass_on_events(self) -> None:
        for event in self.events.get_nowait_batch(self.events.qsize()):
            if event["event"] == "start" and event["cell"] in self.started:  # once more, after its node died
                continue
            self.started.add(event["cell"])
            self.watch({**event, "event": "again"} if event.get("again") and event["event"] == "failed" else event)

    def _ended(self, ref: Any, name: str) -> None:
        try:
            self.ray.get(ref)
            return
        except self.ray.exceptions.RayTaskError as error:
            reason = f"{type(error.cause).__name__}: {error.cause}"
        except self.ray.exceptions.RayError as error:
            reason = f"its Ray task was lost {LOSSES + 1} times: {error}"
        storage.write_failure(self.cells[name], self.job.places, reason, self.job.options.session)
        self.watch({"event": "failed", "cell": name, "reason": reason})


def _to_retry(job: Job) -> Job:
    """Keep the cells that ran out of memory beside others, and those that need their models."""
    full = [cell for cell in job.chosen if (known := job.failed(cell)) is not None and known["again"]]
    waiting = [cell for cell in job.chosen if any(cell.needs(other) for other in full)]
    return replace(job, chosen=(*full, *waiting), options=replace(job.options, exclusive=True))


def _run(folder: str, file: str, name: str, events: Any, *needed: str) -> str:
    """Run one cell in a task of Ray; see `worker.turn` for what it returns. `late`: the time budget is spent."""
    if not Path(folder, file).is_file():
        raise UserError(
            f"{Path(folder, file)} is not on this node. Run folders must be on a file system that all share."
        )
    os.chdir(folder)
    job = Job.read(Path(file))
    cell = next(cell for cell in job.chosen if cell.name == name)
    memory.limit(job.options.device, job.options.share)
    worker.log_rows()
    while job.options.deadline is None or time.time() < job.options.deadline:
        how = worker.turn(cell, job, events.put)
        if how not in ("held", "wait"):
            return how
        time.sleep(_EVERY)
    return "late"
