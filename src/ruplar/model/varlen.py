"""Packed training rows → attention within each sequence, without a mask and without padding rows to one width.

    [ a a a a | b b b | pad ]  [ c c c c c c | pad ]   –flatten→   a a a a b b b pad c c c c c c pad
                                                      segments     0       4     7   8           14  15

The segments go to PyTorch's variable-length flash attention as an attention implementation of transformers, so every model
that accepts those can use it. Passes without segments (decoding, companions) run the attention the model had before.
"""

import importlib.util
import inspect
from functools import cache
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

NAME = "ruplar_varlen"


def use_varlen(model: Any, dtype: torch.dtype) -> bool:
    """Switch a causal LM to variable-length attention if it, PyTorch and the computation's dtype support it."""
    known = importlib.util.find_spec("torch.nn.attention.varlen") is not None
    half = dtype in (torch.bfloat16, torch.float16)
    if not (known and half and getattr(model, "_supports_attention_backend", False)):
        return False
    AttentionInterface.register(NAME, varlen_attention)
    AttentionMaskInterface.register(NAME, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
    model.set_attn_implementation(NAME)
    return True


def segment_arguments(segments: Tensor, longest: int) -> dict[str, Any]:
    """Return the arguments that carry segments to every attention layer, by the names of transformers.

    `segments` [sequences + 1] int32 are the start of each sequence and the end of the last; `longest` is at least the
    length of the longest sequence.
    """
    return {"cu_seq_lens_q": segments, "cu_seq_lens_k": segments, "max_length_q": longest, "max_length_k": longest}


def varlen_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    cu_seq_lens_q: Tensor | None = None,
    max_length_q: int | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """Query [1, H, T, D], key and value [1, G, T, D] → [1, T, H, D], causal within each segment."""
    if cu_seq_lens_q is None:
        return ALL_ATTENTION_FUNCTIONS["sdpa"](
            module, query, key, value, attention_mask, scaling=scaling, max_length_q=max_length_q, **others
        )
    assert max_length_q is not None
    # float32 weights under autocast: rotation leaves query and key in float32, which the kernel refuses
    query, key = query.to(value.dtype), key.to(value.dtype)
    groups = query.shape[1] // key.shape[1]
    if query.device.type != "cuda":
        within = _within(cu_seq_lens_q, query.shape[2])
        out = F.scaled_dot_product_attention(query, key, value, within, scale=scaling, enable_gqa=groups > 1)
        return out.transpose(1, 2), None
    from torch.nn.attention.varlen import varlen_attn

    options = _options()
    if groups > 1 and "enable_gqa" not in options:
        key, value = (one.repeat_interleave(groups, dim=1) for one in (key, value))
    flat = [one[0].transpose(0, 1).contiguous() for one in (query, key, value)]
    bounds: Any = (cu_seq_lens_q, cu_seq_lens_q, max_length_q, max_length_q)
    out = cast(Tensor, varlen_attn(flat[0], flat[1], flat[2], *bounds, scale=scaling, **options))
    return out[None], None


@cache
def _options() -> dict[str, Any]:
    """Return the arguments that select causal and grouped-query attention in this version of PyTorch."""
    from torch.nn.attention.varlen import varlen_attn

    known = inspect.signature(varlen_attn).parameters
    causal: dict[str, Any] = {"is_causal": True} if "is_causal" in known else {"window_size": (-1, 0)}
    return {**causal, "enable_gqa": True} if "enable_gqa" in known else causal


def _within(segments: Tensor, size: int) -> Tensor:
    """Segment starts → [T, T] mask: the past of the same segment. For devices without the kernel, as in tests."""
    number = torch.bucketize(torch.arange(size, device=segments.device), segments[1:], right=True)
    return (number[:, None] == number) & torch.ones(size, size, dtype=torch.bool, device=segments.device).tril()
