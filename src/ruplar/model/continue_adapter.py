"""Two `backbone:` sections → whether one run may train the other's adapter further, and what is saved when it has.

With `backbone.lora.continue_adapter` the adapter of `init` is not merged: it stays one adapter on the plain backbone, through as many
runs as one likes, and the last one loads without the others.
"""

from __future__ import annotations

from pathlib import Path

from ruplar.errors import UserError
from ruplar.model.settings import BackboneConfig

_SHAPE = ("rank", "alpha", "targets", "embedding", "words")
"""Settings of LoRA that two runs must share for one to go on with the other's adapter; dropout may change."""


def check_same_adapter(config: BackboneConfig, first: BackboneConfig, folder: Path) -> None:
    """Refuse to go on with an adapter of another backbone or another shape; all differences are named at once.

    Args:
        config: Of the run that goes on.
        first: Of the run it goes on from.
        folder: Where that one lies.
    """
    if not (folder / "adapter_config.json").is_file() or first.lora is None or config.lora is None:
        raise UserError(
            f"backbone.lora.continue_adapter: {folder} holds no adapter, all its weights were trained. Leave continue_adapter out; a fresh adapter "
            "is then put on its weights."
        )
    if first.init is not None:
        raise UserError(
            f"backbone.lora.continue_adapter: the adapter in {folder} stands on the merged weights of '{first.init}', not on "
            f"'{first.name}' itself. Leave continue_adapter out, or train that run with continue_adapter too."
        )
    shapes = [("lora." + key, getattr(config.lora, key), getattr(first.lora, key)) for key in _SHAPE]
    whole = [(key, getattr(config, key), getattr(first, key)) for key in ("name", "number_tokens")]
    other = [
        f"backbone.{key}: is {ours!r}, but {theirs!r} in {folder}, whose adapter is to be trained further."
        for key, ours, theirs in whole + shapes
        if ours != theirs
    ]
    if other:
        raise UserError(*(f"{line} Set it so, or leave backbone.lora.continue_adapter out." for line in other))


def alone(config: BackboneConfig) -> BackboneConfig:
    """The section of a model whose adapter stands on the plain backbone: no run that it came from is needed."""
    if config.lora is None or not config.lora.continue_adapter:
        return config
    return config.model_copy(update={"init": None, "lora": config.lora.model_copy(update={"continue_adapter": False})})
