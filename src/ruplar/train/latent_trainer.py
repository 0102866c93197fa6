"""A causal LM and a dataset → a trained latent reasoner, in the style of trl's trainers and without a recipe file.

    trainer = LatentTrainer(
        model="HuggingFaceTB/SmolLM2-135M-Instruct",
        method="ruplar",
        train_dataset=[{"question": "3 bags of 4 apples?", "steps": ["3*4=12"], "answer": "12"}, …],
        args=TrainConfig(output_dir="runs/mine", learning_rate=3e-4, num_train_epochs=3),
    )
    trainer.train()
    trainer.reasoner.ask("2 bags of 5 apples?")

Arguments become a `RunConfig`, and `TrainingRun` does the rest, as for `ruplar train`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from pydantic import ConfigDict, Field
from transformers import PreTrainedModel, PreTrainedTokenizerBase, TrainerCallback

from ruplar.config import RunConfig, from_dict
from ruplar.config.check import wrong_start
from ruplar.errors import UserError
from ruplar.fingerprints import fingerprint
from ruplar.io import atomic_folder
from ruplar.model.exported import export_model
from ruplar.model.load import load_causal_lm
from ruplar.model.settings import BackboneConfig
from ruplar.model.store import Model, check_replaceable, save_model
from ruplar.reasoner import LatentReasoner
from ruplar.settings import Settings
from ruplar.train import MODEL
from ruplar.train.dataset import data_in_memory, examples_of, warn_of_prose
from ruplar.train.preflight import find_checkpoint
from ruplar.train.progress import Show
from ruplar.train.run import TrainingRun, TrainResult, validation

Dataset = Iterable[Mapping[str, Any]]
"""Rows with the columns question, steps and answer: a list of dicts, a `datasets.Dataset`, streamed or not, or any iterable."""


class TrainConfig(Settings):
    """Arguments of `LatentTrainer`; every other keyword is an argument of Hugging Face `TrainingArguments`."""

    model_config = ConfigDict(extra="allow")

    output_dir: Path = Field(Path("trainer_output"), description="The run folder: checkpoints, curve and model.")
    learning_rate: float = Field(3e-4, gt=0, description="Peak learning rate; with all weights (lora=None) lower it.")
    seed: int = Field(777, description="Random seed of weights, row order and priors that sample.")
    method_args: dict[str, Any] = Field({}, description="Settings of the method, e.g. {'align_weight': 0.1}.")
    prior: str | dict[str, Any] = Field("mixture", description="Prior by name, or with settings: {'name': …}.")
    spans: str | dict[str, Any] = Field("step", description="Spans rule (steps to latents), by name or with settings.")
    domain: str | dict[str, Any] = Field("arithmetic", description="Domain of the chains, by name or with settings.")
    prompt: dict[str, Any] = Field({}, description="Prompt settings, e.g. {'template': 'plain'}.")
    lora: dict[str, Any] | None = Field({}, description="LoRA settings; None: train all weights.")
    backbone: dict[str, Any] = Field({}, description="Other backbone settings: dtype, attention, init, number_tokens.")
    data: dict[str, Any] = Field({}, description="Data settings: canonical_operands, decontaminate, exclude_valid.")
    speed: dict[str, Any] = Field({}, description="Speed settings: pack, compile, graph, fold_lora, pretokenize.")
    validation: dict[str, Any] = Field({}, description="Validation settings: questions, batch_size, stop_collapsed.")

    def run_config(self, method: str, backbone: str, validates: bool) -> RunConfig:
        """Return the recipe of these arguments.

        Raises:
            UserError: With all problems.
        """
        name = re.sub(r"[^A-Za-z0-9._-]", "-", self.output_dir.name).lstrip("._-") or "run"
        data = {"train": "train_dataset", "valid": "eval_dataset" if validates else None, "domain": self.domain}
        sections = {
            "name": name,
            "seed": self.seed,
            "backbone": {"name": backbone, "lora": self.lora, **self.backbone},
            "prompt": self.prompt,
            "data": {**data, **self.data},
            "spans": self.spans,
            "prior": self.prior,
            "method": {"name": method, **self.method_args},
            "training": {"learning_rate": self.learning_rate, **(self.model_extra or {})},
            "speed": self.speed,
            "validation": self.validation,
        }
        return from_dict(sections, "TrainConfig")


class LatentTrainer:
    """Trains a causal LM to reason in latents.

    Args:
        model: A causal LM (changed in place, as by PEFT), or the name or path of one.
        tokenizer: Its tokenizer; None: loaded by the model's name.
        method: `ruplar`, or another method of `ruplar list methods`.
        train_dataset: Rows with a question, steps (a list such as ["3*4=12"], or a text such as "<<3*4=12>> …") and an
            answer.
        eval_dataset: Rows with a question and an answer, on which checkpoints are selected.
        args: Output folder, method settings and training arguments.
        columns: `question`, `steps` or `answer` → the name of that column, where it differs.
        callbacks: Additional Hugging Face callbacks.
        device: `cpu`, `cuda` or `mps`; None: a GPU if there is one.

    Attributes:
        run: The `TrainingRun`; `run.model` is the model.

    Raises:
        UserError: An argument or a row has a problem; rows and columns are named.
    """

    def __init__(
        self,
        model: PreTrainedModel | str | Path,
        *,
        args: TrainConfig,
        train_dataset: Dataset,
        eval_dataset: Dataset | None = None,
        tokenizer: PreTrainedTokenizerBase | None = None,
        method: str = "ruplar",
        columns: Mapping[str, str] | None = None,
        callbacks: Sequence[TrainerCallback] = (),
        device: str | None = None,
    ):
        self.args, self.callbacks, self._columns = args, callbacks, columns
        self._in_memory = not isinstance(model, str | Path) or tokenizer is not None
        folder = args.output_dir / "backbone"
        name = str(folder if self._in_memory else model)
        config = args.run_config(method, name, validates=eval_dataset is not None)
        if wrong := wrong_start(str(model), config.backbone.init, "model") if isinstance(model, str | Path) else "":
            raise UserError(f"{wrong} In Python: TrainConfig(backbone={{'init': …}}).")
        domain, needs_steps = config.data.domain.make(), config.method.make().needs_steps
        train = examples_of(train_dataset, "train_dataset", domain, need_steps=needs_steps, columns=columns)
        if needs_steps and method != "cot":  # it writes its steps, whatever they are
            warn_of_prose(train, domain)
        valid = None
        if eval_dataset is not None:
            valid = examples_of(eval_dataset, "eval_dataset", domain, need_steps=False, columns=columns)
        data = data_in_memory(config.data, domain, needs_steps, train, valid)
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        base = _base(model, tokenizer, config.backbone, device) if self._in_memory else None
        # an adapter is loaded on the weights it was trained on
        if base is not None and config.backbone.lora is not None:
            _save_base(base, folder)
        self.run = TrainingRun(config, args.output_dir, device=device, data=data, base=base)

    @property
    def model(self) -> Model:
        """Return the model: backbone, method, domain and metadata."""
        return self.run.model

    @property
    def reasoner(self) -> LatentReasoner:
        """Return a `LatentReasoner` over the model in its current state."""
        return LatentReasoner(self.model)

    def train(self, *, resume: bool = False, progress: Show | None = None) -> TrainResult:
        """Train; the best model on `eval_dataset`, or the last without one, is loaded and saved to `output_dir/model`.

        Args:
            resume: Resume from the newest complete checkpoint in `output_dir`.
            progress: Called with every log row.

        Raises:
            UserError: `output_dir` contains a run already, or another run than the one to resume.
            TrainingStopped: The guard stopped the run: NaN, or collapsed latents.
        """
        start = find_checkpoint(self.args.output_dir, resume)
        return self.run.train(start, resume=resume, progress=progress, callbacks=self.callbacks)

    def evaluate(self, dataset: Dataset | None = None) -> dict[str, float]:
        """Answer the questions of a dataset → `eval_accuracy`, `eval_latents`, `eval_forwards`, `eval_halting`, ….

        Args:
            dataset: Rows with a question and an answer; None: `eval_dataset`.
        """
        model, examples = self.model, self.run.data.valid
        if dataset is not None:
            examples = examples_of(dataset, "dataset", model.domain, need_steps=False, columns=self._columns)
        if not examples:
            raise UserError("evaluate: no dataset. Pass one, or set eval_dataset.")
        found = validation(model, examples, self.run.config.validation.batch_size)(model.backbone, model.method)
        return {f"eval_{name}": value for name, value in found.items()}

    def save_model(self, path: str | Path) -> Path:
        """Write the model to a folder that `LatentReasoner.from_pretrained` loads, and return it.

        A named backbone is saved as its adapter; a model that was passed in memory has no name, so its adapter is merged.

        Raises:
            UserError: The folder contains something else than a model, e.g. `output_dir` with its checkpoints.
        """
        check_replaceable(Path(path))
        if not self._in_memory or self.run.config.backbone.lora is None:
            return save_model(Path(path), self.model)
        save_model(self.args.output_dir / MODEL, self.model)
        export_model(self.args.output_dir / MODEL, Path(path), dtype=self.model.backbone.embedding_weight.dtype)
        return Path(path)


def _save_base(base: tuple[Any, Any], folder: Path) -> None:
    """Save the plain model and tokenizer, unless an earlier session of this run has saved the same ones."""
    with atomic_folder(folder) as draft:
        for part in base:
            part.save_pretrained(draft)
        new, old = ({file.name: fingerprint(file) for file in at.glob("*.safetensors")} for at in (draft, folder))
        if old and new != old:
            raise UserError(f"{folder}: has another model than the one passed. Choose another output_dir.")


def _base(model: Any, tokenizer: Any, config: BackboneConfig, device: str) -> tuple[Any, Any]:
    """Return the model and tokenizer in memory; a model given by name with another tokenizer is loaded."""
    if tokenizer is None:
        raise UserError("tokenizer: is required for a model that is passed in memory.")
    if isinstance(model, str | Path):
        return load_causal_lm(config.model_copy(update={"name": str(model)}), device), tokenizer
    if hasattr(model, "peft_config"):
        raise UserError("model: has an adapter already. Merge it first (merge_and_unload), or pass the plain model.")
    return model, tokenizer
