"""Backbone → the same backbone with a LoRA adapter: add one, merge it, switch to the model training started from.

With `backbone.lora.continue_adapter` the adapter of `init` is trained further instead of being merged. It stays a single
adapter on the plain backbone, and the last run loads without the earlier ones. A frozen copy of the adapter as it was at the
start (`START`) stays beside it: losses that compare with the start model switch to that copy, otherwise to no adapter.
"""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import nn

from ruplar.errors import UserError
from ruplar.model.backbone import Backbone
from ruplar.model.settings import BackboneConfig, LoraSettings

TRAINED, START = "default", "start"
"""PEFT's name of the trained adapter, and our name of the frozen copy of its start."""
_SHAPE = ("rank", "alpha", "targets", "embedding", "words")
"""LoRA settings that must be equal to train an adapter further; dropout may change."""


def add_lora(backbone: Backbone, lora: LoraSettings) -> None:
    """Freeze the model and add a trainable adapter; the embedding rows of added tokens are trained too."""
    from peft import LoraConfig, get_peft_model

    targets: list[str] | str = list(lora.targets) if lora.targets else "all-linear"
    embedding_name = _name_of(backbone.model, backbone.embedding)
    if lora.embedding:
        targets = _linear_names(backbone) if targets == "all-linear" else list(targets)
        targets.append(embedding_name)
    rows: dict[str, list[int]] = {}
    trained = sorted({*backbone.added, *_word_ids(backbone.tokenizer, lora.words)})
    if trained and not lora.embedding:  # an adapted embedding already trains every row
        rows[embedding_name] = trained
    if trained and (lora.embedding or not backbone.model.config.tie_word_embeddings):
        rows[_name_of(backbone.model, backbone.head)] = trained
    config = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=targets,
        trainable_token_indices=rows or None,
        task_type="CAUSAL_LM",
    )
    try:
        backbone.set_model(get_peft_model(backbone.model, config))
    except ValueError as error:
        raise UserError(f"backbone.lora.targets: {error}") from error


def check_same_adapter(config: BackboneConfig, first: BackboneConfig, folder: Path) -> None:
    if not (folder / "adapter_config.json").is_file() or first.lora is None or config.lora is None:
        raise UserError(
            f"backbone.lora.continue_adapter: {folder} has no adapter, all its weights were trained. Remove "
            "continue_adapter to train a new adapter on its weights."
        )
    if first.init is not None:
        raise UserError(
            f"backbone.lora.continue_adapter: the adapter in {folder} belongs to the merged weights of '{first.init}', not to "
            f"'{first.name}' itself. Remove continue_adapter, or train that run with continue_adapter too."
        )
    shapes = [("lora." + key, getattr(config.lora, key), getattr(first.lora, key)) for key in _SHAPE]
    whole = [(key, getattr(config, key), getattr(first, key)) for key in ("name", "number_tokens")]
    other = [
        f"backbone.{key}: is {ours!r}, but {theirs!r} in {folder}, whose adapter is to be trained further."
        for key, ours, theirs in whole + shapes
        if ours != theirs
    ]
    if other:
        raise UserError(*(f"{line} Use that value, or remove backbone.lora.continue_adapter." for line in other))


def standalone(config: BackboneConfig) -> BackboneConfig:
    """Return the backbone section to save: without `init` where the adapter sits on the plain backbone."""
    if config.lora is None or not config.lora.continue_adapter:
        return config
    return config.model_copy(update={"init": None, "lora": config.lora.model_copy(update={"continue_adapter": False})})


def copy_start(backbone: Backbone) -> None:
    """Add a frozen copy of the adapter under the name `START`; it is neither trained nor saved."""
    from peft import get_peft_model_state_dict, set_peft_model_state_dict

    model = backbone.model
    model.add_adapter(START, copy.deepcopy(model.peft_config[TRAINED]))
    set_peft_model_state_dict(model, get_peft_model_state_dict(model, save_embedding_layers=False), adapter_name=START)
    model.set_adapter(TRAINED)


@contextmanager
def unadapted(backbone: Backbone, setting: str) -> Iterator[None]:
    """Switch to the model that training started from, without dropout, until the block ends."""
    model = backbone.model
    if not hasattr(model, "peft_config"):
        raise UserError(
            f"{setting}: needs the model that training started from, which is the backbone without its adapter, but all "
            "weights are trained here. Set backbone.lora, or remove the setting."
        )
    training = model.training
    model.eval()
    try:
        if START in model.peft_config:
            model.set_adapter(START)
            try:
                yield
            finally:
                model.set_adapter(TRAINED)
        else:
            with model.disable_adapter():
                yield
    finally:
        model.train(training)


def merged(backbone: Backbone) -> Any:
    """Merge the adapter into the weights → a plain Hugging Face model with the same logits.

    A tied head shares the embedding's matrix but not the embedding's adapter. With an adapted embedding the head is
    therefore untied first; otherwise merging would change it.
    """
    if not hasattr(backbone.model, "peft_config"):
        return backbone.model
    plain = backbone.plain_model
    targets = backbone.model.peft_config[TRAINED].target_modules or ()
    name = _name_of(plain, plain.get_input_embeddings())
    if plain.config.tie_word_embeddings and any(t == name or t.endswith("." + name) for t in targets):
        head = plain.get_output_embeddings()
        head = getattr(head, "original_module", head)
        head.weight = nn.Parameter(head.weight.detach().clone())
        plain.config.tie_word_embeddings = False
    return backbone.model.merge_and_unload()


def _word_ids(tokenizer: Any, words: Sequence[str]) -> list[int]:
    """Return the id of each word; after a space it must be a single token."""
    ids = [tokenizer.encode(f" {word}", add_special_tokens=False) for word in words]
    split = [f"'{word}' is {len(found)}" for word, found in zip(words, ids, strict=True) if len(found) != 1]
    if split:
        raise UserError(f"backbone.lora.words: each must be one token, but {', '.join(split)}. Remove those.")
    return [found[0] for found in ids]


def _name_of(model: Any, module: nn.Module) -> str:
    """Return the last part of a module's name, as PEFT's target lists expect it."""
    return next(name for name, m in model.named_modules() if m is module).split(".")[-1]


def _linear_names(backbone: Backbone) -> list[str]:
    from transformers.pytorch_utils import Conv1D

    head = backbone.head
    modules = backbone.plain_model.named_modules()
    return sorted({n.split(".")[-1] for n, m in modules if isinstance(m, nn.Linear | Conv1D) and m is not head})
