"""Rows of an epoch → visits: which row comes when, and how far the run is by then.

What a row is due at follows from its place in the order alone, so it is the same however far ahead data-loader workers
are, on however many processes, and after a resume. Processes deal batches out in turn; an optimiser step takes
`accumulate` batches of each:

    places of the order   0 1 | 2 3 | 4 5 | 6 7 | ..       2 rows a batch, 2 processes, 1 batch a step
    process               0     1     0     1
    optimiser step        0     0     1     1
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Generator, Tensor
from torch.utils.data import Sampler
from transformers import TrainingArguments
from transformers.trainer_pt_utils import get_length_grouped_indices

from ruplar.types import SampleContext

Arrange = Callable[[Generator], Tensor]
"""Random numbers of an epoch → its rows, each once."""

_BLOCK = 65_536  # rows turned into Python numbers at a time


@dataclass(frozen=True)
class EpochPlan:
    """How rows become optimiser steps.

    Attributes:
        rows: Rows in the data.
        batch: Rows a process takes at once.
        processes: How many take turns.
        accumulate: Batches of each process in one optimiser step.
        drop_last: Leave out what does not fill a batch on every process.
        epochs: Passes over the data, unless `max_steps` says how long the run is.
        max_steps: Optimiser steps of the whole run; 0: as many as the epochs take.
    """

    rows: int
    batch: int
    processes: int = 1
    accumulate: int = 1
    drop_last: bool = False
    epochs: float = 1.0
    max_steps: int = 0

    @classmethod
    def of(cls, rows: int, args: TrainingArguments) -> EpochPlan:
        """The plan of these arguments."""
        return cls(
            rows,
            args.train_batch_size,
            args.world_size,
            args.gradient_accumulation_steps,
            args.dataloader_drop_last,
            args.num_train_epochs,
            max(args.max_steps, 0),
        )

    @property
    def round(self) -> int:
        """Rows all processes take at once."""
        return self.batch * self.processes

    @property
    def length(self) -> int:
        """Places of an epoch: with several processes the last round is filled up from the first rows."""
        if self.drop_last:
            return self.rows // self.round * self.round
        return self.rows if self.processes == 1 else -(-self.rows // self.round) * self.round

    @property
    def steps_per_epoch(self) -> int:
        """Optimiser steps of an epoch."""
        return max(-(-self.length // (self.round * self.accumulate)), 1)

    @property
    def steps(self) -> int:
        """Optimiser steps of the whole run."""
        return self.max_steps or math.ceil(self.epochs * self.steps_per_epoch)  # as transformers counts them

    def progress(self, epoch: int, places: np.ndarray) -> np.ndarray:
        """Share of the run's optimiser steps done when the rows at these places of an epoch are due."""
        steps = epoch * self.steps_per_epoch + places // (self.round * self.accumulate)
        return np.minimum(steps, self.steps - 1) / self.steps  # workers look past the end of the run


class Order(Sampler[SampleContext]):
    """Visits of an epoch in their order, which depends on seed and epoch alone.

    Args:
        arrange: The order of rows.
        plan: Says when each place is due.
        seed: Seeds the order, together with the epoch.
    """

    def __init__(self, arrange: Arrange, plan: EpochPlan, seed: int):
        self.arrange, self.plan, self.seed, self.epoch = arrange, plan, seed, 0

    def set_epoch(self, epoch: int) -> None:
        """Called before each epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        return self.plan.length

    def __iter__(self) -> Iterator[SampleContext]:
        epoch, plan = self.epoch, self.plan
        rows = self.arrange(torch.Generator().manual_seed(self.seed + epoch))
        for start in range(0, plan.length, _BLOCK):
            places = torch.arange(start, min(start + _BLOCK, plan.length))
            due = zip(rows[places % len(rows)].tolist(), plan.progress(epoch, places.numpy()).tolist(), strict=True)
            for row, progress in due:
                yield SampleContext(epoch, row, progress, self.seed)


def shuffled(count: int) -> Arrange:
    """Rows at random."""
    return lambda generator: torch.randperm(count, generator=generator)


def as_they_stand(count: int) -> Arrange:
    """Rows one after another."""
    return lambda generator: torch.arange(count)


def by_length(lengths: Sequence[int], together: int) -> Arrange:
    """Rows at random, but every `together` of them of like length."""
    kept = list(lengths)
    return lambda generator: torch.tensor(get_length_grouped_indices(kept, together, generator=generator))
