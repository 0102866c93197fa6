"""A backbone with a LoRA adapter → the same backbone whose adapted layers multiply once, by W + s·BA.

    as PEFT does it   y = x Wᵀ + s (x Aᵀ) Bᵀ     reads x twice, and four small products more in the backward pass
    folded            y = x (W + s BA)ᵀ           one product; the gradient of W + s BA goes on to A and B

The two are one function. With many positions and a narrow model, what costs is moving x, and folding moves it once; with a
wide model the gradient of the whole weight costs more than it saves. Nothing is merged: the adapter stays what is trained.
"""

from __future__ import annotations

from typing import Any, cast

import torch
import torch.nn.functional as F
from peft.tuners.lora import Linear
from torch import Tensor, nn

from ruplar.backbone.load import Backbone
from ruplar.errors import UserError


class FoldedLinear(Linear):
    """PEFT's own layer with another order of multiplication in training; everything else is inherited."""

    def forward(self, x: Tensor, *args, **kwargs) -> Tensor:
        """[..., in] → [..., out]."""
        if self.disable_adapters or self.merged or not torch.is_grad_enabled():
            return super().forward(x, *args, **kwargs)  # a decoding step has few positions: folding would cost more
        layer: Any = self.base_layer
        weight = layer.weight
        for name in self.active_adapters:
            up, down = cast(nn.Linear, self.lora_B[name]), cast(nn.Linear, self.lora_A[name])
            weight = weight + (up.weight @ down.weight * self.scaling[name]).to(weight.dtype)
        return F.linear(x, weight, layer.bias)


def fold_adapters(backbone: Backbone) -> int:
    """Have every adapted linear layer fold in training.

    Returns:
        How many layers do.

    Raises:
        UserError: There is no adapter, it has dropout, or a layer of it is of another kind.
    """
    model = backbone.model
    if not hasattr(model, "peft_config"):
        raise UserError(
            "speed.fold_lora: there is no adapter to fold: backbone.lora is null. Set speed.fold_lora: false."
        )
    if model.peft_config["default"].lora_dropout:
        raise UserError(
            "speed.fold_lora: dropout stands between the two factors of an adapter, so they cannot be multiplied first. "
            "Set backbone.lora.dropout: 0, or speed.fold_lora: false."
        )
    adapted = [module for module in model.modules() if hasattr(module, "lora_A") and len(module.lora_A)]
    for module in adapted:
        if (
            type(module) not in (Linear, FoldedLinear)
            or type(module.base_layer) is not nn.Linear
            or module.lora_variant
        ):
            raise UserError(
                f"speed.fold_lora: the adapter of a {type(module.get_base_layer()).__name__} is not folded here, only that "
                "of a plain linear layer. Set speed.fold_lora: false."
            )
        module.__class__ = FoldedLinear  # the same fields, so that saving, loading and merging find what they know
    return len(adapted)
