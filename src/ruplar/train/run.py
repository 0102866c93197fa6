"""Recipe → trained model folder: opens the data and the backbone, trains, keeps the best, saves it.

RUN/recipe.yaml      the whole config          RUN/metrics.jsonl    the curve
RUN/checkpoint-N/    to resume from            RUN/model/           the model, ready to use
RUN/start.json       the weights of `backbone.init` it began at, by their hash
.encoded/ beside it  chains opened and encoded ahead, shared by runs; see `prepare.py`
"""

from __future__ import annotations

import atexit
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import yaml
from transformers import set_seed

from ruplar.config import RunConfig, to_yaml
from ruplar.data.cache import ENCODED
from ruplar.data.pretokenize import PretokenizedDataset
from ruplar.domains.base import Domain
from ruplar.errors import UserError
from ruplar.methods.base import Method
from ruplar.model.backbone import Backbone
from ruplar.model.cuda_graphs import replay_passes
from ruplar.model.fold_lora import fold_adapters
from ruplar.model.memory import peak_memory_gb
from ruplar.model.store import (
    Model,
    ModelMetadata,
    PluginSpec,
    init_method,
    load_start,
    save_model,
    start_mark,
)
from ruplar.reasoner import LatentReasoner
from ruplar.train import checkpoint
from ruplar.train.arguments import training_arguments
from ruplar.train.attention import sound_attention
from ruplar.train.dataset import TrainingData
from ruplar.train.guard import Guard
from ruplar.train.prepare import chains_of, dataset_of, open_chains
from ruplar.train.progress import METRICS, ProgressCallback, Show
from ruplar.train.trainer import Learner, ReasonerTrainer, Validate
from ruplar.types import Example

log = logging.getLogger(__name__)

RECIPE, START, MODEL = "recipe.yaml", "start.json", "model"
_KEPT_ROWS = 50_000
"""Encoded rows are kept between epochs up to so many, about 200 MB; beyond that they are encoded again."""


@dataclass(frozen=True)
class TrainResult:
    """What a run did.

    Attributes:
        path: The model's folder.
        steps: Optimiser steps of the whole run.
        seconds: Wall time, sessions before a resume included.
        peak_memory_gb: Most memory held by this session: the GPU's, or the process's without one.
        tokens: Positions trained on.
        rows: Training chains.
        trainable: Weights trained.
        parameters: Weights in all.
        best_step: The step the model was taken from; None when it is the last.
        best_accuracy: Its validation accuracy, 0 to 1.
        fingerprints: Part and source (`train 1: gsm8k-aug-train.txt`, `start: runs/cot`) → what identifies its content.
        left_out: Reason → rows left out.
        resumed_from: The checkpoint this session started at.
        main: Whether this process wrote the files; false on the others of a distributed run.
    """

    path: Path
    steps: int
    seconds: float
    peak_memory_gb: float
    tokens: int
    rows: int
    trainable: int
    parameters: int
    best_step: int | None
    best_accuracy: float | None
    fingerprints: dict[str, str]
    left_out: dict[str, int]
    resumed_from: Path | None = None
    main: bool = True


def train(
    config: RunConfig,
    *,
    output: Path,
    resume: bool = False,
    device: str = "cpu",
    progress: Show | None = None,
    encoded: Path | None = None,
) -> TrainResult:
    """Train what a recipe describes.

    Args:
        config: The recipe, checked.
        output: The run's folder.
        resume: Go on from its newest complete checkpoint; from the beginning when it has none.
        device: `cpu`, `cuda` or `mps`.
        progress: Gets every log row.
        encoded: Where data encoded ahead is kept for other runs; a folder beside `output` when None.

    Returns:
        What was done; the model lies in `output/model`.

    Raises:
        UserError: Something in the recipe or the folder does not work.
        TrainingStopped: A guard stopped the run.
    """
    output = Path(output)
    if config.backbone.weights != "pretrained" and config.backbone.lora is not None:
        raise UserError(
            "backbone.lora: an adapter is saved without the weights under it, and those of a fresh start could not be had again. "
            "Set backbone.lora: null to train all weights, or backbone.weights: pretrained."
        )
    method, domain = config.method.make(), config.data.domain.make()
    _check_pack(config, method)
    start = _prepare(output, resume)
    args = training_arguments(config.training, output, config.seed, device, validates=config.data.valid is not None)
    encoded = encoded or output.parent / ENCODED
    data = open_chains(config, domain, method, encoded)
    model, taken = _open_model(config, method, domain, str(args.device))
    begins = start_mark(config.backbone.init)
    recorded = replace(data, fingerprints={**begins, **data.fingerprints})
    if getattr(method.config, "grpo", None) is not None:
        from ruplar.train.grpo_stage import check_reinforce, reinforce

        check_reinforce(config, resume, args.world_size, taken)
        _note_recipe(output / RECIPE, config, resume)
        with sound_attention(0):
            return reinforce(config, model, recorded, output=output, progress=progress)
    trainer = _trainer(config, model, data, args, progress, encoded)
    if args.world_size > 1:
        atexit.register(_leave_group)
    if trainer.is_world_process_zero():
        checkpoint.clear_drafts(output)
        _note_recipe(output / RECIPE, config, resume)
        _note_start(output / START, begins, resume)
    _warn(model.backbone)
    with sound_attention(config.speed.pack):
        _run(trainer, start)
    return _finish(trainer, model, recorded, output, start)


def _check_pack(config: RunConfig, method: Method) -> None:
    """Refuse rows of several sequences where they could not be kept apart."""
    if config.speed.pack and not method.packs:
        raise UserError(
            f"speed.pack: the sequences of method '{config.method.name}' cannot share a row. Set speed.pack: 0."
        )
    if config.speed.pack and config.backbone.attention != "sdpa":
        raise UserError(
            f"speed.pack: sequences that share a row are kept apart by a mask that attention '{config.backbone.attention}' "
            "does not take. Set speed.pack: 0, or backbone.attention: sdpa."
        )


def _leave_group() -> None:
    """End the process group with the process: its threads, left to run, abort a process that is otherwise done."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _open_model(config: RunConfig, method: Method, domain: Domain, device: str) -> tuple[Model, bool]:
    """The model training starts from, and whether the method's own weights came from `backbone.init`."""
    set_seed(config.seed)  # fresh weights and adapters
    backbone = load_start(config.backbone, config.prompt, device)
    method.attach(backbone)
    init = config.backbone.init
    taken = init is not None and init_method(method, _named(config.method), init)
    return Model(backbone, method, domain, _card(config)), taken


def _prepare(output: Path, resume: bool) -> Path | None:
    """The checkpoint to start from, None for the beginning."""
    if resume:
        start = checkpoint.latest(output)
        if start is None and (output / MODEL).exists():
            raise UserError(
                f"{output}: this run is finished and left no checkpoint to go on from. Choose another --output."
            )
        if start is None:
            log.warning("%s: no complete checkpoint to resume from; starting from the beginning.", output)
        return start
    if any(output.glob("checkpoint-*")) or (output / METRICS).exists():
        raise UserError(
            f"{output}: holds a run already. Add --resume to go on with it, choose another --output, or remove the folder."
        )
    output.mkdir(parents=True, exist_ok=True)
    return None


def _trainer(
    config: RunConfig, model: Model, data: TrainingData, args: Any, show: Show | None, encoded: Path
) -> ReasonerTrainer:
    backbone, method = model.backbone, model.method
    keep = len(data.train) <= _KEPT_ROWS and args.dataloader_num_workers == 0
    chains = chains_of(config, data.train, method, model.domain, backbone, keep)
    validate = None
    if data.valid:
        validate = validation(model, data.valid[: config.validation.questions], config.validation.batch_size)
    if config.speed.fold_lora:
        # a compiled or captured pass folds for itself, and so does a layer that is computed again in the backward pass
        captured = config.speed.graph and config.speed.pack  # not packed: several passes in one graph, which may share
        apart = config.speed.compile or captured or args.gradient_checkpointing
        fold_adapters(backbone, once=not apart)
    if config.speed.compile:
        backbone.compile_layers(config.speed.keep)
    if config.speed.graph:
        _check_graph(args)
        args.dataloader_pin_memory = False  # a thread that pins memory would break a capture under way
        replay_passes(backbone)
    dataset = dataset_of(config, data, chains, encoded, args.dataloader_num_workers)
    if isinstance(dataset, PretokenizedDataset):  # a batch is made in less time than a process needs to hand it over
        args.dataloader_num_workers, args.dataloader_prefetch_factor, args.dataloader_persistent_workers = (
            0,
            None,
            False,
        )
    guard = Guard(collapse=config.validation.stop_collapsed)
    learner = Learner(backbone, method, adds_up=args.gradient_accumulation_steps > 1)
    trainer = ReasonerTrainer(learner, args, dataset, validate, guard, pack=config.speed.pack)
    trainer.add_callback(ProgressCallback(Path(args.output_dir), lambda: trainer.accumulator.parts, show))
    return trainer


def _check_graph(args: Any) -> None:
    """Refuse what a captured pass cannot be part of."""
    wrong = []
    if args.gradient_checkpointing:
        wrong.append("training.gradient_checkpointing: layers that are computed again cannot be captured")
    if args.world_size > 1:
        wrong.append(
            "several processes: they exchange gradients while the backward pass runs, which a graph does not do"
        )
    if wrong:
        raise UserError(*(f"{one}. Set speed.graph: false, or do without it." for one in wrong))


def validation(model: Model, examples: Sequence[Example], batch_size: int) -> Validate:
    """Questions with marked answers → what the trainer calls to have them answered and scored."""
    reasoner, domain = LatentReasoner(model, engine="reference"), model.domain

    def validate(backbone: Backbone, method: Method) -> dict[str, float]:
        answers = reasoner.ask([example.question for example in examples], batch_size=batch_size)
        found = [domain.extract(answer.text) for answer in answers]
        right = [f is not None and domain.same(f, e.answer) for f, e in zip(found, examples, strict=True)]
        n = len(answers)
        return {
            "accuracy": sum(right) / n,
            "latents": sum(answer.latent_count for answer in answers) / n,
            "forwards": sum(answer.forwards for answer in answers) / n,
            "halting": sum(answer.halted for answer in answers) / n,
            "unreadable": sum(f is None for f in found) / n,
        }

    return validate


def _run(trainer: ReasonerTrainer, start: Path | None) -> None:
    if start is not None and checkpoint.step_of(start) >= trainer.planned_steps():
        trainer.settle(start)  # it was stopped after its last step: nothing is left but to take the best
        return
    try:
        trainer.train(resume_from_checkpoint=str(start) if start else None)
    except torch.cuda.OutOfMemoryError as error:
        raise UserError(
            "the GPU is out of memory. Halve training.per_device_train_batch_size and double "
            "training.gradient_accumulation_steps (the result is the same), or set training.gradient_checkpointing: true."
        ) from error


def _finish(
    trainer: ReasonerTrainer, model: Model, data: TrainingData, output: Path, start: Path | None
) -> TrainResult:
    trainer.check_last_steps()
    model.backbone.replay = None  # its graphs hold memory, and nothing is trained any more
    seconds, tokens = trainer.spent()
    if trainer.is_world_process_zero():
        save_model(output / MODEL, model)
    trainer.accelerator.wait_for_everyone()
    weights, kept_best = list(trainer.learner.parameters()), trainer.args.load_best_model_at_end
    return TrainResult(
        path=output / MODEL,
        steps=trainer.state.global_step,
        seconds=seconds,
        peak_memory_gb=peak_memory_gb(trainer.args.device),
        tokens=tokens,
        rows=len(data.train),
        trainable=sum(w.numel() for w in weights if w.requires_grad),
        parameters=sum(w.numel() for w in weights),
        best_step=trainer.state.best_global_step if kept_best else None,
        best_accuracy=trainer.state.best_metric,
        fingerprints=data.fingerprints,
        left_out=data.left_out,
        resumed_from=start,
        main=trainer.is_world_process_zero(),
    )


def _named(section: Any) -> PluginSpec:
    return PluginSpec(name=section.name, settings=section.model_extra or {})


def _card(config: RunConfig) -> ModelMetadata:
    return ModelMetadata(
        method=_named(config.method),
        backbone=config.backbone,
        prompt=config.prompt,
        domain=_named(config.data.domain),
        spans=_named(config.spans),
        prior=_named(config.prior),
    )


def _note_recipe(file: Path, config: RunConfig, resume: bool) -> None:
    """Write the config beside the run; going on under another one is allowed (more epochs, say) but said aloud."""
    text = to_yaml(config)
    before = yaml.safe_load(file.read_text(encoding="utf-8")) if resume and file.is_file() else {}
    changed = [
        key
        for key in ("seed", "data", "method", "prior", "spans")
        if before and before.get(key) != config.as_dict()[key]
    ]
    if changed:
        raise UserError(
            f"{file}: {', '.join(changed)} differ from what this run began with, so going on would be neither run. "
            "Take the change back, or choose another --output."
        )
    if before and file.read_text(encoding="utf-8") != text:
        log.warning("%s: the recipe has changed since this run began; it goes on under the present one.", file)
    file.write_text(text, encoding="utf-8")


def _note_start(file: Path, begins: dict[str, str], resume: bool) -> None:
    """Keep what the run began at: going on upon other weights, under whatever name, would be neither run."""
    before = json.loads(file.read_text(encoding="utf-8")) if resume and file.is_file() else begins
    if [*before.values()] != [*begins.values()]:
        raise UserError(
            f"{file}: this run began at other weights than {' '.join(begins).removeprefix('start: ') or 'the plain backbone'} "
            "holds now. Put those back, or begin anew in another --output."
        )
    if begins:
        file.write_text(json.dumps(begins, indent=2) + "\n", encoding="utf-8")


def _warn(backbone: Backbone) -> None:
    if not hasattr(backbone.model, "peft_config") and backbone.embedding_weight.dtype == torch.bfloat16:
        log.warning(
            "all weights are trained in bfloat16, which loses small updates. Set backbone.dtype: float32 and "
            "training.bf16: true to keep them in full precision and still compute in half."
        )
