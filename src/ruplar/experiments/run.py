"""The cells of one study or several → workers that do them, several at once where memory allows → what came of it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ruplar.experiments import memory
from ruplar.experiments import storage as disk
from ruplar.experiments.plan import Cell, Study
from ruplar.experiments.pool import Pool, Watch
from ruplar.experiments.worker import Job, work


@dataclass(frozen=True)
class How:
    """How a study is run.

    Attributes:
        device: Of all workers.
        jobs: Workers at once; 0: in this process, None: as many as memory and cores allow.
        budget: Seconds after which no cell is begun.
        data_dir: Folder with the files of known sets.
        reuse: Whether a worker does several cells; None: on a GPU, where memory figures can be reset.
        share: Of the GPU's memory, for each worker; None: equal shares where several are at work.
    """

    device: str = "cpu"
    jobs: int | None = None
    budget: float | None = None
    data_dir: Path | None = None
    reuse: bool | None = None
    share: float | None = None


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
        UserError: What lies there was made under other settings, the workers cannot be started, or a share is asked
            for that there cannot be.
    """
    memory.check_share(how.share, how.device)
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
                    share=how.share,
                    alone=how.jobs in (0, 1),
                )
            )
    if jobs and how.jobs == 0:
        memory.limit(how.device, how.share)
        work([replace(job, most=None) for job in jobs], watch)
    elif jobs:
        again = Pool(jobs, how.jobs, watch).run()
        if again:
            Pool(again, 1, watch).run()
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
