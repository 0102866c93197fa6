"""Batch → hidden states in flat form: one parallel pass with soft tokens at the latent positions.

    ids        [ .. question <think>  ·    ·   </think> 1 8 eos pad ]
    embeddings [ .. E[id]    E[id]   z_1  z_2   E[id]   .. ]         z = expected embedding under the prior, or given

Axes: B rows, S positions, D width, M latents.
"""

import torch
from torch import Tensor

from ruplar.model.backbone import Backbone
from ruplar.model.soft_tokens import mix
from ruplar.model.varlen import segment_arguments
from ruplar.types import Batch


def embed(backbone: Backbone, batch: Batch, soft: Tensor | None = None) -> Tensor:
    """Return input embeddings [B, S, D], with the soft token of its prior, or its row of `soft`, at each latent."""
    embeds = backbone.embedding(batch.ids)
    if len(batch.latent_at):
        soft = mix(backbone.embedding, batch.prior_ids, batch.prior_probs) if soft is None else soft
        flat = embeds.reshape(-1, embeds.shape[-1]).index_copy(0, batch.latent_at, soft.to(embeds.dtype))
        embeds = flat.view_as(embeds)
    return embeds


def flat_hidden(backbone: Backbone, batch: Batch, embeds: Tensor | None = None) -> Tensor:
    """Return the input of the head [B*S, D]; `embeds` [B, S, D] replace the batch's own embeddings, soft tokens included."""
    return _flat_states(backbone, batch, embeds)[0]


def _flat_states(
    backbone: Backbone, batch: Batch, embeds: Tensor | None = None, all_layers: bool = False
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Return the input of the head [B*S, D], and every layer's hidden states in the same form, () unless requested."""
    embeds = embed(backbone, batch) if embeds is None else embeds
    if batch.packed and backbone.varlen:  # all rows one after the other in a single row
        flat, positions = embeds.reshape(1, -1, embeds.shape[-1]), batch.positions.reshape(1, -1)
        no_mask = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=embeds.device)  # 4D: transformers builds none
        segments = segment_arguments(batch.segments, batch.ids.shape[1])
        last, layers = backbone.trunk(flat, no_mask, positions, all_layers=all_layers, **segments)
    else:
        # rows are padded on the right and attention is causal, so real tokens never attend to padding: no mask needed
        mask = packed_mask(batch.mask) if batch.packed else None
        last, layers = backbone.trunk(embeds, mask, batch.positions, all_layers=all_layers)
    width = last.shape[-1]
    return last.reshape(-1, width), tuple(layer.reshape(-1, width) for layer in layers)


def flat_layers(backbone: Backbone, batch: Batch, places: Tensor) -> tuple[Tensor, Tensor]:
    """Return the input of the head [B*S, D], and every layer's hidden states [layers, X, D] at flat positions [X]."""
    last, layers = _flat_states(backbone, batch, all_layers=True)
    return last, torch.stack([layer[places] for layer in layers])


def packed_mask(sequence: Tensor) -> Tensor:
    """Sequence number at each position [B, S] → attention mask [B, 1, S, S]: the past of the same sequence."""
    size = sequence.shape[1]
    causal = torch.ones(size, size, dtype=torch.bool, device=sequence.device).tril()
    return ((sequence[:, :, None] == sequence[:, None, :]) & causal)[:, None]
