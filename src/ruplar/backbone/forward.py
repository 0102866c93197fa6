"""Batch → hidden states in flat form: one parallel pass with soft tokens in the latents' places.

    ids        [ .. question <think>  ·    ·   </think> 1 8 eos pad ]
    embeddings [ .. E[id]    E[id]   z_1  z_2   E[id]   .. ]         z = expected embedding under the prior

Axes: B rows, S positions, D width, M latents.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ruplar.backbone.load import Backbone
from ruplar.backbone.soft_tokens import mix
from ruplar.records import Batch


def embed(backbone: Backbone, batch: Batch) -> Tensor:
    """[B, S, D] input embeddings, each latent's place taken by the soft token of its prior."""
    embeds = backbone.embedding(batch.ids)
    if len(batch.latent_at):
        soft = mix(backbone.embedding, batch.prior_ids, batch.prior_probs).to(embeds.dtype)
        flat = embeds.reshape(-1, embeds.shape[-1]).index_copy(0, batch.latent_at, soft)
        embeds = flat.view_as(embeds)
    return embeds


def flat_hidden(backbone: Backbone, batch: Batch, layer: int = -1) -> tuple[Tensor, Tensor]:
    """[B*S, D] the head's own input, and the hidden states of `layer` (the same tensor when it is -1)."""
    # rows are padded on the right and attention is causal, so padding needs no mask: nothing real looks at it
    mask = packed_mask(batch.mask) if batch.packed else None
    last, layers = backbone.trunk(embed(backbone, batch), mask, batch.positions, all_layers=layer != -1)
    last = last.reshape(-1, last.shape[-1])
    return last, last if layer == -1 else layers[layer].reshape(-1, last.shape[-1])


def packed_mask(sequence: Tensor) -> Tensor:
    """Which sequence stands at each position [B, S] → who may look at whom [B, 1, S, S]: its own past, nothing else."""
    size = sequence.shape[1]
    causal = torch.ones(size, size, dtype=torch.bool, device=sequence.device).tril()
    return ((sequence[:, :, None] == sequence[:, None, :]) & causal)[:, None]
