"""Batch → hidden states in flat form: one parallel pass with soft tokens in the latents' places.

    ids        [ .. question <think>  ·    ·   </think> 1 8 eos pad ]
    embeddings [ .. E[id]    E[id]   z_1  z_2   E[id]   .. ]         z = expected embedding under the prior, or given

Axes: B rows, S positions, D width, M latents.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ruplar.model.backbone import Backbone
from ruplar.model.soft_tokens import mix
from ruplar.types import Batch


def embed(backbone: Backbone, batch: Batch, soft: Tensor | None = None) -> Tensor:
    """[B, S, D] input embeddings, each latent's place taken by the soft token of its prior, or by its row of `soft`."""
    embeds = backbone.embedding(batch.ids)
    if len(batch.latent_at):
        soft = mix(backbone.embedding, batch.prior_ids, batch.prior_probs) if soft is None else soft
        flat = embeds.reshape(-1, embeds.shape[-1]).index_copy(0, batch.latent_at, soft.to(embeds.dtype))
        embeds = flat.view_as(embeds)
    return embeds


def flat_hidden(
    backbone: Backbone, batch: Batch, layer: int = -1, embeds: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """[B*S, D] the head's own input, and the hidden states of `layer` (the same tensor when it is -1).

    `embeds` [B, S, D] is what each position reads; the batch's own embeddings, soft tokens included, when None.
    """
    last, layers = flat_states(backbone, batch, embeds, all_layers=layer != -1)
    return last, last if layer == -1 else layers[layer]


def flat_states(
    backbone: Backbone, batch: Batch, embeds: Tensor | None = None, all_layers: bool = False
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """[B*S, D] the head's own input, and every layer's hidden states in the same form, () unless asked for."""
    # rows are padded on the right and attention is causal, so padding needs no mask: nothing real looks at it
    mask = packed_mask(batch.mask) if batch.packed else None
    embeds = embed(backbone, batch) if embeds is None else embeds
    last, layers = backbone.trunk(embeds, mask, batch.positions, all_layers=all_layers)
    width = last.shape[-1]
    return last.reshape(-1, width), tuple(layer.reshape(-1, width) for layer in layers)


def flat_layers(backbone: Backbone, batch: Batch, places: Tensor) -> tuple[Tensor, Tensor]:
    """[B*S, D] the head's own input, and every layer's hidden states [layers, X, D] at flat positions [X]."""
    last, layers = flat_states(backbone, batch, all_layers=True)
    return last, torch.stack([layer[places] for layer in layers])


def packed_mask(sequence: Tensor) -> Tensor:
    """Which sequence stands at each position [B, S] → who may look at whom [B, 1, S, S]: its own past, nothing else."""
    size = sequence.shape[1]
    causal = torch.ones(size, size, dtype=torch.bool, device=sequence.device).tril()
    return ((sequence[:, :, None] == sequence[:, None, :]) & causal)[:, None]
