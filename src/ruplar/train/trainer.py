"""A method and its backbone → Hugging Face `Trainer`: its loop, resume, accelerate and callbacks, with our loss in parts.

The loss of a micro-batch is a sum divided by the totals of the whole optimiser step, over all micro-batches and
processes, so 8 batches of 1 accumulate to exactly one batch of 8.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import broadcast_object_list
from torch import Tensor, nn
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainerState, TrainingArguments
from transformers.trainer_utils import rotate_checkpoints

from ruplar.data.collate import share_totals
from ruplar.data.encoding import ChainDataset
from ruplar.data.pretokenize import PretokenizedDataset
from ruplar.errors import UserError
from ruplar.methods.base import Method
from ruplar.model.backbone import Backbone
from ruplar.model.memory import peak_memory_gb
from ruplar.model.weights import load_weights, save_weights
from ruplar.train import checkpoint
from ruplar.train.curriculum import CurriculumCallback, in_last_stage
from ruplar.train.guard import Guard
from ruplar.train.metrics import MetricAccumulator
from ruplar.train.sampler import EpochPlan, Order, as_they_stand, by_length, shuffled
from ruplar.types import Batch

Validate = Callable[[Backbone, Method], Mapping[str, float]]
"""Asks the validation questions: `accuracy`, and whatever else is worth logging."""

_TALLY = "tally.json"


class Learner(nn.Module):
    """Everything that is trained as one module, so that whatever wraps a model (DDP, autocast) wraps one forward.

    Args:
        backbone: The language model.
        method: Its loss; its own modules are trained too.
        adds_up: Whether several micro-batches make a step.
    """

    accepts_loss_kwargs = True  # the totals come with the batch: the trainer is not to divide by micro-batches again

    def __init__(self, backbone: Backbone, method: Method, adds_up: bool = False):
        super().__init__()
        self.backbone, self.method, self.adds_up = backbone, method, adds_up
        self.model, self.extra = backbone.model, nn.ModuleDict(method.modules())
        self._set: bool | None = None
        self._trained: list[nn.Parameter] | None = None

    def forward(self, **batch: Any) -> dict[str, Any]:
        """Tensors of a `Batch` → `loss`, its `parts` and the figures to `watch`."""
        self.backbone.begin_step()
        if self.adds_up and self.backbone.replay is not None and torch.is_grad_enabled():
            self._own_gradients()
        loss = self.method.loss(self.backbone, Batch.from_dict(batch))
        return {"loss": loss.total, "parts": loss.parts, "watch": loss.watch}

    def trained(self) -> list[nn.Parameter]:
        """The weights that learn, found once: an adapter's lie scattered over hundreds of modules."""
        if self._trained is None:
            self._trained = [weight for weight in self.parameters() if weight.requires_grad]
        return self._trained

    def zero_grad(self, set_to_none: bool = True) -> None:
        """As ever, for the weights that have gradients."""
        for weight in self.trained():
            if set_to_none:
                weight.grad = None
            elif weight.grad is not None:
                weight.grad.detach_().zero_()

    def _own_gradients(self) -> None:
        """Give weights a place of their own to add gradients up in.

        A replayed pass has one place for its gradients. A weight without any would take that place for its own, and the
        next replay would write over what is to be added to.
        """
        for weight in self.trained():
            if weight.grad is None:
                weight.grad = torch.zeros_like(weight)

    def train(self, mode: bool = True) -> Learner:
        """As ever, but only where the mode changes: the base trainer asks at every step, and there are hundreds of modules."""
        if self._set != mode:
            super().train(mode)
            self._set = mode
        return self

    def gradient_checkpointing_enable(self, **settings: Any) -> None:
        """What `training.gradient_checkpointing` calls."""
        self.backbone.plain_model.gradient_checkpointing_enable(**settings)


def _collated(
    items: Sequence[Any], dataset: ChainDataset | PretokenizedDataset, pad_id: int, width: int
) -> dict[str, Any]:
    return dataset.collate(items, pad_id, width).as_dict()


class ReasonerTrainer(Trainer):
    """Trains one method on one backbone.

    Args:
        learner: What is trained.
        args: The training section of the recipe.
        dataset: The training chains.
        validate: Asks the validation questions; None without validation.
        guard: Stops a run that has gone wrong.
        callbacks: More of them.
        pack: Width of the rows sequences are packed into; 0: a row each.
    """

    def __init__(
        self,
        learner: Learner,
        args: TrainingArguments,
        dataset: ChainDataset | PretokenizedDataset,
        validate: Validate | None = None,
        guard: Guard | None = None,
        callbacks: Sequence[TrainerCallback] = (),
        pack: int = 0,
    ):
        self.learner, self.validate, self.guard, self.accumulator = (
            learner,
            validate,
            guard or Guard(),
            MetricAccumulator(),
        )
        self.run, self.dataset = Path(str(args.output_dir)), dataset
        self._began = self._mark = time.monotonic()
        self._draft: Path | None = None
        self.order: Order
        super().__init__(
            model=learner,
            args=args,
            train_dataset=dataset,
            eval_dataset=[] if validate else None,  # only its presence is looked at
            data_collator=partial(_collated, dataset=dataset, pad_id=learner.backbone.pad_id, width=pack),
            callbacks=[CurriculumCallback(learner.method, learner.backbone, lambda: self.order), *callbacks],
        )
        if self.is_fsdp_enabled or self.is_deepspeed_enabled:
            raise UserError("sharded training (FSDP, DeepSpeed) is not supported; launch with plain data parallelism.")
        self.remove_callback(PrinterCallback)  # library code does not print
        self._pid = broadcast_object_list([os.getpid()])[0]

    # the loss

    def get_batch_samples(self, epoch_iterator, num_batches, device):
        """The micro-batches of one optimiser step, each told the totals of them all."""
        batches, _ = super().get_batch_samples(epoch_iterator, num_batches, device)
        if not batches:
            return batches, None
        totals = share_totals(batches, lambda rows: self.accelerator.reduce(rows.to(device), "sum"))
        self.accumulator.steps += 1
        return batches, totals[0]

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        """The method's loss; its parts are counted on the device and read when a row is logged."""
        out = model(**inputs)
        tokens = sum(batch["mask"].ne(0).sum() for batch in (inputs, *inputs["also"].values()))
        watch = {**out["watch"], "tokens": tokens}
        self.accumulator.add(out["parts"], watch, self.state.global_step + 1)
        loss = out["loss"] * self.accelerator.num_processes  # gradients are averaged over processes; ours are sums
        return (loss, out) if return_outputs else loss

    def create_optimizer(self, *args, **kwargs):
        """The base class's, with a learning rate of their own for the modules a method names."""
        optimizer, method = super().create_optimizer(*args, **kwargs), self.learner.method
        for name, share in sorted(method.rates().items()):
            apart = {id(weight) for weight in method.modules()[name].parameters()}
            for group in list(optimizer.param_groups):
                moved = [weight for weight in group["params"] if id(weight) in apart]
                if moved:
                    group["params"] = [weight for weight in group["params"] if id(weight) not in apart]
                    others = {key: value for key, value in group.items() if key != "params"}
                    optimizer.add_param_group({**others, "params": moved, "lr": group["lr"] * share})
        return optimizer

    def _clip_grad_norm(self, model):
        return self.accelerator.clip_grad_norm_(self.learner.trained(), self.args.max_grad_norm)

    def _get_grad_norm(self, model, grad_norm=None):
        norm = super()._get_grad_norm(model, grad_norm)
        if isinstance(norm, Tensor) and not self.args.fp16:  # fp16 loss scaling meets infinities on purpose
            self.accumulator.add_norm(norm, self.state.global_step + 1)
        return norm

    def _get_train_sampler(self, train_dataset=None):
        args, count = self.args, len(self.dataset)
        arrange = as_they_stand(count) if args.train_sampling_strategy == "sequential" else shuffled(count)
        if args.train_sampling_strategy == "group_by_length":
            arrange = by_length(self.dataset.lengths(), args.train_batch_size * args.gradient_accumulation_steps)
        seed = args.data_seed if args.data_seed is not None else args.seed
        self.order = Order(arrange, EpochPlan.of(count, args), seed)
        return self.order

    # rows

    def log(self, logs, start_time=None):
        """A training row gets the loss in parts and the figures to watch; then the guard looks at it."""
        if "loss" not in logs:
            return super().log(logs, start_time)
        reading = self._read_tally()
        seconds, self._mark = time.monotonic() - self._mark, time.monotonic()
        memory = peak_memory_gb(self.args.device)
        self.accumulator.reset(reading.tokens)
        rate = {"tokens_per_second": reading.tokens / max(seconds, 1e-9), "memory_gb": memory}
        row = {**logs, "loss": reading.loss, **reading.parts, **reading.figures, **rate}
        super().log(row, start_time)
        self.guard.check_finite(reading.bad_at, logs.get("learning_rate"), self._last_good)
        self.guard.check_row(row, self.state.global_step / max(self.state.max_steps, 1), self._last_good)

    def _read_tally(self):
        return self.accumulator.read(self.accelerator.gather if self.accelerator.num_processes > 1 else None)

    def _last_good(self) -> Path | None:
        return checkpoint.latest(self.run)

    def evaluate(self, eval_dataset=None, ignore_keys=None, metric_key_prefix="eval"):
        """Generated answers to the validation questions. Training's own random numbers are left as they were."""
        assert self.validate is not None, "eval_strategy is refused without validation questions"
        started = time.monotonic()
        devices = [torch.cuda.current_device()] if self.args.device.type == "cuda" else []
        self.learner.eval()
        # validation's shapes change at every step: compiled layers would be compiled again and again
        with torch.random.fork_rng(devices), torch.compiler.set_stance("force_eager"):
            found = self.validate(self.learner.backbone, self.learner.method)
        self.learner.train()
        metrics = {f"{metric_key_prefix}_{name}": value for name, value in found.items()}
        self.log(dict(metrics))
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        self._mark += time.monotonic() - started  # not counted in tokens per second
        return metrics

    def _determine_best_metric(self, metrics, trial):
        """Only the last stage of a curriculum counts: before it, a method still writes what it is to do without."""
        last = in_last_stage(self.learner.method, self.state.global_step, self.state.max_steps)
        return super()._determine_best_metric(metrics, trial) if last else False

    # checkpoints

    def _get_output_dir(self, trial):
        return str(self._draft) if self._draft else super()._get_output_dir(trial)

    def _save_checkpoint(self, model, trial):
        """As the base class does it, but in a folder beside, which takes its name once it is complete."""
        started, run, step = time.monotonic(), self.run, self.state.global_step
        self.guard.check_finite(self._read_tally().bad_at, self._get_learning_rate(), self._last_good)
        self._draft = draft = checkpoint.draft_of(run, step, self._pid)
        try:
            super()._save_checkpoint(model, trial)
        finally:
            self._draft = None
        self._name_best(step)
        written = draft / checkpoint.folder_of(run, step).name
        gather = self.accelerator.gather if self.accelerator.num_processes > 1 else None
        self._keep_time()
        self.accumulator.save(written / _TALLY, gather, write=self.args.should_save)
        self.accelerator.wait_for_everyone()  # every process has written its random state
        if self.args.should_save:
            self.state.save_to_json(str(written / "trainer_state.json"))
            checkpoint.commit(draft, run, step)
            rotate_checkpoints(str(run), self.args.save_total_limit, self.state.best_model_checkpoint)
        self.accelerator.wait_for_everyone()
        self._mark += time.monotonic() - started

    def _name_best(self, saved: int | None = None) -> None:
        """The best checkpoint by its final name; `saved` is the step being saved, whose folder is still a draft."""
        best = self.state.best_global_step
        if best:
            folder = checkpoint.folder_of(self.run, best)
            self.state.best_model_checkpoint = str(folder) if best == saved or folder.is_dir() else None

    def _init_training_state(self, *args, **kwargs):
        trained = super()._init_training_state(*args, **kwargs)
        self._name_best()  # the run's folder may have been moved since
        return trained

    def save_model(self, output_dir=None, _internal_call=False):
        """Weights only, as safetensors."""
        if self.args.should_save:
            folder = Path(output_dir) if output_dir else self.run
            save_weights(self.learner.backbone, self.learner.method.modules(), folder)

    def _load_from_checkpoint(self, resume_from_checkpoint, model=None):
        folder = Path(resume_from_checkpoint)
        wrong = checkpoint.flaw(folder)
        if wrong:
            raise UserError(f"{folder}: cannot be resumed from: {wrong}. Choose another checkpoint, or start afresh.")
        load_weights(self.learner.backbone, self.learner.method.modules(), folder)
        self.accumulator = MetricAccumulator.load(folder / _TALLY, main=self.is_world_process_zero())

    def _load_best_model(self):
        folder = Path(str(self.state.best_model_checkpoint))
        load_weights(self.learner.backbone, self.learner.method.modules(), folder)

    def settle(self, folder: Path) -> None:
        """Take the weights of a run whose last step is done: the best checkpoint's, or `folder`'s own."""
        self.state = TrainerState.load_from_json(str(folder / "trainer_state.json"))
        self._load_from_checkpoint(folder)
        self._name_best()
        if self.args.load_best_model_at_end and self.state.best_model_checkpoint is not None:
            self._load_best_model()

    # figures of the whole run

    def _keep_time(self) -> None:
        now = time.monotonic()
        self.accumulator.seconds, self._began = self.accumulator.seconds + now - self._began, now

    def spent(self) -> tuple[float, int]:
        """Seconds and tokens so far, those before a resume included."""
        self._keep_time()
        return self.accumulator.seconds, self.accumulator.tokens + self._read_tally().tokens

    def check_last_steps(self) -> None:
        """Look at the steps since the last row: a model that is no longer finite must not be saved as finished."""
        self.guard.check_finite(self._read_tally().bad_at, None, self._last_good)

    def planned_steps(self) -> int:
        """Optimiser steps of the whole run."""
        return self.set_initial_training_values(self.args, self.get_train_dataloader())[-1]
