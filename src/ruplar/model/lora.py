"""Backbone → the same with a trainable adapter, or with a trained one folded into its weights.

An adapter that goes on from another run's (`continue_adapter`) has a frozen copy of its start beside it, named `START`: losses that
look back at the model training started from switch to it, where otherwise they switch the adapter off.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import nn

from ruplar.errors import UserError
from ruplar.model.settings import LoraSettings

if TYPE_CHECKING:
    from ruplar.model.backbone import Backbone

TRAINED, START = "default", "start"
"""PEFT's name of the adapter that is trained, and ours of the frozen copy of what it started from."""


def add_lora(backbone: Backbone, lora: LoraSettings) -> None:
    """Freeze the model and give it a trainable adapter; rows of added markers are trained too."""
    from peft import LoraConfig, get_peft_model

    targets: list[str] | str = list(lora.targets) if lora.targets else "all-linear"
    embedding_name = _name_of(backbone.model, backbone.embedding)
    if lora.embedding:
        targets = _linear_names(backbone) if targets == "all-linear" else list(targets)
        targets.append(embedding_name)
    rows: dict[str, list[int]] = {}
    trained = sorted({*backbone.added, *_word_ids(backbone.tokenizer, lora.words)})
    if trained and not lora.embedding:  # an adapted embedding already moves every row
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
        backbone.model = get_peft_model(backbone.model, config)
    except ValueError as error:
        raise UserError(f"backbone.lora.targets: {error}") from error
    backbone.__dict__.pop("plain_model", None)


def keep_start(backbone: Backbone) -> None:
    """Put a frozen copy of the adapter beside it; it is neither trained nor saved, and computes only when switched to."""
    from peft import get_peft_model_state_dict, set_peft_model_state_dict

    model = backbone.model
    model.add_adapter(START, copy.deepcopy(model.peft_config[TRAINED]))
    set_peft_model_state_dict(model, get_peft_model_state_dict(model, save_embedding_layers=False), adapter_name=START)
    model.set_adapter(TRAINED)


def merged(backbone: Backbone) -> Any:
    """The adapter folded into the weights: a plain Hugging Face model whose logits are the same.

    A tied head shares the embedding's matrix but not the embedding's adapter, so with an adapted embedding the head is
    untied first; otherwise merging would change it.
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
    """The id of each word, which must be one token as it stands in a sentence, after a space."""
    ids = [tokenizer.encode(f" {word}", add_special_tokens=False) for word in words]
    split = [f"'{word}' is {len(found)}" for word, found in zip(words, ids, strict=True) if len(found) != 1]
    if split:
        raise UserError(f"backbone.lora.words: each must be one token, but {', '.join(split)}. Leave those out.")
    return [found[0] for found in ids]


def _name_of(model: Any, module: nn.Module) -> str:
    """Last part of a module's name, as PEFT's target lists want it."""
    return next(name for name, m in model.named_modules() if m is module).split(".")[-1]


def _linear_names(backbone: Backbone) -> list[str]:
    from transformers.pytorch_utils import Conv1D

    head = backbone.head
    modules = backbone.plain_model.named_modules()
    return sorted({n.split(".")[-1] for n, m in modules if isinstance(m, nn.Linear | Conv1D) and m is not head})
