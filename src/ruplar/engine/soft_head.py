"""Logits → a soft token and the halt, on the fast engine's own embeddings; what `thinker.SoftThinker` does in the plain loop."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ruplar.engine.decoder import SlotDecoder
from ruplar.engine.thinker import SoftThinker, Thought
from ruplar.model.soft_tokens import mix


def soft_thought(thinker: SoftThinker, decoder: SlotDecoder, logits: Tensor, made_from: Tensor) -> Thought:
    """`SoftThinker.next` without a tensor made on the host, so that a CUDA graph can hold it.

    Args:
        thinker: The settings.
        decoder: Gives embeddings.
        logits: [B, V] what the model said; decides the halt.
        made_from: [B, V] what the mixture is made from: the same tensor, or noised.
    """
    probs = logits.softmax(-1)
    if thinker.halt == "argmax":
        over = logits.argmax(-1) == thinker.end_think_id
    else:
        over = probs[:, thinker.end_think_id] > thinker.halt_threshold
    if made_from is not logits:
        probs = made_from.softmax(-1)
    if thinker.drop_halt:
        probs[:, thinker.end_think_id].zero_()
    if not (thinker.harden or thinker.top_k):
        return Thought(over, decoder.mixture(_normalised(probs)), logits=made_from)
    weights, ids = probs.topk(1 if thinker.harden else min(thinker.top_k, probs.shape[-1]), dim=-1)
    embed: Any = decoder.embed
    return Thought(over, mix(embed, ids, _normalised(weights)), logits=made_from)


def _normalised(weights: Tensor) -> Tensor:
    return weights / weights.sum(-1, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny)
