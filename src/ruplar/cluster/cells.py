"""Cells of a study → Ray tasks: one task per cell, started again on another node when its node dies.

A cell that is started again resumes from its last checkpoint. The lock of its folder keeps a process that has outlived its node
from running the cell twice. A cell that evaluates another cell's model waits for that task.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from ruplar.cluster.pool import LOSSES, connected, share_of_gpu
from ruplar.errors import UserError
from ruplar.evaluate.record import STUDY
from ruplar.experiments.job import Job
from ruplar.experiments.plan import Cell
from ruplar.experiments.run import Watch
from ruplar.experiments.worker import fail, log_rows, turn

_EVERY = 0.5  # seconds between two looks at events, and at a lock that another process holds


@contextmanager
def cluster_cells(
    address: str, device: str, gpus: float | None
) -> Iterator[tuple[str, int, Callable[[Job, Watch], None]]]:
    """Yield the device of the cells, how many share a GPU, and what runs them in place of processes on this machine."""
    with connected(address) as ray:
        where, each = share_of_gpu(ray, device, gpus)
        yield where, max(1, int(1 / each)) if each else 1, partial(_run_cells, ray, each)


def _run_cells(ray: Any, gpus: float, job: Job, watch: Watch) -> None:
    """Run each cell as a task, after the tasks whose models it needs; a cell that runs alone takes a whole GPU."""
    from ray.util.queue import Queue
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    events = Queue(actor_options={"num_cpus": 0, "scheduling_strategy": here})
    gpus = max(1.0, gpus) if job.alone and gpus else gpus
    # a process per cell: the peak memory of a process cannot be reset
    task = ray.remote(num_cpus=1, num_gpus=gpus, max_calls=1, max_retries=LOSSES)(_run)
    tasks: dict[str, Any] = {}
    for cell in job.chosen:
        needed = [tasks[other.name] for other in job.chosen if cell.needs(other)]
        tasks[cell.name] = task.remote(str(Path.cwd()), job, cell, events, *needed)
    pending = dict(zip(tasks.values(), job.chosen, strict=True))
    started: set[str] = set()
    while pending:
        over, _ = ray.wait(list(pending), num_returns=len(pending), timeout=_EVERY)
        for event in events.get_nowait_batch(events.qsize()):
            if event["event"] != "start" or event["cell"] not in started:  # not once more, after its node died
                watch(event)
            started.add(event["cell"])
        for ref in over:
            _ended(ray, ref, pending.pop(ref), job, watch)


def _ended(ray: Any, ref: Any, cell: Cell, job: Job, watch: Watch) -> None:
    try:
        ray.get(ref)
    except ray.exceptions.RayTaskError as error:
        fail(cell, job, watch, f"{type(error.cause).__name__}: {error.cause}")
    except ray.exceptions.RayError as error:
        fail(cell, job, watch, f"its Ray task was lost {LOSSES + 1} times: {error}", killed=True)


def _run(folder: str, job: Job, cell: Cell, events: Any, *needed: None) -> None:
    """Run one cell in a task of Ray; wait while a process that has outlived its node holds it."""
    if not Path(folder, job.places.results, STUDY).is_file():
        raise UserError(
            f"{Path(folder, job.places.results)} is not on this node. Run folders must be on a file system that all share."
        )
    os.chdir(folder)
    log_rows()
    while not turn(cell, job, events.put):
        time.sleep(_EVERY)
