"""Rows of an epoch → sample contexts: the order of rows, the progress of the run at each, and the stages of a curriculum.

The progress at a row depends only on its position in the order, so it is the same for any number of data-loader workers and
processes, and after a resume. Processes take batches in turn; an optimizer step takes `accumulate` batches of each:

    position in the order   0 1 | 2 3 | 4 5 | 6 7 | ..       batch size 2, 2 processes, 1 batch per step
    process                 0     1     0     1
    optimizer step          0     0     1     1
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Generator, Tensor
from torch.utils.data import Sampler
from transformers import TrainerCallback, TrainingArguments
from transformers.trainer_pt_utils import get_length_grouped_indices

from ruplar.mapped import mapped
from ruplar.methods.base import Method
from ruplar.model.backbone import Backbone
from ruplar.types import SampleContext

Arrange = Callable[[Generator], Tensor]
"""Random generator of an epoch → a permutation of its rows."""

_BLOCK = 65_536  # rows converted to Python numbers at a time


@dataclass(frozen=True)
class EpochPlan:
    """How rows become optimizer steps."""

    rows: int  # rows in the data
    batch: int  # batch size per process
    processes: int = 1  # number of processes
    accumulate: int = 1  # batches of each process per optimizer step
    drop_last: bool = False  # drop rows that do not fill a batch on every process
    epochs: float = 1.0  # passes over the data, unless `max_steps` is set
    max_steps: int = 0  # optimizer steps of the whole run; 0: given by the epochs

    @classmethod
    def of(cls, rows: int, args: TrainingArguments) -> EpochPlan:
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
        return self.batch * self.processes

    @property
    def length(self) -> int:
        """Return the length of an epoch: with several processes the last round is filled up with the first rows."""
        if self.drop_last:
            return self.rows // self.round * self.round
        return self.rows if self.processes == 1 else -(-self.rows // self.round) * self.round

    @property
    def steps_per_epoch(self) -> int:
        return max(-(-self.length // (self.round * self.accumulate)), 1)

    @property
    def steps(self) -> int:
        return self.max_steps or math.ceil(self.epochs * self.steps_per_epoch)  # as transformers counts them

    def progress(self, epoch: int, places: np.ndarray) -> np.ndarray:
        """Return the share of the run's optimizer steps done before the rows at these positions of an epoch."""
        steps = epoch * self.steps_per_epoch + places // (self.round * self.accumulate)
        return np.minimum(steps, self.steps - 1) / self.steps  # workers may read past the end of the run


class Order(Sampler[SampleContext]):
    """Sample contexts of an epoch; their order depends only on the seed and the epoch."""

    def __init__(self, arrange: Arrange, plan: EpochPlan, seed: int):
        self.arrange, self.plan, self.seed, self.epoch = arrange, plan, seed, 0

    def set_epoch(self, epoch: int) -> None:
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
    return lambda generator: torch.randperm(count, generator=generator, out=torch.from_numpy(mapped(range(count))))


def in_order(count: int) -> Arrange:
    return lambda generator: torch.from_numpy(mapped(range(count)))


def by_length(lengths: Sequence[int], group: int) -> Arrange:
    """Shuffle the rows so that every `group` consecutive rows have similar lengths."""
    fixed = list(lengths)
    return lambda generator: torch.tensor(get_length_grouped_indices(fixed, group, generator=generator))


class CurriculumCallback(TrainerCallback):
    """Set the epoch of the row order, and start each stage with a new optimizer state and without old CUDA graphs.

    The stage is computed from the step rather than stored, so that a resumed run behaves the same.
    """

    def __init__(self, method: Method, backbone: Backbone, order: Callable[[], Order]):
        self.method, self.backbone, self.order = method, backbone, order

    def on_epoch_begin(self, args, state, control, **kwargs):
        """Set the epoch: accelerate does not reach the order when it skips or shards batches."""
        self.order().set_epoch(int(state.epoch or 0))

    def on_train_end(self, args, state, control, train_dataloader=None, **kwargs):
        """End workers that were kept between epochs: the trainer refers to itself, so they would stay after it."""
        train_dataloader.base_dataloader._iterator = None

    def on_step_begin(self, args, state, control, optimizer=None, **kwargs):
        """Reset state where the stage rises, before the first micro-batch of the step."""
        stage, step, steps = self.method.stage, state.global_step, state.max_steps
        rises = step > 0 and stage(step / steps) > stage((step - 1) / steps)
        if rises and getattr(self.method.config, "reset_optimizer", False):
            optimizer.state.clear()
        if rises and not self.method.packs and self.backbone.replay is not None:
            self.backbone.replay.forget()  # recurrent latents: lengths change, so old graphs would not fit


def in_last_stage(method: Method, step: int, steps: int) -> bool:
    """Return whether step `step` of `steps` is in the last stage of the method's curriculum."""
    return method.stage((step - 1) / steps) >= method.stage((steps - 1) / steps)
