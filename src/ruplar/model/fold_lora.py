"""A backbone with a LoRA adapter → the same backbone whose adapted layers multiply once, by W + s·BA.

    PEFT      y = x Wᵀ + s (x Aᵀ) Bᵀ     reads x twice and writes y twice, forward and backward
    folded    y = x (W + s BA)ᵀ           one product forward, one for the gradient of x
              ∂A = s (g B)ᵀ x,  ∂B = s gᵀ (x Aᵀ)     thin products: the gradient of the whole weight is never computed

Both compute the same function. Nothing is merged: training updates the adapter. If a step runs the layers several
times (recurrent latents), W + s BA is computed once for all of them.

Where the weights are small, launching thin products takes longer than computing the gradient of the weight. Layers of one
shape are then folded together, [n, out, in] + s [n, out, r] [n, r, in], and ∂A and ∂B follow from the gradients of all n weights.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
import torch.nn.functional as F
from peft.tuners.lora import Linear
from torch import Tensor, nn

from ruplar.errors import UserError
from ruplar.model.backbone import Backbone

SMALL = 2**18
"""Weights with at most this many elements are folded together with those of the same shape."""


@dataclass
class Steps:
    """Number of the training step; folded weights of earlier steps are not reused."""

    number: int = 0
    groups: "list[_Group]" = field(default_factory=list)


class FoldedLinear(Linear):
    """PEFT's LoRA layer with another order of multiplication in training."""

    steps: Steps | None = None
    group: "_Group | None" = None  # the layers folded together with this one

    def forward(self, x: Tensor, *args, **kwargs) -> Tensor:
        """[..., in] → [..., out]."""
        if self.disable_adapters or self.merged or not torch.is_grad_enabled():
            return super().forward(x, *args, **kwargs)  # decoding has few positions, so folding would be slower
        [name] = self.active_adapters
        layer: Any = self.base_layer
        up, down = cast(nn.Linear, self.lora_B[name]).weight, cast(nn.Linear, self.lora_A[name]).weight
        device = x.device.type
        if torch.is_autocast_enabled(device):
            x = x.to(torch.get_autocast_dtype(device))
        bias = None if layer.bias is None else layer.bias.to(x.dtype)
        if self.group is not None:
            return F.linear(x, self.group.folded(self, name, x.dtype), bias)
        folded = self._weights(layer.weight, up, down, x.dtype)
        return cast(Tensor, _Multiply.apply(x, *folded, bias, up, down, self.scaling[name]))

    def _weights(self, weight: Tensor, up: Tensor, down: Tensor, dtype: torch.dtype) -> tuple[Tensor | None, ...]:
        """Return W + s BA, B and A in this dtype (None if they already have it), cached within a step."""
        if self.steps is None:
            return self._folded(weight, up, down, dtype)
        now = (self.steps.number, *self.active_adapters)  # the active adapter may change within a step
        made, found = self.__dict__.get("folded", (None, ()))
        if made != now:
            found = self._folded(weight, up, down, dtype)
            self.__dict__["folded"] = (now, found)  # bypasses Module.__setattr__: not part of the model
        return found

    @torch.no_grad()
    def _folded(self, weight: Tensor, up: Tensor, down: Tensor, dtype: torch.dtype) -> tuple[Tensor | None, ...]:
        [name] = self.active_adapters
        small = up.to(dtype), down.to(dtype)
        if weight.dtype == dtype:
            folded = torch.addmm(weight, *small, alpha=self.scaling[name])
        else:
            folded = (weight + _product(*small, self.scaling[name]).to(weight.dtype)).to(dtype)
        return folded, *(None if one is given else one for one, given in zip(small, (up, down), strict=True))


class _Group:
    """Layers of one shape, folded in one product and cached within a step."""

    def __init__(self, layers: Sequence[Any], steps: Steps):
        self.layers, self.steps = layers, steps
        self.place = {id(layer): place for place, layer in enumerate(layers)}
        self.stacked: Tensor | None = None  # [n, out, in] the frozen weights
        self.made: tuple[Any, ...] | None = None
        self.found: tuple[Tensor, ...] = ()

    def folded(self, layer: FoldedLinear, name: str, dtype: torch.dtype) -> Tensor:
        """Return W + s BA of one layer in this dtype."""
        now = (self.steps.number, name, dtype)
        if self.made != now:
            if self.stacked is None:
                self.stacked = torch.stack([layer.base_layer.weight.detach() for layer in self.layers])
            ups = [layer.lora_B[name].weight for layer in self.layers]
            downs = [layer.lora_A[name].weight for layer in self.layers]
            self.found = _FoldTogether.apply(self, dtype, self.layers[0].scaling[name], *ups, *downs)
            self.made = now
        return self.found[self.place[id(layer)]]

    def clear(self) -> None:
        """Discard what was folded."""
        self.made, self.found = None, ()


class _FoldTogether(torch.autograd.Function):
    """A group's frozen weights, its n B and its n A → its n W + s BA."""

    @staticmethod
    def forward(ctx, group, dtype, scale, *adapters):
        """Return the n folded weights in `dtype`."""
        stacked, n = group.stacked, len(group.layers)
        up, down = (torch.stack(part).to(dtype) for part in (adapters[:n], adapters[n:]))
        ctx.save_for_backward(up, down)
        ctx.group, ctx.scale, ctx.dtype = group, scale, adapters[0].dtype
        if stacked.dtype == dtype:
            return torch.baddbmm(stacked, up, down, alpha=scale).unbind()
        return (stacked + scale * torch.bmm(up, down).to(stacked.dtype)).to(dtype).unbind()

    @staticmethod
    def backward(ctx, *gradients):
        """Gradients of the n folded weights → those of B and of A."""
        ctx.group.clear()  # another pass of this step cannot go through the same graph again
        up, down = ctx.saved_tensors
        gradient = torch.stack(gradients)
        to_up = torch.bmm(gradient, down.mT).to(ctx.dtype) * ctx.scale
        to_down = torch.bmm(up.mT, gradient).to(ctx.dtype) * ctx.scale
        return None, None, None, *to_up.unbind(), *to_down.unbind()


class _Multiply(torch.autograd.Function):
    """x (W + s BA)ᵀ, with gradients of x, A and B.

    `up` and `down` are B and A in the dtype of x, or None if the trained ones have it: the compiler does not trace a function
    that receives one tensor twice.
    """

    @staticmethod
    def forward(ctx, x, folded, up, down, bias, trained_up, trained_down, scale):
        """[..., in] → [..., out]."""
        ctx.save_for_backward(x, folded, trained_up if up is None else up, trained_down if down is None else down)
        ctx.scale, ctx.dtypes = scale, (trained_up.dtype, trained_down.dtype)
        return F.linear(x, folded, bias)

    @staticmethod
    def backward(ctx, *gradients):
        """Gradient of the output → those of x, B and A."""
        x, folded, up, down = ctx.saved_tensors
        [gradient] = gradients
        flat, rows = gradient.flatten(0, -2), x.flatten(0, -2)
        to_up = _product(flat.t(), rows @ down.t(), ctx.scale)
        to_down = _product((flat @ up).t(), rows, ctx.scale)
        given = [one.to(dtype) for one, dtype in zip((to_up, to_down), ctx.dtypes, strict=True)]
        return gradient @ folded, None, None, None, None, *given, None


def _product(a: Tensor, b: Tensor, scale: float) -> Tensor:
    """Return scale · a b; the matrix product itself scales."""
    if torch.compiler.is_compiling():  # `beta=0` may become 0 · empty, which can be NaN; the scale is fused anyway
        return a @ b * scale
    return torch.addmm(a.new_empty(1, 1), a, b, beta=0, alpha=scale)


def clear_folded(backbone: Backbone) -> None:
    """Discard the folded weights that are cached within a step."""
    if backbone.steps is not None:
        for group in backbone.steps.groups:
            group.clear()
        for module in backbone.model.modules():
            module.__dict__.pop("folded", None)


def fold_adapters(backbone: Backbone, once: bool = False) -> int:
    """Make every adapted linear layer fold its adapter in training.

    Args:
        backbone: A backbone with an adapter.
        once: Fold once per step instead of in every pass; `Backbone.begin_step` starts a step.

    Returns:
        The number of layers.
    """
    model = backbone.model
    if not hasattr(model, "peft_config"):
        raise UserError("speed.fold_lora: no adapter to fold (backbone.lora: null). Set speed.fold_lora: false.")
    if model.peft_config["default"].lora_dropout:
        raise UserError(
            "speed.fold_lora: an adapter with dropout cannot be folded. "
            "Set backbone.lora.dropout: 0, or speed.fold_lora: false."
        )
    adapted = [module for module in model.modules() if hasattr(module, "lora_A") and len(module.lora_A)]
    backbone.steps = Steps() if once else None
    for one in adapted:
        if type(one) not in (Linear, FoldedLinear) or type(one.base_layer) is not nn.Linear or one.lora_variant:
            raise UserError(
                f"speed.fold_lora: the adapter of a {type(one.get_base_layer()).__name__} cannot be folded, only that of "
                "a plain linear layer. Set speed.fold_lora: false."
            )
        one.steps = backbone.steps
        one.__class__ = FoldedLinear  # same attributes, so saving, loading and merging work unchanged
    if backbone.steps is not None:
        backbone.steps.groups = _groups(adapted, backbone.steps)
    return len(adapted)


def unfold_adapters(backbone: Backbone) -> None:
    """Undo `fold_adapters`: who trains the adapter further may know nothing of `Backbone.begin_step`."""
    backbone.steps = None
    folded: list[Any] = [module for module in backbone.model.modules() if type(module) is FoldedLinear]
    for module in folded:
        module.__class__ = Linear
        for name in ("steps", "group", "folded"):
            module.__dict__.pop(name, None)


def _groups(layers: Sequence[Any], steps: Steps) -> list[_Group]:
    """Group the layers with small weights by shape, dtype, rank and scale, and assign each its group."""
    alike = defaultdict(list)
    for layer in layers:
        [name] = layer.active_adapters
        weight = layer.base_layer.weight
        if weight.numel() <= SMALL:
            alike[weight.shape, weight.dtype, layer.r[name], layer.scaling[name]].append(layer)
    groups = [_Group(found, steps) for found in alike.values()]
    for group in groups:
        for layer in group.layers:
            layer.group = group
    return groups
