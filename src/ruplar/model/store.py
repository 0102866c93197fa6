"""A trained model ↔ its folder: metadata in `ruplar.json`, weights in safetensors.

MODEL/
  ruplar.json                 model metadata: method, prompt, domain, spans, prior, backbone
  adapter_model.safetensors   the LoRA adapter (with adapter_config.json), or
  model.safetensors           all weights (with config.json and the tokenizer)
  method.safetensors          the method's own weights, if it has any
  trained_on.npy              digests of the questions it was trained on, so that evaluations on them are marked
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import torch
from pydantic import Field, ValidationError

from ruplar import __version__, plugins
from ruplar.domains.base import Domain
from ruplar.errors import UserError, unknown
from ruplar.fingerprints import fingerprint
from ruplar.io import MODEL, atomic_folder, write_json
from ruplar.model.backbone import Backbone
from ruplar.model.fetch import KNOWN
from ruplar.model.load import EMBEDDED, add_number_tokens, attach_markers, load_backbone
from ruplar.model.lora import add_lora, check_same_adapter, copy_start, merged, standalone
from ruplar.model.memory import usable_device
from ruplar.model.number_tokens import number_ids
from ruplar.model.settings import BackboneConfig, PromptConfig
from ruplar.model.tokenizers import DOMAINS
from ruplar.model.weights import load_method_weights, load_weights, save_weights
from ruplar.renamed import upgrade
from ruplar.settings import Settings, explain
from ruplar.types import Prompt

if TYPE_CHECKING:
    from ruplar.methods.base import Method

METADATA_FILE, TRAINED_ON = "ruplar.json", "trained_on.npy"
_SUBFOLDERS = ("custom_generate", "additional_chat_templates")
"""Folders that are part of a model: of an export, and of some tokenizers."""
FORMAT = 1


class PluginSpec(Settings):
    """A plug-in by name with its settings."""

    name: str
    settings: dict[str, Any] = Field(default_factory=dict)


class ModelMetadata(Settings):
    """Content of `ruplar.json`: everything needed to use a model, except its weights."""

    format: int = FORMAT
    ruplar: str = __version__
    method: PluginSpec
    backbone: BackboneConfig
    prompt: PromptConfig
    domain: PluginSpec
    spans: PluginSpec = PluginSpec(name="step")
    prior: PluginSpec | None = None


@dataclass
class Model:
    """A model in memory: backbone, method, domain and metadata; `trained_on` as by `fingerprints.digests`, empty if unknown."""

    backbone: Backbone
    method: Method
    domain: Domain
    metadata: ModelMetadata
    trained_on: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint64))

    @property
    def max_positions(self) -> int | None:
        """Maximum number of positions of the backbone; None if there is no limit."""
        return getattr(self.backbone.plain_model.config, "max_position_embeddings", None)

    def prompt(self, question: str) -> Prompt:
        """Build the prompt of a question, for training, evaluation, serving and benchmarks.

        A method may extend the question (CoLaR adds its thinking speed), so always build prompts with this function.
        """
        if not question.strip():
            raise UserError("the question is empty.")
        return self.backbone.prompt(self.method.question(question))


def find_model(reference: str | Path) -> Path:
    """Return a model folder by path, or by `embedded` / `embedded:NAME` for the packaged models."""
    text = str(reference)
    if text == "embedded" or text.startswith("embedded:"):
        folders = (p for p in EMBEDDED.parent.iterdir() if p != EMBEDDED and (p / METADATA_FILE).is_file())
        known = {"cot": EMBEDDED, **{folder.name: folder for folder in folders}}
        name = text.partition(":")[2] or "ruplar"
        if name not in known:
            raise UserError(unknown("embedded model", name, known))
        return known[name]
    folder = Path(reference)
    for candidate in (folder, folder / MODEL):
        if (candidate / METADATA_FILE).is_file():
            return candidate
    raise UserError(_no_model(folder, text))


def _no_model(folder: Path, text: str) -> str:
    """Say that there is no model at a path, with those in the folder, or with a similar name."""
    within = folder if folder.is_dir() else folder.parent
    files = (file for depth in ("*", "*/model") for file in within.glob(f"{depth}/{METADATA_FILE}"))
    near = sorted(str(file.parent).removesuffix("/model") for file in files)
    if folder.is_dir():
        hint = f"Models in it: {', '.join(near[:5])}." if near else "Train one with `ruplar train`."
        return f"{folder}: no {METADATA_FILE} in this folder, so it is not a ruplar model. {hint}"
    packaged = [f"embedded:{name}" for name in ("ruplar", "cot", "no_cot")]
    close = difflib.get_close_matches(text, [*near, "embedded", *packaged], n=1)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    if not close and re.fullmatch(r"[\w.-]+/[\w.-]+", text) and not within.is_dir():
        hint = f" Or read it from the Hub: `hf download {text} --local-dir FOLDER`, then pass FOLDER."
    return f"{text}: no such model folder.{hint} Use a folder of `ruplar train`, or {', '.join(packaged)}."


def read_metadata(folder: Path) -> ModelMetadata:
    file = folder / METADATA_FILE
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(raw, dict) or not isinstance(raw.get("format", 0), int):
            raise UserError(f"{file}: not the metadata of a ruplar model. Copy the folder again.")
        if raw.get("format", 0) > FORMAT:
            raise UserError(
                f"{file}: format {raw['format']} was written by a later ruplar; this one reads up to {FORMAT}. Upgrade ruplar."
            )
        return ModelMetadata(**upgrade(raw, str(file)))
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:  # also a ValidationError
        raise UserError(f"{file} cannot be read: {str(error)[:500]}") from error


def load_start(
    config: BackboneConfig,
    prompt: PromptConfig,
    device: str = "cpu",
    adapt: bool = True,
    base: tuple[Any, Any] | None = None,
) -> Backbone:
    """Load the backbone that training starts from: the named model, or `init` with its adapter merged or continued.

    `adapt` and `base` as for `load_backbone`.
    """
    if config.init is None:
        return load_backbone(config, prompt, device, adapt, base)
    if base is not None:
        raise UserError("backbone.init: not available for a model in memory. Pass that run's folder as the model.")
    if config.lora is not None and config.lora.continue_adapter:
        return _load_continued(config, prompt, device)
    first = load_model(config.init, device, config.dtype)
    model, tokenizer = merged(first.backbone), first.backbone.tokenizer
    numbers: Sequence[int] = ()
    if config.number_tokens and first.metadata.backbone.number_tokens:
        numbers = number_ids(tokenizer)
    elif config.number_tokens:
        tokenizer, numbers = add_number_tokens(model, tokenizer)
    backbone = attach_markers(model, tokenizer, prompt, numbers)
    if adapt and config.lora is not None:
        add_lora(backbone, config.lora)
        backbone.model.to(device)
    return backbone


def _load_continued(config: BackboneConfig, prompt: PromptConfig, device: str) -> Backbone:
    """Load the plain backbone with the adapter and trained rows of `init`, unmerged, to train them further."""
    folder = find_model(str(config.init))
    check_same_adapter(config, read_metadata(folder).backbone, folder)
    backbone = load_backbone(standalone(config), prompt, device)
    load_weights(backbone, {}, folder)
    copy_start(backbone)
    return backbone


def check_replaceable(folder: str | Path) -> None:
    """Refuse a path where saving would delete something else than a model, such as the checkpoints of a run."""
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file. Choose a folder.")
    found = sorted(folder.iterdir()) if folder.exists() else []
    model = (folder / METADATA_FILE).is_file()
    if others := [one.name for one in found if not model or (one.is_dir() and one.name not in _SUBFOLDERS)]:
        shown = ", ".join(others[:4]) + (", …" if others[4:] else "")
        raise UserError(
            f"{folder}: saving a model here would delete what it contains ({shown}). Choose another folder, e.g. "
            f"{folder / 'final'}."
        )


def save_model(folder: Path, model: Model, dtype: Any = None, write: bool = True) -> Path:
    """Write a model folder, or replace one; every process of a sharded run calls it, and only one has `write` set."""
    check_replaceable(folder)
    if not write:
        save_weights(model.backbone, model.method.modules(), folder, dtype, write=False)
        return Path(folder)
    with atomic_folder(folder, replace=True) as draft:
        metadata = _saved_metadata(model)
        base = _base_name(metadata.backbone)
        save_weights(model.backbone, model.method.modules(), draft, dtype, base)
        # an adapter with added tokens needs its tokenizer too; PEFT then adds the rows by itself
        if model.backbone.added or not hasattr(model.backbone.model, "peft_config"):
            model.backbone.tokenizer.save_pretrained(draft)
        if len(model.trained_on):
            np.save(draft / TRAINED_ON, model.trained_on)
        write_json(draft / METADATA_FILE, metadata.model_dump(mode="json"))
    return Path(folder)


def _base_name(config: BackboneConfig) -> str | None:
    """Return the model an adapter belongs to, as PEFT names it; None for packaged models, which have no such name."""
    if config.init is not None:
        return config.init
    if config.name in KNOWN:
        return KNOWN[config.name].hub
    return None if config.name == "embedded" or config.name in DOMAINS else config.name


def _saved_metadata(model: Model) -> ModelMetadata:
    """Return the metadata with the settings the method calibrated, and without an `init` that is not needed to load it."""
    found = {key: getattr(model.method.config, key) for key in model.method.calibrated}
    named = model.metadata.method
    method = PluginSpec(name=named.name, settings={**named.settings, **found})
    return model.metadata.model_copy(update={"method": method, "backbone": standalone(model.metadata.backbone)})


def load_model(
    reference: str | Path,
    device: str | torch.device = "cpu",
    dtype: str | torch.dtype = "auto",
    settings: Mapping[str, Any] | None = None,
) -> Model:
    """Load a model for inference; `settings` replace saved settings of the method, e.g. another speed or latent limit."""
    dtype, known = str(dtype).removeprefix("torch."), get_args(BackboneConfig.model_fields["dtype"].annotation)
    if dtype not in known:
        raise UserError(unknown("dtype", dtype, known))
    folder, device = find_model(reference), usable_device(device)
    try:
        return _read_model(folder, device, dtype, settings)
    except (UserError, torch.cuda.OutOfMemoryError):
        raise
    except Exception as error:  # transformers, PEFT and the Hub have their own exceptions
        why = f"{type(error).__name__}: {str(error).strip()[:500]}"
        raise UserError(f"{folder}: cannot be loaded; damaged, or from another version: {why}") from error


def _read_model(folder: Path, device: str, dtype: str, settings: Mapping[str, Any] | None) -> Model:
    metadata = read_metadata(folder)
    if settings:
        metadata = _with_settings(metadata, settings)
    method = plugins.make("methods", metadata.method.name, metadata.method.settings)
    domain = plugins.make("domains", metadata.domain.name, metadata.domain.settings)
    if (folder / "adapter_config.json").is_file():
        config = metadata.backbone.model_copy(update={"dtype": dtype})
        backbone = load_start(relocated(config, folder), metadata.prompt, device, adapt=False)
    else:
        name = "embedded" if folder.resolve() == EMBEDDED.resolve() else str(folder)
        plain = BackboneConfig(name=name, dtype=dtype, attention=metadata.backbone.attention, lora=None)
        backbone = load_backbone(plain, metadata.prompt, device)
    method.attach(backbone)
    if method.modules() or (folder / "adapter_config.json").is_file():
        load_weights(backbone, method.modules(), folder)
    backbone.model.to(device)
    for module in (backbone.model, *method.modules().values()):
        module.eval()
    return Model(backbone, method, domain, metadata, read_trained_on(folder))


def read_trained_on(folder: Path) -> np.ndarray:
    """Return the digests of the questions that a saved model was trained on; empty if unknown."""
    file = folder / TRAINED_ON
    try:
        return np.load(file, mmap_mode="r") if file.is_file() else np.zeros(0, np.uint64)
    except (ValueError, OSError, EOFError) as error:
        raise UserError(f"{file} cannot be read: {error}. Copy it again, or remove it.") from error


def _with_settings(metadata: ModelMetadata, settings: Mapping[str, Any]) -> ModelMetadata:
    name = metadata.method.name
    config = plugins.load("methods", name).Config
    try:
        checked = config(**{**metadata.method.settings, **settings})
    except ValidationError as error:
        details = error.errors()
        raise UserError(*(explain(d, config, prefix="method", owner=f" of method {name}") for d in details)) from error
    return metadata.model_copy(update={"method": PluginSpec(name=name, settings=checked.model_dump(mode="json"))})


def init_method(method: Method, given: PluginSpec, reference: str | Path) -> bool:
    """Load the method's own weights (a latent head) from an initial model of the same method → whether it has any.

    Calibrated settings that the recipe does not set are loaded too, because the weights depend on them.
    """
    folder = find_model(reference)
    metadata = read_metadata(folder)
    if metadata.method.name != given.name or not method.modules():
        return False
    load_method_weights(method.modules(), folder)
    calibrated = {key: metadata.method.settings[key] for key in method.calibrated if given.settings.get(key) is None}
    method.config = method.config.model_copy(update=calibrated)
    return True


def start_mark(init: str | None) -> dict[str, str]:
    """`backbone.init` → `start: FOLDER` with a hash of its weights; empty without `init`.

    The folder's name does not identify the weights: the run may have been repeated. If the model is an adapter on
    another model, the hash covers the weights of both; a named backbone is identified by its name.
    """
    if init is None:
        return {}
    digest, folder = hashlib.sha256(), find_model(init)
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise UserError(f"{folder}: has no initial weights (*.safetensors). Train it again.")
    for file in files:
        digest.update(f"{file.name} {fingerprint(file)}\n".encode())
    if (folder / "adapter_config.json").is_file():
        for mark in start_mark(relocated(read_metadata(folder).backbone, folder).init).values():
            digest.update(f"on {mark}\n".encode())
    return {f"start: {init}": digest.hexdigest()}


def relocated(config: BackboneConfig, folder: Path) -> BackboneConfig:
    """Resolve relative paths in a model's metadata: as written, else from the model's folder upwards.

    This lets you move a tree of runs, and load its models from any working directory. Names of packaged and known
    models are no paths.
    """
    found = {}
    for key, signs in (("name", ("config.json",)), ("init", (METADATA_FILE, f"{MODEL}/{METADATA_FILE}"))):
        path = getattr(config, key)
        if not path or path.partition(":")[0] in ("embedded", *KNOWN, *DOMAINS) or Path(path).exists():
            continue
        places = (place / path for place in (folder.resolve(), *folder.resolve().parents))
        at = next((place for place in places if any((place / sign).is_file() for sign in signs)), None)
        if at is not None:
            found[key] = str(at)
    return config.model_copy(update=found)
