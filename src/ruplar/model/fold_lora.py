"""A backbone with a LoRA adapter → the same backbone whose adapted layers multiply once, by W + s·BA.

    as PEFT does it   y = x Wᵀ + s (x Aᵀ) Bᵀ     reads x twice, and four small products more in the backward pass
    folded            y = x (W + s BA)ᵀ           one product; the gradient of W + s BA goes on to A and B

The two are one function. With many positions and a narrow model, what costs is moving x, and folding moves it once; with a
wide model the gradient of the whole weight costs more than it saves. Nothing is merged: the adapter stays what is trained.
Where a step passes through the layers several times (latents made one from another), W + s BA is made once for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from peft.tuners.lora import Linear
from torch import Tensor, nn

from ruplar.errors import UserError
from ruplar.model.backbone import Backbone


@dataclass
class Steps:
    """Which step of the training it is; what was made in another is not used again."""

    number: int = 0


class FoldedLinear(Linear):
    """PEFT's own layer with another order of multiplication in training; everything else is inherited."""

    steps: Steps | None = None

    def forward(self, x: Tensor, *args, **kwargs) -> Tensor:
        """[..., in] → [..., out]."""
        if self.disable_adapters or self.merged or not torch.is_grad_enabled():
            return super().forward(x, *args, **kwargs)  # a decoding step has few positions: folding would cost more
        layer: Any = self.base_layer
        return F.linear(x, self._weight(layer.weight), layer.bias)

    def _weight(self, weight: Tensor) -> Tensor:
        """W + s BA: made now, or earlier in the same step."""
        if self.steps is None:
            return self._folded(weight)
        now = (self.steps.number, *self.active_adapters)  # for a while another adapter may stand in, within one step
        made, found = self.__dict__.get("kept", (None, weight))
        if made != now:
            found = self._folded(weight)
            self.__dict__["kept"] = (now, found)  # past Module's own bookkeeping: it is no part of the model
        return found

    def _folded(self, weight: Tensor) -> Tensor:
        for name in self.active_adapters:
            up, down = cast(nn.Linear, self.lora_B[name]), cast(nn.Linear, self.lora_A[name])
            weight = weight + (up.weight @ down.weight * self.scaling[name]).to(weight.dtype)
        return weight


def forget(backbone: Backbone) -> None:
    """Have every layer fold anew where folding is done once a step, and let go of what was made."""
    if backbone.steps is not None:
        for module in backbone.model.modules():
            module.__dict__.pop("kept", None)


def fold_adapters(backbone: Backbone, once: bool = False) -> int:
    """Have every adapted linear layer fold in training.

    Args:
        backbone: With an adapter.
        once: Fold once a step instead of at every pass; `Backbone.begin_step` says where one begins.

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
    backbone.steps = Steps() if once else None
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
        module.steps = backbone.steps
        module.__class__ = FoldedLinear  # the same fields, so that saving, loading and merging find what they know
    return len(adapted)
