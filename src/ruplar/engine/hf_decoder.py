"""Embeddings → hidden states through a model's own forward, for architectures `decoder.Decoder` does not support.

The model gets our cache instead of its own: it stores a layer's keys and values in slots and columns, and returns the
columns in use. The masks are made here, so the model makes none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ruplar.engine.decoder import At, log, probe, tolerance
from ruplar.model.backbone import Backbone
from ruplar.model.soft_tokens import mix_all


@dataclass
class SlotCache:
    """The part of the Hugging Face cache interface that attention layers use, on static slots."""

    slots: int
    columns: int
    layers: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    at: At = field(default_factory=lambda: slice(0, 0))
    positions: Tensor | None = None  # [B] column of each row's new key; None in a prefill
    used: int = 0
    is_compileable = False

    def update(self, keys: Tensor, values: Tensor, layer_idx: int, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Store keys and values [B, heads, S, d] of one layer → all that may be read [B, heads, C, d]."""
        if layer_idx == len(self.layers):
            self.layers.append((self._allocate(keys), self._allocate(values)))
        if self.positions is None:
            for buffer, given in zip(self.layers[layer_idx], (keys, values), strict=True):
                buffer[:, :, : given.shape[2]][self.at] = given
            return keys, values
        rows = torch.arange(len(keys), device=keys.device)
        for buffer, given in zip(self.layers[layer_idx], (keys, values), strict=True):
            buffer[rows, :, self.positions] = given[:, :, 0]
        past_keys, past_values = self.layers[layer_idx]
        return past_keys[: len(keys), :, : self.used], past_values[: len(keys), :, : self.used]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Required by the model; without effect, since positions and masks are given."""
        return self.used

    def _allocate(self, like: Tensor) -> Tensor:
        return like.new_zeros((self.slots, like.shape[1], self.columns, like.shape[3]))


@dataclass
class HFDecoder:
    """Any causal LM that reads its keys and values through the cache object; the same methods as `Decoder`."""

    backbone: Backbone
    slots: int = 0
    columns: int = 0
    cache: SlotCache = field(init=False, repr=False)

    @classmethod
    def of(cls, backbone: Backbone) -> HFDecoder | None:
        """Make the decoder of a backbone; None if the model does not use the cache this way."""
        decoder = cls(backbone)
        try:
            difference = probe(decoder, backbone)
        except Exception as error:  # whatever an architecture does with a cache that is not its own
            log.info("%s does not support slots: %r", type(backbone.plain_model).__name__, error)
            return None
        return decoder if difference <= tolerance(backbone.embedding_weight.dtype) else None

    @property
    def device(self) -> torch.device:
        return self.backbone.device

    def allocate(self, slots: int, columns: int) -> None:
        self.slots, self.columns = slots, columns
        self.cache = SlotCache(slots, columns)

    def embed(self, ids: Tensor) -> Tensor:
        return self.backbone.embedding(ids)

    def mixture(self, weights: Tensor) -> Tensor:
        return mix_all(self.backbone.embedding, weights)

    def logits(self, hidden: Tensor) -> Tensor:
        return self.backbone.logits(hidden)

    def prefill(self, embeds: Tensor, lengths: Tensor, at: At) -> Tensor:
        width = embeds.shape[1]
        positions = torch.arange(width, device=embeds.device)
        self.cache.at, self.cache.positions, self.cache.used = at, None, 0
        mask = _additive(positions[None, :] <= positions[:, None], embeds.dtype)
        mask = mask.expand(len(embeds), 1, width, width)
        hidden, _ = self.backbone.trunk(embeds, mask, positions.expand(len(embeds), width), self.cache)
        return hidden[torch.arange(len(embeds), device=embeds.device), lengths - 1]

    def copy(self, source: Tensor, target: Tensor, columns: int) -> None:
        for buffer in (buffer for layer in self.cache.layers for buffer in layer):
            buffer[target, :, :columns] = buffer[source, :, :columns]

    def step(self, embeds: Tensor, positions: Tensor, used: int) -> Tensor:
        self.cache.positions, self.cache.used = positions, used
        mask = _additive(torch.arange(used, device=embeds.device) <= positions[:, None], embeds.dtype)[:, :, None]
        hidden, _ = self.backbone.trunk(embeds[:, None], mask.transpose(0, 1), positions[:, None], self.cache)
        return hidden[:, 0]


def _additive(allowed: Tensor, dtype: torch.dtype) -> Tensor:
    """Boolean mask [.., C] → additive mask [1, .., C]: 0 where true, the lowest number elsewhere."""
    lowest = torch.finfo(dtype).min
    return torch.zeros(allowed.shape, dtype=dtype, device=allowed.device).masked_fill(~allowed, lowest)[None]
