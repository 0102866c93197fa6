"""Recipe with `method.grpo` → reinforced model folder: the second stage of a method, over the data of its recipe.

RUN/recipe.yaml, RUN/metrics.jsonl and RUN/model as in `run.py`; there are no checkpoints. A step of the curve is a round. The
settings are `method.grpo`'s; of `training:` nothing is read.
"""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path

import torch
from torch import Tensor

from ruplar.config import RunConfig
from ruplar.errors import TrainingStopped, UserError
from ruplar.methods._grpo import GrpoConfig
from ruplar.model.memory import peak_memory_gb
from ruplar.model.store import Model, save_model
from ruplar.train.dataset import TrainingData
from ruplar.train.grpo import Reinforcer
from ruplar.train.progress import METRICS, Progress, Show
from ruplar.train.run import MODEL, TrainResult, validation
from ruplar.train.trainer import Validate

log = logging.getLogger(__name__)

_PARTS = ("latent", "answer")


def check_reinforce(config: RunConfig, resume: bool, processes: int, taken: bool) -> None:
    """Refuse what this stage cannot do, before anything is asked.

    Args:
        config: The recipe.
        resume: Whether to go on with a run.
        processes: How many train together.
        taken: Whether the method's own weights came from `backbone.init`.
    """
    problems = []
    if resume:
        problems.append("--resume: the reinforcement stage leaves no checkpoints. Start it again in another --output.")
    if processes > 1:
        problems.append("the reinforcement stage runs in one process. Launch it without accelerate.")
    if not taken:
        problems.append(
            f"backbone.init: method.grpo goes on from a trained model of method '{config.method.name}', its latent head "
            f"included; got {config.backbone.init!r}. Name its run, or set method.grpo: null to train one first."
        )
    if problems:
        raise UserError(*problems)


def reinforce(
    config: RunConfig, model: Model, data: TrainingData, *, output: Path, progress: Show | None = None
) -> TrainResult:
    """Carry out `method.grpo` and keep the model of the round that was best on `data.valid`, the last without one.

    Raises:
        TrainingStopped: A gradient is not finite.
    """
    began, grpo = time.monotonic(), model.method.config.grpo
    worker = Reinforcer(model, data.train, grpo, config.seed)
    book = _Book(output / METRICS, grpo, progress)
    validate = None
    if data.valid:
        validate = validation(model, data.valid[: config.validation.questions], config.validation.batch_size)
    best = _Best(model, worker.trained, validate, book)
    best.look(0)
    for number in range(1, grpo.rounds + 1):
        try:
            row = worker.round(number)
        except RuntimeError as error:
            if "non-finite" not in str(error):
                raise
            raise TrainingStopped(
                f"training stopped: a gradient was not finite in round {number}. Lower method.grpo.learning_rate "
                f"(now {grpo.learning_rate:.1e}). Nothing was saved."
            ) from error
        book.write("train", number, row | {"learning_rate": grpo.learning_rate})
        if number % grpo.validate_every == 0 or number == grpo.rounds:
            best.look(number)
    best.restore()
    save_model(output / MODEL, model)
    weights = [w for m in (model.backbone.model, *model.method.modules().values()) for w in m.parameters()]
    return TrainResult(
        path=output / MODEL,
        steps=worker.steps,
        seconds=time.monotonic() - began,
        peak_memory_gb=peak_memory_gb(model.backbone.device),
        tokens=worker.tokens,
        rows=len(data.train),
        trainable=sum(w.numel() for w in weights if w.requires_grad),
        parameters=sum(w.numel() for w in weights),
        best_step=best.number if data.valid else None,
        best_accuracy=best.accuracy if data.valid else None,
        fingerprints=data.fingerprints,
        left_out=data.left_out,
    )


class _Book:
    """Rows of the curve, to the file and to whoever watches."""

    def __init__(self, file: Path, grpo: GrpoConfig, show: Show | None):
        self.file, self.rounds, self.show, self.began = file, grpo.rounds, show, time.monotonic()
        self.file.touch()

    def write(self, kind: str, number: int, row: dict[str, float]) -> None:
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"kind": kind, "step": number, **row}) + "\n")
        if self.show:
            eta = (time.monotonic() - self.began) / number * (self.rounds - number) if number else None
            self.show(Progress(number, self.rounds, row, _PARTS, eta))


class _Best:
    """The trained weights of the best validation so far; without validation, nothing is looked at or put back."""

    def __init__(self, model: Model, trained: list[Tensor], validate: Validate | None, book: _Book):
        self.model, self.trained, self.validate, self.book = model, trained, validate, book
        self.number, self.accuracy = 0, -1.0
        self.kept: list[Tensor] = []

    def look(self, number: int) -> None:
        if self.validate is None:
            return
        found = self.validate(self.model.backbone, self.model.method)
        self.book.write("valid", number, {f"eval_{name}": value for name, value in found.items()})
        if found["accuracy"] > self.accuracy:
            self.number, self.accuracy = number, found["accuracy"]
            self.kept = [weight.detach().to("cpu", copy=True) for weight in self.trained]

    def restore(self) -> None:
        with torch.no_grad():
            for weight, kept in zip(self.trained, self.kept, strict=False):
                weight.copy_(kept)
