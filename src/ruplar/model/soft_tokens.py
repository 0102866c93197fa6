"""Distribution → soft token: the expected embedding under a distribution over the vocabulary; and back to tokens.

For weights p over embedding rows W, the soft token is sum_v p[v] * W[v]. Priors are sparse, so we gather K rows instead
of multiplying by all V.  Axes: B questions, M latents, K tokens of a prior, V vocabulary, D width.
"""

from typing import Any

import torch
from torch import Tensor, nn

from ruplar.types import Latent


def mix(embedding: nn.Module, ids: Tensor, weights: Tensor) -> Tensor:
    """Expected embedding: ids and weights [..., K] → [..., D], summed in float32, returned in the embedding's dtype."""
    rows = embedding(ids)
    return torch.einsum("...kd,...k->...d", rows.float(), weights.float()).to(rows.dtype)


def mix_all(embedding: nn.Module, weights: Tensor) -> Tensor:
    """Expected embedding over the whole vocabulary: weights [B, V] → [B, D] (the published feed)."""
    rows = embedding(torch.arange(weights.shape[-1], device=weights.device))
    return (weights.float() @ rows.float()).to(rows.dtype)


def readable(logits: Tensor, tokenizer: Any, end_think_id: int, top: int = 10) -> list[Latent]:
    """Logits of latents [M, V] → their readable form: top tokens, entropy, P(halt)."""
    log_probs = logits.float().log_softmax(-1)
    probs = log_probs.exp()
    entropy = -(probs * log_probs).nan_to_num(0.0).sum(-1)
    weights, ids = probs.topk(min(top, probs.shape[-1]), dim=-1)
    columns = (ids.tolist(), weights.tolist(), entropy.tolist(), probs[:, end_think_id].tolist())
    words = {i: tokenizer.decode([i]) for i in ids.unique().tolist()}  # many latents favour the same few tokens
    return [
        Latent(tokens=tuple(words[i] for i in some), probs=tuple(each), entropy=nats, halt=halt)
        for some, each, nats, halt in zip(*columns, strict=True)
    ]
