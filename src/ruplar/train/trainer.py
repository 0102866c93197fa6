"""A method and its backbone → a Hugging Face `Trainer`: its loop, resume, accelerate and callbacks, with our loss parts.

The loss of a micro-batch is a sum divided by the totals of the whole optimizer step, over all micro-batches and
processes, so 8 batches of size 1 accumulate to exactly one batch of size 8.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import broadcast_object_list, save_fsdp_optimizer
from torch import Tensor, nn
from torch.distributed.fsdp import register_fsdp_forward_method
from torch.distributed.tensor import DTensor
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainerState, TrainingArguments
from transformers.trainer import SCHEDULER_NAME
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
from ruplar.train.metrics import Guard, MetricAccumulator
from ruplar.train.processes import set_up_sharding, shards
from ruplar.train.sampler import CurriculumCallback, EpochPlan, Order, by_length, in_last_stage, in_order, shuffled
from ruplar.types import Batch

Validate = Callable[[Backbone, Method], Mapping[str, float]]
"""Answers the validation questions and returns `accuracy` and other metrics to log."""

_METRIC_STATE, _EARLIER_STATE = "metric_accumulator.json", "tally.json"
_SHARDED_OPTIMIZER = "optimizer_0"
"""Folder in which accelerate stores the optimizer's shards."""


class Learner(nn.Module):
    """Everything that is trained, as one module, so that wrappers (DDP, FSDP, autocast) wrap one forward.

    Args:
        backbone: The language model.
        method: Computes the loss; its own modules are trained too.
        accumulates: Whether several micro-batches make up a step.
    """

    accepts_loss_kwargs = True  # the batch has the totals: the trainer must not divide by micro-batches

    def __init__(self, backbone: Backbone, method: Method, accumulates: bool = False):
        super().__init__()
        self.backbone, self.method, self.accumulates = backbone, method, accumulates
        self.model, self.extra = backbone.model, nn.ModuleDict(method.modules())
        self._no_split_modules = getattr(backbone.plain_model, "_no_split_modules", None)  # what FSDP gathers at once
        self._set: bool | None = None
        self._trained: list[nn.Parameter] | None = None

    def forward(self, **batch: Any) -> dict[str, Any]:
        """Tensors of a `Batch` → `loss`, its `parts` and the metrics to `watch`."""
        self.backbone.begin_step()
        if self.accumulates and self.backbone.replay is not None and torch.is_grad_enabled():
            self._own_gradients()
        loss = self.method.loss(self.backbone, Batch.from_dict(batch))
        return {"loss": loss.total, "parts": loss.parts, "watch": loss.watch}

    def answer(self, validate: Validate) -> Mapping[str, float]:
        """Answer the validation questions; FSDP gathers the weights around this call as around `forward`."""
        return validate(self.backbone, self.method)

    def forget_trained(self) -> None:
        """Look the trained weights up again: sharding replaces them."""
        self._trained = None

    def trained(self) -> list[nn.Parameter]:
        """Return the trained weights; cached, because an adapter's are spread over hundreds of modules."""
        if self._trained is None:
            self._trained = [weight for weight in self.parameters() if weight.requires_grad]
        return self._trained

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients of the trained weights."""
        for weight in self.trained():
            weight.grad = None

    def _own_gradients(self) -> None:
        """Allocate gradients to accumulate in.

        A replayed pass always writes its gradients to the same memory. A weight without a gradient would adopt that memory,
        and the next replay would overwrite the accumulated gradient.
        """
        for weight in self.trained():
            if weight.grad is None:
                weight.grad = torch.zeros_like(weight)

    def train(self, mode: bool = True) -> Learner:
        """Set the mode only if it changes (a callback may have asked the model): called at every step, for hundreds of modules."""
        if self._set != mode or self.model.training != mode:
            super().train(mode)
            self._set = mode
        return self

    def gradient_checkpointing_enable(self, **settings: Any) -> None:
        """Enable gradient checkpointing; called for `training.gradient_checkpointing`."""
        self.backbone.plain_model.gradient_checkpointing_enable(**settings)


def _collated(
    items: Sequence[Any], dataset: ChainDataset | PretokenizedDataset, pad_id: int, width: int
) -> dict[str, Any]:
    return dataset.collate(items, pad_id, width).as_dict()


class ReasonerTrainer(Trainer):
    """Trains one method on one backbone.

    Args:
        learner: The module to train.
        args: Arguments of the run.
        dataset: The training chains.
        validate: Answers the validation questions; None without validation.
        guard: Stops a run that has gone wrong.
        callbacks: Additional callbacks.
        pack: Width of packed rows; 0: one sequence per row.
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
        self.learner, self.validate = learner, validate
        self.guard, self.accumulator = guard or Guard(), MetricAccumulator()
        self.run, self.dataset = Path(str(args.output_dir)), dataset
        self._began = self._mark = time.monotonic()
        self._draft: Path | None = None
        self.order: Order
        super().__init__(
            model=learner,
            args=args,
            train_dataset=dataset,
            eval_dataset=[] if validate else None,  # only its presence matters
            data_collator=partial(_collated, dataset=dataset, pad_id=learner.backbone.pad_id, width=pack),
            callbacks=[CurriculumCallback(learner.method, learner.backbone, lambda: self.order), *callbacks],
        )
        self.remove_callback(PrinterCallback)  # library code does not print
        self._pid = broadcast_object_list([os.getpid()])[0]

    def create_accelerator_and_postprocess(self):
        """Create the accelerator, with FSDP2 where the launcher or the recipe asks for it."""
        super().create_accelerator_and_postprocess()
        if shards(self.args):
            set_up_sharding(self.accelerator, self.args)
            self.is_fsdp_enabled = True

    def _prepare_for_training(self, *args, **kwargs):
        prepared = super()._prepare_for_training(*args, **kwargs)
        self.learner.forget_trained()
        register_fsdp_forward_method(self.learner, "answer")  # does nothing without FSDP
        return prepared

    # the loss

    def get_batch_samples(self, epoch_iterator, num_batches, device):
        """Return the micro-batches of one optimizer step, each with the totals of all of them."""
        batches, _ = super().get_batch_samples(epoch_iterator, num_batches, device)
        if not batches:
            return batches, None
        totals = share_totals(batches, lambda rows: self.accelerator.reduce(rows.to(device), "sum"))
        self.accumulator.steps += 1
        return batches, totals[0]

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        """Compute the method's loss; its parts are summed on the device and read when a row is logged."""
        with self.accelerator.autocast():  # accelerate wraps DDP's forward in it, but not FSDP's
            out = model(**inputs)
        tokens = sum(batch["mask"].ne(0).sum() for batch in (inputs, *inputs["also"].values()))
        watch = {**out["watch"], "tokens": tokens}
        self.accumulator.add(out["parts"], watch, self.state.global_step + 1)
        loss = out["loss"] * self.accelerator.num_processes  # DDP and FSDP average gradients; ours are sums
        return (loss, out) if return_outputs else loss

    def _clip_grad_norm(self, model):
        return self.accelerator.clip_grad_norm_(self.learner.trained(), self.args.max_grad_norm)

    def _get_grad_norm(self, model, grad_norm=None):
        norm = super()._get_grad_norm(model, grad_norm)
        if isinstance(norm, DTensor):
            norm = norm.full_tensor()
        if isinstance(norm, Tensor) and not self.args.fp16:  # fp16 loss scaling produces infinities on purpose
            self.accumulator.add_norm(norm, self.state.global_step + 1)
        return norm

    def _get_train_sampler(self, train_dataset=None):
        args, count = self.args, len(self.dataset)
        arrange = in_order(count) if args.train_sampling_strategy == "sequential" else shuffled(count)
        if args.train_sampling_strategy == "group_by_length":
            arrange = by_length(self.dataset.lengths(), args.train_batch_size * args.gradient_accumulation_steps)
        seed = args.data_seed if args.data_seed is not None else args.seed
        self.order = Order(arrange, EpochPlan.of(count, args), seed)
        return self.order

    def get_train_dataloader(self):
        """Give the loader of dynamic rows a generator of its own: workers that are kept draw a seed only in their first epoch."""
        loader: Any = super().get_train_dataloader()
        if getattr(self.dataset, "dynamic", False):
            loader.base_dataloader.generator = torch.Generator()
        return loader

    # rows

    def log(self, logs, start_time=None):
        """Add the loss parts and metrics to a training row, and check it with the guard."""
        if "loss" not in logs:
            return super().log(logs, start_time)
        reading = self._snapshot()
        seconds, self._mark = time.monotonic() - self._mark, time.monotonic()
        memory = peak_memory_gb(self.args.device)
        self.accumulator.reset(reading.tokens)
        rate = {"tokens_per_second": reading.tokens / max(seconds, 1e-9), "memory_gb": memory}
        row = {**logs, "loss": reading.loss, **reading.parts, **reading.figures, **rate}
        super().log(row, start_time)
        self.guard.check_finite(reading.bad_at, logs.get("learning_rate"), self._last_good)
        self.guard.check_row(row, self.state.global_step / max(self.state.max_steps, 1), self._last_good)

    def _snapshot(self):
        return self.accumulator.read(self.accelerator.gather if self.accelerator.num_processes > 1 else None)

    def _last_good(self) -> Path | None:
        return checkpoint.latest(self.run)

    def evaluate(self, eval_dataset=None, ignore_keys=None, metric_key_prefix="eval"):
        """Answer the validation questions and log the metrics; the random state of training is unchanged."""
        assert self.validate is not None, "config/check.py refuses eval_strategy without validation questions"
        started = time.monotonic()
        devices = [torch.cuda.current_device()] if self.args.device.type == "cuda" else []
        self.learner.eval()
        # shapes change at every decoding step, so compiled layers would be recompiled again and again
        with torch.random.fork_rng(devices), torch.compiler.set_stance("force_eager"):
            found = self.learner.answer(self.validate)
        self.learner.train()
        metrics = {f"{metric_key_prefix}_{name}": value for name, value in found.items()}
        self.log(dict(metrics))
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        self._mark += time.monotonic() - started  # not counted in tokens per second
        return metrics

    def _determine_best_metric(self, metrics, trial):
        """Compare only checkpoints of the last curriculum stage: before it, a method still writes steps as text."""
        last = in_last_stage(self.learner.method, self.state.global_step, self.state.max_steps)
        return super()._determine_best_metric(metrics, trial) if last else False

    # checkpoints

    def _get_output_dir(self, trial):
        return str(self._draft) if self._draft else super()._get_output_dir(trial)

    def _save_checkpoint(self, model, trial):
        """Save into a temporary folder, which is renamed when it is complete."""
        started, run, step = time.monotonic(), self.run, self.state.global_step
        self.guard.check_finite(self._snapshot().bad_at, self._get_learning_rate(), self._last_good)
        self._draft = draft = checkpoint.draft_of(run, step, self._pid)
        try:
            super()._save_checkpoint(model, trial)
        finally:
            self._draft = None
        self._name_best(step)
        written = draft / checkpoint.folder_of(run, step).name
        gather = self.accelerator.gather if self.accelerator.num_processes > 1 else None
        self._count_time()
        self.accumulator.save(written / _METRIC_STATE, gather, write=self.args.should_save)
        self.accelerator.wait_for_everyone()  # every process has written its random state
        if self.args.should_save:
            self.state.save_to_json(str(written / "trainer_state.json"))
            checkpoint.commit(draft, run, step)
            rotate_checkpoints(str(run), self.args.save_total_limit, self.state.best_model_checkpoint)
        self.accelerator.wait_for_everyone()
        self._mark += time.monotonic() - started

    def _name_best(self, saved: int | None = None) -> None:
        """Set the best checkpoint by its final name; `saved` is the step being saved, whose folder is still temporary."""
        best = self.state.best_global_step
        if best:
            folder = checkpoint.folder_of(self.run, best)
            self.state.best_model_checkpoint = str(folder) if best == saved or folder.is_dir() else None

    def _init_training_state(self, *args, **kwargs):
        trained = super()._init_training_state(*args, **kwargs)
        self._name_best()  # the run's folder may have been moved since
        return trained

    def save_model(self, output_dir=None, _internal_call=False):
        """Write the weights as safetensors; all processes call it, since each may have only a share of them."""
        folder = Path(output_dir) if output_dir else self.run
        save_weights(self.learner.backbone, self.learner.method.modules(), folder, write=self.args.should_save)

    def _save_optimizer_and_scheduler(self, output_dir):
        if not self.is_fsdp_enabled:
            return super()._save_optimizer_and_scheduler(output_dir)
        # transformers would also save all weights, the frozen ones too
        plugin = self.accelerator.state.fsdp_plugin
        save_fsdp_optimizer(plugin, self.accelerator, self.optimizer, self.model, output_dir)
        if self.args.should_save and self.lr_scheduler is not None:
            torch.save(self.lr_scheduler.state_dict(), Path(output_dir) / SCHEDULER_NAME)

    def _load_from_checkpoint(self, resume_from_checkpoint, model=None):
        folder = Path(resume_from_checkpoint)
        wrong = checkpoint.flaw(folder)
        sharded = (folder / _SHARDED_OPTIMIZER).is_dir()
        if not wrong and sharded != self.is_fsdp_enabled:
            wrong = f"it was saved {'with' if sharded else 'without'} FSDP, and this run is{' not' if sharded else ''} sharded"
        if wrong:
            raise UserError(f"{folder}: cannot be resumed from: {wrong}. Use another checkpoint, or start a new run.")
        load_weights(self.learner.backbone, self.learner.method.modules(), folder)
        file = folder / (_METRIC_STATE if (folder / _METRIC_STATE).is_file() else _EARLIER_STATE)
        self.accumulator = MetricAccumulator.load(file, main=self.is_world_process_zero())

    def _load_best_model(self):
        folder = Path(str(self.state.best_model_checkpoint))
        load_weights(self.learner.backbone, self.learner.method.modules(), folder)

    def load_finished(self, folder: Path) -> None:
        """Load the final weights of a finished run: the best checkpoint's, else those of `folder`."""
        self.state = TrainerState.load_from_json(str(folder / "trainer_state.json"))
        self._load_from_checkpoint(folder)
        self._name_best()
        if self.args.load_best_model_at_end and self.state.best_model_checkpoint is not None:
            self._load_best_model()

    # totals of the whole run

    def _count_time(self) -> None:
        now = time.monotonic()
        self.accumulator.seconds, self._began = self.accumulator.seconds + now - self._began, now

    def spent(self) -> tuple[float, int]:
        """Return seconds and tokens so far, including those before a resume."""
        self._count_time()
        return self.accumulator.seconds, self.accumulator.tokens + self._snapshot().tokens

    def check_last_steps(self) -> None:
        """Check the steps since the last log row: a model with NaN weights must not be saved as finished."""
        self.guard.check_finite(self._snapshot().bad_at, None, self._last_good)

    def planned_steps(self) -> int:
        """Return the optimizer steps of the whole run."""
        return self.set_initial_training_values(self.args, self.get_train_dataloader())[-1]
