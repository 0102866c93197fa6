"""A trained model ↔ its folder: `ruplar.json` says what it is, safetensors hold the weights.

MODEL/
  ruplar.json                 method, prompt, domain, spans, prior, backbone: everything needed to use it again
  adapter_model.safetensors   the LoRA adapter (with adapter_config.json), or
  model.safetensors           all weights (with config.json and the tokenizer)
  method.safetensors          the method's own weights, when it has any
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError

from ruplar import __version__, plugins
from ruplar.domains.base import Domain
from ruplar.errors import UserError, unknown
from ruplar.fingerprints import fingerprint
from ruplar.model.backbone import EMBEDDED, Backbone, add_number_tokens, attach_markers, open_backbone
from ruplar.model.continue_adapter import alone, check_same_adapter
from ruplar.model.lora import add_lora, keep_start, merged
from ruplar.model.number_tokens import number_ids
from ruplar.model.settings import BackboneConfig, PromptConfig
from ruplar.model.weights import load_method_weights, load_weights, save_weights
from ruplar.renamed import upgrade
from ruplar.settings import Settings
from ruplar.types import Prompt

if TYPE_CHECKING:
    from ruplar.methods.base import Method

METADATA_FILE = "ruplar.json"
FORMAT = 1


class PluginSpec(Settings):
    """A plug-in by name with its settings."""

    name: str
    settings: dict[str, Any] = Field(default_factory=dict)


class ModelMetadata(Settings):
    """What a model folder says of itself."""

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
    """A model in memory: its backbone with weights, how it thinks, what its answers mean."""

    backbone: Backbone
    method: Method
    domain: Domain
    metadata: ModelMetadata

    def prompt(self, question: str) -> Prompt:
        """Build the prompt of a question: the one way for training, evaluation, serving and benchmarks.

        A method may add to the question (CoLaR writes its thinking speed), so a prompt is never made of the question alone.
        """
        return self.backbone.prompt(self.method.question(question))


def find_model(reference: str | Path) -> Path:
    """A model folder by path, or `embedded` / `embedded:NAME` for those that ship with the package."""
    text = str(reference)
    if text == "embedded" or text.startswith("embedded:"):
        known = {
            "cot": EMBEDDED,
            **{
                p.name: p
                for p in EMBEDDED.parent.iterdir()
                if p.name != EMBEDDED.name and (p / METADATA_FILE).is_file()
            },
        }
        name = text.partition(":")[2] or "ruplar"
        if name not in known:
            raise UserError(unknown("embedded model", name, known))
        return known[name]
    folder = Path(reference)
    for candidate in (folder, folder / "model"):
        if (candidate / METADATA_FILE).is_file():
            return candidate
    if folder.is_dir():
        raise UserError(
            f"{folder}: no {METADATA_FILE} in this folder, so it is not a trained ruplar model. Train one with `ruplar train`."
        )
    raise UserError(
        f"{text}: no such model folder. Give a folder that `ruplar train` wrote, or embedded:ruplar, embedded:cot, embedded:no_cot."
    )


def read_metadata(folder: Path) -> ModelMetadata:
    """The card of a model folder, checked."""
    try:
        raw = json.loads((folder / METADATA_FILE).read_text(encoding="utf-8"))
        if raw.get("format", 0) > FORMAT:
            raise UserError(
                f"{folder / METADATA_FILE}: format {raw['format']} was written by a later ruplar; this one reads up to {FORMAT}."
            )
        return ModelMetadata(**upgrade(raw, str(folder / METADATA_FILE)))
    except (json.JSONDecodeError, ValidationError) as error:
        raise UserError(f"{folder / METADATA_FILE} cannot be read: {error}") from error


def open_start(config: BackboneConfig, prompt: PromptConfig, device: str = "cpu", adapt: bool = True) -> Backbone:
    """The backbone training starts from: the named model, `init`'s weights with its adapter folded in, or with it in place.

    Args:
        config: The recipe's `backbone:` section.
        prompt: The recipe's `prompt:` section.
        device: Where it goes.
        adapt: Add a fresh LoRA when the config has one, or with `continue_adapter` the one of `init`.

    Raises:
        UserError: The model cannot be loaded, or `init`'s adapter is not one to go on with.
    """
    if config.init is None:
        return open_backbone(config, prompt, device, adapt)
    if config.lora is not None and config.lora.continue_adapter:
        return _going_on(config, prompt, device)
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


def _going_on(config: BackboneConfig, prompt: PromptConfig, device: str) -> Backbone:
    """The plain backbone with `init`'s adapter and trained rows, to be trained further; nothing is merged."""
    folder = find_model(str(config.init))
    check_same_adapter(config, read_metadata(folder).backbone, folder)
    backbone = open_backbone(alone(config), prompt, device)
    load_weights(backbone, {}, folder)
    keep_start(backbone)
    return backbone


def save_model(folder: Path, model: Model, dtype: Any = None) -> Path:
    """Write a model folder, complete or not at all."""
    with whole_folder(folder) as draft:
        save_weights(model.backbone, model.method.inference_modules(), draft, dtype)
        if not hasattr(model.backbone.model, "peft_config"):
            model.backbone.tokenizer.save_pretrained(draft)
        card = _as_saved(model)
        (draft / METADATA_FILE).write_text(json.dumps(card.model_dump(mode="json"), indent=2) + "\n", encoding="utf-8")
    return Path(folder)


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A folder to write in, which takes its name, and the place of what was there, when the block ends well."""
    folder = Path(folder)
    draft = folder.with_name(f".{folder.name}.{os.getpid()}")
    draft.mkdir(parents=True)
    try:
        yield draft
    except BaseException:  # an interrupt too: what is left would stand in the way of the next save
        _remove(draft)
        raise
    if folder.exists():
        old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
        folder.rename(old)
        draft.rename(folder)
        _remove(old)
    else:
        draft.rename(folder)


def _as_saved(model: Model) -> ModelMetadata:
    """The card with what the method measured where the recipe left it open, and without a start it does not need."""
    found = {key: getattr(model.method.config, key) for key in model.method.calibrated}
    named = model.metadata.method
    method = PluginSpec(name=named.name, settings={**named.settings, **found})
    return model.metadata.model_copy(update={"method": method, "backbone": alone(model.metadata.backbone)})


def load_model(
    reference: str | Path, device: str = "cpu", dtype: str = "auto", settings: Mapping[str, Any] | None = None
) -> Model:
    """A model folder in memory, ready to think.

    Args:
        reference: See `find_model`.
        device: Where it goes.
        dtype: Precision of its weights.
        settings: Of its method, in place of those it was saved with: another speed, another cap.

    Raises:
        UserError: There is no such folder, what it needs (its backbone, its `init`) is not where it was, or its method
            has no such setting.
    """
    folder = find_model(reference)
    card = read_metadata(folder)
    if settings:
        card = _changed(card, settings)
    method = plugins.make("methods", card.method.name, card.method.settings)
    domain = plugins.make("domains", card.domain.name, card.domain.settings)
    if (folder / "adapter_config.json").is_file():
        config = card.backbone.model_copy(update={"dtype": dtype})
        backbone = open_start(relocated(config, folder), card.prompt, device, adapt=False)
    else:
        name = "embedded" if folder.resolve() == EMBEDDED.resolve() else str(folder)
        plain = BackboneConfig(name=name, dtype=dtype, attention=card.backbone.attention, lora=None)
        backbone = open_backbone(plain, card.prompt, device)
    method.attach(backbone)
    if method.inference_modules() or (folder / "adapter_config.json").is_file():
        load_weights(backbone, method.inference_modules(), folder)
    backbone.model.to(device)
    for module in (backbone.model, *method.inference_modules().values()):
        module.eval()
    return Model(backbone, method, domain, card)


def _changed(card: ModelMetadata, settings: Mapping[str, Any]) -> ModelMetadata:
    """The card with other settings of the method, checked by the method's own `Config`."""
    name = card.method.name
    try:
        checked = plugins.load("methods", name).Config(**{**card.method.settings, **settings})
    except ValidationError as error:
        raise UserError(
            *(f"method.{'.'.join(map(str, e['loc']))}: {e['msg']} (method '{name}')." for e in error.errors())
        ) from error
    return card.model_copy(update={"method": PluginSpec(name=name, settings=checked.model_dump(mode="json"))})


def take_method_weights(method: Method, given: PluginSpec, reference: str | Path) -> bool:
    """Give a method the weights of its own (a latent head) that a model of the same method has learnt.

    What that model measured, and the recipe leaves open, is taken with them: they were learnt in its units.

    Args:
        method: Attached.
        given: Its name, and its settings as the recipe has them.
        reference: The model training starts from.

    Returns:
        Whether there were any to take: the model is of that method, and has weights of its own.
    """
    folder = find_model(reference)
    card = read_metadata(folder)
    if card.method.name != given.name or not method.inference_modules():
        return False
    load_method_weights(method.inference_modules(), folder)
    kept = {key: card.method.settings[key] for key in method.calibrated if given.settings.get(key) is None}
    method.config = method.config.model_copy(update=kept)
    return True


def export_model(reference: str | Path, folder: Path, *, merge: bool = True, dtype: Any = None) -> Model:
    """Write a model for others: merged, a plain folder that `AutoModelForCausalLM` loads; else the adapter as it is.

    Both keep `ruplar.json`, so `ruplar ask` and `evaluate` take the folder too.

    Returns:
        The model as it was written.
    """
    model = load_model(reference, dtype="float32")
    if merge:
        model.backbone.model = merged(model.backbone)
        model.backbone.__dict__.pop("plain_model", None)
        backbone = model.metadata.backbone.model_copy(update={"lora": None, "init": None})
        model.metadata = model.metadata.model_copy(update={"backbone": backbone})
    save_model(folder, model, dtype)
    return model


def start_mark(init: str | None) -> dict[str, str]:
    """What training begins at → `start: FOLDER` with a hash of its weights; empty at the plain backbone.

    A folder's name alone does not tell two starts apart: the run in it may have been trained anew. Where the start is an
    adapter on weights of another start, those count too; a backbone that is named is taken for what its name says.

    Raises:
        UserError: There is no such model, or its folder holds no weights.
    """
    if init is None:
        return {}
    digest, folder = hashlib.sha256(), find_model(init)
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise UserError(f"{folder}: holds no weights (*.safetensors), so nothing can begin there. Train it again.")
    for file in files:
        digest.update(f"{file.name} {fingerprint(file)}\n".encode())
    if (folder / "adapter_config.json").is_file():
        for mark in start_mark(relocated(read_metadata(folder).backbone, folder).init).values():
            digest.update(f"on {mark}\n".encode())
    return {f"start: {init}": digest.hexdigest()}


def relocated(config: BackboneConfig, folder: Path) -> BackboneConfig:
    """Relative paths in a card are looked for as written, then from the model's folder upwards.

    So a tree of runs can be moved whole, and its models opened from any folder.
    """
    found = {}
    for key, signs in (("name", ("config.json",)), ("init", (METADATA_FILE, f"model/{METADATA_FILE}"))):
        path = getattr(config, key)
        if not path or Path(path).exists():
            continue
        places = (place / path for place in (folder.resolve(), *folder.resolve().parents))
        at = next((place for place in places if any((place / sign).is_file() for sign in signs)), None)
        if at is not None:
            found[key] = str(at)
    return config.model_copy(update=found)


def _remove(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder)
