"""Recipe → trained model folder. `LatentTrainer` builds the same `TrainingRun` from a dataset and a model in memory.

RUN/recipe.yaml      the whole config              RUN/metrics.jsonl    the curve
RUN/checkpoint-N/    to resume from                RUN/model/           the trained model
RUN/start.json       hash of the start weights     RUN/data.json        hashes of the data
.encoded/ beside it  pre-tokenized data, shared by runs; see `prepare.py`
"""

import atexit
import hashlib
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback, set_seed

from ruplar.config import RunConfig, load_recipe, to_yaml
from ruplar.data.cache import ENCODED
from ruplar.data.pretokenize import PretokenizedDataset
from ruplar.domains.base import grade
from ruplar.errors import UserError
from ruplar.fingerprints import digests
from ruplar.methods.base import Method
from ruplar.model.backbone import Backbone
from ruplar.model.cuda_graphs import replay_passes
from ruplar.model.fold_lora import fold_adapters, unfold_adapters
from ruplar.model.memory import peak_memory_gb
from ruplar.model.store import (
    Model,
    ModelMetadata,
    PluginSpec,
    find_model,
    init_method,
    load_start,
    read_metadata,
    read_trained_on,
    save_model,
    start_mark,
)
from ruplar.model.varlen import use_varlen
from ruplar.reasoner import LatentReasoner
from ruplar.train import MODEL, checkpoint
from ruplar.train.arguments import sound_attention, training_arguments
from ruplar.train.dataset import TrainingData, from_files
from ruplar.train.grpo import GrpoStage, Reinforcer, check_grpo
from ruplar.train.metrics import Guard
from ruplar.train.preflight import check_graph, check_precision, check_settings, find_checkpoint, write_begun
from ruplar.train.prepare import chains_of, dataset_of, load_chains, within_window
from ruplar.train.processes import check_equal_inputs, shards
from ruplar.train.progress import ProgressCallback, Show
from ruplar.train.trackers import SAMPLES, ThoughtsCallback, thought_row
from ruplar.train.trainer import Learner, ReasonerTrainer, Validate
from ruplar.types import Example

log = logging.getLogger(__name__)

_CACHED_ROWS = 50_000
"""Encoded rows are cached between epochs up to this many, about 200 MB; larger datasets are encoded again in each epoch."""


@dataclass(frozen=True)
class TrainResult:
    """Summary of a training run."""

    path: Path  # the model folder
    steps: int  # optimizer steps of the whole run
    seconds: float  # wall time, including sessions before a resume
    peak_memory_gb: float  # peak memory of this session: of the GPU, or of the process without one
    tokens: int  # positions trained on
    rows: int  # training chains
    trainable: int  # number of trained weights
    parameters: int  # number of all weights
    best_step: int | None  # the step of the saved weights; None if they are the last
    best_accuracy: float | None  # their validation accuracy, 0 to 1
    # part and source (`train 1: gsm8k-aug-train.txt`, `start: runs/cot`) → hash of its content
    fingerprints: dict[str, str]
    left_out: dict[str, int]  # reason → rows left out
    resumed_from: Path | None = None  # the checkpoint this session started from
    main: bool = True  # whether this process wrote the files; False in the other processes of a distributed run


def train(
    config: RunConfig | str | Path,
    *,
    output: str | Path,
    resume: bool = False,
    device: str = "cpu",
    progress: Show | None = None,
    encoded: Path | None = None,
) -> TrainResult:
    """Train a recipe.

    Args:
        config: A checked recipe (`load_recipe`), the name of a packaged recipe, or the path of a YAML file.
        output: The run folder.
        resume: Resume from its newest complete checkpoint; start from the beginning if there is none.
        device: `cpu`, `cuda` or `mps`.
        progress: Called with every log row.
        encoded: Folder of pre-tokenized data shared by runs; None: a folder beside `output`.

    Returns:
        A summary; the model is in `output/model`.

    Raises:
        UserError: The recipe or the folder has a problem.
        TrainingStopped: The guard stopped the run.
    """
    config = config if isinstance(config, RunConfig) else load_recipe(config)
    start = find_checkpoint(Path(output), resume)
    run = TrainingRun(config, Path(output), device=device, encoded=encoded)
    return run.train(start, resume=resume, progress=progress)


class TrainingRun:
    """Arguments, data and model of one run, built from a recipe."""

    def __init__(
        self,
        config: RunConfig,
        output: Path,
        *,
        device: str = "cpu",
        encoded: Path | None = None,
        data: TrainingData | None = None,
        base: tuple[Any, Any] | None = None,
    ):
        self.config, self.output, self.encoded = config, output, encoded or output.parent / ENCODED
        method, domain = config.method.make(), config.data.domain.make()
        check_settings(config, method)
        validates = config.data.valid is not None
        self.args = training_arguments(config.training, output, config.seed, device, validates)
        self.sharded = shards(self.args)
        self.data = data or load_chains(config, domain, method, self.encoded)
        set_seed(config.seed)  # initialises new weights and adapters
        section, place = config.backbone, str(self.args.device)
        if self.sharded:  # the whole model may be larger than one GPU
            whole = "bfloat16" if section.dtype == "auto" and place != "cpu" else section.dtype
            section, place = section.model_copy(update={"dtype": whole}), "cpu"
        backbone = load_start(section, config.prompt, place, base=base)
        method.attach(backbone)
        init = config.backbone.init
        then, now = (read_metadata(find_model(init)).prompt if init else config.prompt), dict(config.prompt)
        if differ := [f"prompt.{key} {value!r}, now {now[key]!r}" for key, value in then if value != now[key]]:
            log.warning("backbone.init: '%s' was trained with another prompt: %s.", init, "; ".join(differ))
        self.method_initialized = init is not None and init_method(method, _spec(config.method), init)
        self.model = Model(backbone, method, domain, _metadata(config))
        self.start = start_mark(init)
        chains = chains_of(config, self.data.train, method, domain, backbone)
        self.data = within_window(self.data, chains, self.model, config.data.skip_bad)
        before = read_trained_on(find_model(init)) if init is not None else self.model.trained_on
        questions = (example.question for _, example in from_files(self.data.train))
        self.model.trained_on = digests(questions, before)

    def trainer(self, progress: Show | None = None, callbacks: Sequence[TrainerCallback] = ()) -> ReasonerTrainer:
        """Build the Hugging Face trainer of this run."""
        config, args, backbone, method = self.config, self.args, self.model.backbone, self.model.method
        cached = len(self.data.train) <= _CACHED_ROWS and args.dataloader_num_workers == 0
        chains = chains_of(config, self.data.train, method, self.model.domain, backbone, cached)
        if config.speed.fold_lora:
            # compiled passes fold by themselves, and so do layers that are recomputed in the backward pass or whose
            # weights are gathered for each pass
            every_pass = config.speed.compile or args.gradient_checkpointing or self.sharded
            fold_adapters(backbone, once=not every_pass)
        if config.speed.pack and not config.speed.graph and args.device.type == "cuda":
            half = torch.bfloat16 if args.bf16 else torch.float16 if args.fp16 else backbone.head_dtype
            backbone.varlen = use_varlen(backbone.plain_model, half)
        if args.use_liger_kernel:
            backbone.use_liger_kernels(args.liger_kernel_config)
            # the base trainer would look for a model of transformers and find our `Learner`
            args.use_liger_kernel = False
        if config.speed.compile:
            backbone.compile_layers()
        if config.speed.graph:
            check_graph(args)
            args.dataloader_pin_memory = False  # a thread that pins memory would break a running capture
            replay_passes(backbone)
        dataset = dataset_of(config, self.data, chains, self.encoded, args.dataloader_num_workers)
        if isinstance(dataset, PretokenizedDataset):  # collating a batch is faster than passing it between processes
            args.dataloader_num_workers, args.dataloader_prefetch_factor = 0, None
            args.dataloader_persistent_workers = False
        elif chains.dynamic:  # every epoch encodes the same texts again, in workers that keep their ids
            chains.encoder.prompt.plain.cached = {}
            args.dataloader_persistent_workers = args.dataloader_num_workers > 0
        guard = Guard(collapse=config.validation.stop_collapsed)
        learner = Learner(backbone, method, accumulates=args.gradient_accumulation_steps > 1)
        thoughts: list[tuple[str, ...]] | None = [] if args.report_to else None
        validate = self.validate(thoughts)
        trainer = ReasonerTrainer(learner, args, dataset, validate, guard, callbacks, config.speed.pack)
        if thoughts is not None:
            trainer.add_callback(ThoughtsCallback(thoughts, trainer.callback_handler.callbacks))
        trainer.add_callback(ProgressCallback(self.output, lambda: trainer.accumulator.parts, progress))
        return trainer

    def validate(self, thoughts: list[tuple[str, ...]] | None = None) -> Validate | None:
        settings = self.config.validation
        valid = self.data.valid[: settings.questions]
        return validation(self.model, valid, settings.batch_size, thoughts) if valid else None

    def train(
        self,
        start: Path | None = None,
        *,
        resume: bool = False,
        progress: Show | None = None,
        callbacks: Sequence[TrainerCallback] = (),
    ) -> TrainResult:
        check_precision(self.model.backbone, self.output)
        self.output.mkdir(parents=True, exist_ok=True)
        if self.args.world_size > 1:
            recipe = hashlib.sha256(to_yaml(self.config).encode()).hexdigest()[:16]
            inputs = {"recipe": recipe, "training rows": len(self.data.train), "resumed from": str(start)}
            check_equal_inputs({**inputs, **self.start, **self.data.fingerprints})
        if getattr(self.model.method.config, "grpo", None) is not None:
            return self._reinforce(resume, progress, callbacks)
        try:
            trainer = self.trainer(progress, callbacks)
            if self.args.world_size > 1:
                atexit.register(_leave_group)
            if trainer.is_world_process_zero():
                checkpoint.clear_drafts(self.output)
                write_begun(self.output, self.config, self.start, self.data.fingerprints, resume)
            with sound_attention(self.config.speed.pack):
                _run(trainer, start)
            trainer.check_last_steps()
        finally:
            self.model.backbone.replay = None  # frees the memory of its graphs
            self.model.backbone.prompt.plain.cached = None  # the model may be used on, with other texts or more tokens
            unfold_adapters(self.model.backbone)
        seconds, tokens = trainer.spent()
        save_model(self.output / MODEL, self.model, write=trainer.is_world_process_zero())
        trainer.accelerator.wait_for_everyone()
        return self._result(
            steps=trainer.state.global_step,
            seconds=seconds,
            tokens=tokens,
            best_step=trainer.state.best_global_step if trainer.args.load_best_model_at_end else None,
            best_accuracy=trainer.state.best_metric,
            resumed_from=start,
            main=trainer.is_world_process_zero(),
        )

    def _reinforce(self, resume: bool, progress: Show | None, callbacks: Sequence[TrainerCallback]) -> TrainResult:
        check_grpo(self.config, self.args.world_size, self.method_initialized)
        write_begun(self.output, self.config, self.start, self.data.fingerprints, resume)
        began, grpo = time.monotonic(), self.model.method.config.grpo
        worker, validate = Reinforcer(self.model, self.data.train, grpo, self.config.seed), self.validate()
        shown = ProgressCallback(self.output, lambda: ("latent", "answer"), progress)
        stage = GrpoStage(worker, validate, self.args, [*callbacks, shown])
        with sound_attention(0):
            stage.run()
        save_model(self.output / MODEL, self.model)
        return self._result(
            steps=worker.steps,
            seconds=time.monotonic() - began,
            tokens=worker.tokens,
            best_step=stage.best_round if validate else None,
            best_accuracy=stage.best_accuracy if validate else None,
        )

    def _result(self, **measured: Any) -> TrainResult:
        modules = (self.model.backbone.model, *self.model.method.modules().values())
        weights = [weight for module in modules for weight in module.parameters()]
        return TrainResult(
            path=self.output / MODEL,
            peak_memory_gb=peak_memory_gb(self.args.device),
            rows=len(self.data.train),
            trainable=sum(weight.numel() for weight in weights if weight.requires_grad),
            parameters=sum(weight.numel() for weight in weights),
            fingerprints={**self.start, **self.data.fingerprints},
            left_out=self.data.left_out,
            **measured,
        )


def validation(
    model: Model, examples: Sequence[Example], batch_size: int, thoughts: list[tuple[str, ...]] | None = None
) -> Validate:
    """Questions with reference answers → a function that answers and scores them, and fills `thoughts` with samples."""
    reasoner, domain = LatentReasoner(model, engine="reference"), model.domain

    def validate(backbone: Backbone, method: Method) -> dict[str, float]:
        answers = reasoner.ask([example.question for example in examples], batch_size=batch_size)
        if thoughts is not None:
            some = examples[:SAMPLES]
            readable = reasoner.ask([example.question for example in some], batch_size=batch_size, return_latents=True)
            thoughts[:] = map(thought_row, some, readable)
        scores = [grade(answer.text, e.answer, domain) for answer, e in zip(answers, examples, strict=True)]
        n = len(answers)
        return {
            "accuracy": sum(score.correct for score in scores) / n,
            "latents": sum(answer.latent_count for answer in answers) / n,
            "forwards": sum(answer.forwards for answer in answers) / n,
            "halting": sum(answer.halted for answer in answers) / n,
            "unreadable": sum(score.found is None for score in scores) / n,
        }

    return validate


def _leave_group() -> None:
    """Destroy the process group at exit: its threads would abort a process that has finished."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _run(trainer: ReasonerTrainer, start: Path | None) -> None:
    if start is not None and checkpoint.step_of(start) >= trainer.planned_steps():
        trainer.load_finished(start)  # stopped after the last step: only the best weights have to be loaded
        return
    try:
        trainer.train(resume_from_checkpoint=str(start) if start else None)
    except torch.cuda.OutOfMemoryError as error:
        raise UserError(
            "the GPU is out of memory. Halve training.per_device_train_batch_size and double "
            "training.gradient_accumulation_steps (the result is the same), or set training.gradient_checkpointing: true."
        ) from error


def _spec(section: Any) -> PluginSpec:
    return PluginSpec(name=section.name, settings=section.model_extra or {})


def _metadata(config: RunConfig) -> ModelMetadata:
    return ModelMetadata(
        method=_spec(config.method),
        backbone=config.backbone,
        prompt=config.prompt,
        domain=_spec(config.data.domain),
        spans=_spec(config.spans),
        prior=_spec(config.prior),
    )
