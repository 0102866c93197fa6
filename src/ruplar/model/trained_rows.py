"""Hidden states → logits of an LM head of which only a few rows are trained, those of added tokens.

    PEFT    copies the trained rows into W, then computes the gradient of all of W
    here    logits = h W'ᵀ,  ∂h = g W',  ∂rows = g[:, rows]ᵀ h     W' is W with these rows, padded to a multiple of 64 rows

Added tokens leave a vocabulary that is no multiple of 8, for which matrix products are several times slower. The padding columns have
logits of −30,000, so no probability. Axes: N positions, V vocabulary, V' padded vocabulary, R trained rows, D width.
"""

from typing import Any, cast

import torch
import torch.nn.functional as F
from peft.utils.other import TrainableTokensWrapper
from torch import Tensor, nn

_MULTIPLE = 64
_NEVER = -30_000.0


def trained_rows(head: Any) -> Any:
    """Return the part of PEFT that trains rows of this head; None if the head is of another kind or its adapter is off."""
    if not isinstance(head, TrainableTokensWrapper):
        return None
    found = cast(Any, head.token_adapter)
    plain = type(found.base_layer) is nn.Linear and found.base_layer.bias is None
    on = not found.disable_adapters and not found.merged and len(found.active_adapters) == 1
    return found if plain and on else None


def padded_logits(rows: Any, hidden: Tensor) -> Tensor:
    """[..., D] → logits [..., V'], with gradients of the hidden states and the trained rows only."""
    [name] = rows.active_adapters
    at = torch.as_tensor(rows.token_indices[name], device=hidden.device)
    weight, trained = rows.base_layer.weight.detach(), rows.trainable_tokens_delta[name]
    logits = cast(Tensor, _Multiply.apply(hidden.flatten(0, -2), weight, trained, at))
    return logits.unflatten(0, hidden.shape[:-1])


class _Multiply(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, weight, trained, at):
        """Hidden states [N, D], W [V, D], its trained rows [R, D] and their places [R] → logits [N, V']."""
        size = len(weight)
        filled = F.pad(weight, (0, 0, 0, -size % _MULTIPLE)).index_copy_(0, at, trained.to(weight.dtype))
        never = filled.new_zeros(len(filled))
        never[size:] = _NEVER
        ctx.save_for_backward(hidden, filled, at)
        ctx.dtype = trained.dtype
        return F.linear(hidden, filled, never)

    @staticmethod
    def backward(ctx, *gradients):
        """Gradient of the logits [N, V'] → those of the hidden states and the trained rows."""
        hidden, filled, at = ctx.saved_tensors
        gradient = gradients[0].to(filled.dtype)  # autocast may have computed the logits in half precision
        return gradient @ filled, None, (gradient[:, at].t() @ hidden).to(ctx.dtype), None
