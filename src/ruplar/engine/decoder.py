"""Embeddings → hidden states for the Llama family, on a static cache with one slot a question.

Every slot's keys start at column 0, so refilling a slot is overwriting it, and which columns a row may read follows
from its position alone. Nothing is allocated while decoding but what the operators return.

    cache   [layer, 2, slot, kv head, column, d]
    prefill  rows of any slots, flush left, padded right: padding is read by nobody, since attention is causal
    step     slots 0 .. B-1 at once, each at its own position; idle ones among them compute and are ignored

Axes: B rows, P prompts, L padded prompt length, C columns read, D width, V vocabulary, H/G query/key heads, d head width.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from ruplar.engine.fused import Layer, Weights, covers, read_weights
from ruplar.model.backbone import Backbone

log = logging.getLogger(__name__)

At = slice | Tensor
"""Which slots: a slice from 0, read in place, or indices [P]."""


class SlotDecoder(Protocol):
    """What the engine needs of a model; `Decoder` and `hf_decoder.HFDecoder` give it."""

    slots: int
    columns: int

    @property
    def device(self) -> torch.device:
        """Where the weights are."""

    def allocate(self, slots: int, columns: int) -> None:
        """Make room for that many questions of that many positions; forgets all."""

    def embed(self, ids: Tensor) -> Tensor:
        """Ids [...] → what they read [..., D]."""

    def mixture(self, weights: Tensor) -> Tensor:
        """Weights over the whole vocabulary [B, V] → expected embedding [B, D]."""

    def logits(self, hidden: Tensor) -> Tensor:
        """Hidden [B, D] → float32 logits [B, V]."""

    def prefill(self, embeds: Tensor, lengths: Tensor, at: At) -> Tensor:
        """Embeddings [P, L, D], real lengths [P] and slots → hidden of each prompt's last position [P, D].

        `Decoder` gives the last W positions' [P, W, D] where W is given too, and has a `block`.
        """

    def copy(self, source: Tensor, target: Tensor, columns: int) -> None:
        """Give slots `target` [P] the first columns of slots `source` [P]; a slot may be given its own."""

    def step(self, embeds: Tensor, positions: Tensor, used: int) -> Tensor:
        """Feed slots 0..B-1 one embedding [B, D] at positions [B]; only columns below `used` are read → hidden [B, D]."""


@dataclass
class Decoder:
    """The Llama family in plain matrices; see the module's docstring."""

    weights: Weights
    slots: int = 0
    columns: int = 0
    cache: Tensor = field(init=False, repr=False)
    cos: Tensor = field(init=False, repr=False)  # [columns, d]
    sin: Tensor = field(init=False, repr=False)  # [columns, d], the first half negated
    every: Tensor = field(init=False, repr=False)  # [slots]
    arange: Tensor = field(init=False, repr=False)  # [columns]
    # kernels for a handful of rows, and for what lies between matrix products of many; see `few_rows`
    few_rows: Any = field(init=False, default=None, repr=False)
    between: Any = field(init=False, default=None, repr=False)

    @classmethod
    def of(cls, backbone: Backbone, release: bool = False) -> Decoder | None:
        """The decoder of a backbone, or None where its architecture is not covered or does not compute alike.

        Args:
            backbone: The model; on the device it will run on.
            release: Keep one copy of the weights; see `fused.read_weights`.
        """
        if not covers(backbone):
            return None
        decoder = cls(read_weights(backbone, release))
        difference = probe(decoder, backbone)
        if difference > tolerance(decoder.weights.table.dtype):
            log.warning(
                "%s has a Llama's structure but computes otherwise (difference %.2g); its own forward is used.",
                type(backbone.plain_model).__name__, difference,
            )  # fmt: skip
            return None
        return decoder

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.weights.table.device

    @torch.inference_mode()
    def allocate(self, slots: int, columns: int) -> None:
        """See `SlotDecoder`."""
        w = self.weights
        self.slots, self.columns = slots, columns
        self.cache = w.table.new_zeros((len(w.layers), 2, slots, w.kv_heads, columns, w.head_dim))
        self.arange = torch.arange(columns, device=self.device)
        cos, sin = w.rotary(w.table[:1, None], self.arange[None])
        # turned(x) = x·cos + rolled(x)·sin, with rolled = (second half, first half) and the first half of sin negated
        signs = torch.ones(w.head_dim, dtype=sin.dtype, device=self.device)
        signs[: w.head_dim // 2] = -1
        self.cos, self.sin = cos[0].contiguous(), sin[0] * signs
        self.every = torch.arange(slots, device=self.device)

    def embed(self, ids: Tensor) -> Tensor:
        """See `SlotDecoder`."""
        return F.embedding(ids, self.weights.table)

    def mixture(self, weights: Tensor) -> Tensor:
        """See `SlotDecoder`; in float32, a piece of the vocabulary at a time, since a whole float copy is gigabytes."""
        table = self.weights.table
        if table.dtype == torch.float32:
            return weights.float() @ table
        total = weights.new_zeros((len(weights), table.shape[1]), dtype=torch.float32)
        for piece, rows in zip(weights.float().split(8192, 1), table.split(8192), strict=True):
            total += piece @ rows.float()
        return total.to(table.dtype)

    def logits(self, hidden: Tensor) -> Tensor:
        """See `SlotDecoder`."""
        if self.few_rows is not None and len(hidden) <= self.few_rows.most:
            return self.few_rows.logits(hidden)
        return self.weights.head(hidden).float()

    def prefill(self, embeds: Tensor, lengths: Tensor, at: At, wide: int | None = None) -> Tensor:
        """See `SlotDecoder`."""
        w, x, width = self.weights, embeds, embeds.shape[1]
        slots = self.every[at] if self.between is not None else None
        for index, layer in enumerate(w.layers[:-1]):
            q, kv = self._prompt_qkv(index, layer, x, at, slots)
            k, v = kv.permute(2, 0, 3, 1, 4)
            read = _causal(q.transpose(1, 2), k, v)
            x = self._finish(layer, x, read.transpose(1, 2).flatten(2))
        # of the last layer every key and value is read later, but only the last positions' output
        q, kv = self._prompt_qkv(len(w.layers) - 1, w.layers[-1], x, at, slots)
        rows, last = torch.arange(len(x), device=x.device), lengths - 1
        k, v = kv.permute(2, 0, 3, 1, 4)
        if wide is not None:
            rows, last = rows[:, None], last[:, None] + (self.arange[:wide] - wide + 1)
        read = _grouped(q[rows, last], k, v, self._mask(last, width, x.dtype))
        return self._norm(self._finish(w.layers[-1], x[rows, last], read), w.norm)

    def copy(self, source: Tensor, target: Tensor, columns: int) -> None:
        """See `SlotDecoder`."""
        for layer in self.cache:  # one at a time: what is copied exists twice for a moment
            layer[:, target, :, :columns] = layer[:, source, :, :columns]

    def step(self, embeds: Tensor, positions: Tensor, used: int) -> Tensor:
        """See `SlotDecoder`."""
        if self.few_rows is not None and len(embeds) <= self.few_rows.most:
            return self.few_rows.step(embeds, positions)
        x, rows, w = embeds, len(embeds), self.weights
        mask = self._mask(positions, used, x.dtype)
        for index, layer in enumerate(w.layers):
            cache = self.cache[index, :, :rows]
            if self.between is not None:
                whole = layer.qkv(self._norm(x, layer.norm_in)).unflatten(-1, (-1, w.head_dim))
                self.between.turn(index, whole, self.every[:rows], positions)
                q = whole[..., : w.heads, :]
            else:
                q, kv = self._qkv(layer, x, self.cos[positions, None], self.sin[positions, None])
                cache[:, self.every[:rows], :, positions] = kv
            k, v = cache[:, :, :, :used]
            x = self._finish(layer, x, _grouped(q, k, v, mask))
        return self._norm(x, w.norm)

    def block(self, embeds: Tensor, positions: Tensor, used: int) -> Tensor:
        """Feed slots 0..B-1 several embeddings each [B, C, D] from positions [B] on, the later ones reading the earlier."""
        x, (rows, wide), w = embeds, embeds.shape[:2], self.weights
        columns = positions[:, None] + self.arange[:wide]  # [B, C]
        slots = self.every[:rows, None].expand(-1, wide)
        mask = self._mask(columns, used, x.dtype)
        for index, layer in enumerate(w.layers):
            cache = self.cache[index, :, :rows]
            if self.between is not None:
                whole = layer.qkv(self._norm(x, layer.norm_in)).unflatten(-1, (-1, w.head_dim))
                self.between.turn(index, whole.flatten(0, 1), slots.flatten(), columns.flatten())
                q = whole[..., : w.heads, :]
            else:
                q, kv = self._qkv(layer, x, self.cos[columns, None], self.sin[columns, None])
                cache[:, slots, :, columns] = kv
            k, v = cache[:, :, :, :used]
            x = self._finish(layer, x, _grouped(q, k, v, mask))
        return self._norm(x, w.norm)

    def _prompt_qkv(self, index: int, layer: Layer, x: Tensor, at: At, slots: Tensor | None) -> tuple[Tensor, Tensor]:
        """Whole prompts [P, L, D] → as `_qkv`, with keys and values stored in their slots too."""
        w, width = self.weights, x.shape[1]
        if self.between is None:
            q, kv = self._qkv(layer, x, self.cos[:width, None], self.sin[:width, None])
            self._store(index, kv, at)
            return q, kv
        whole = layer.qkv(self._norm(x, layer.norm_in)).unflatten(-1, (-1, w.head_dim))
        self.between.turn(index, whole, slots)
        return whole[..., : w.heads, :], whole[..., w.heads :, :].unflatten(-2, (2, w.kv_heads))

    def _qkv(self, layer: Layer, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        """[..., D] → rotated q [..., H, d]; rotated keys and plain values together [..., 2, G, d]."""
        w = self.weights
        whole = layer.qkv(self._norm(x, layer.norm_in)).unflatten(-1, (-1, w.head_dim))
        turned = whole[..., : w.heads + w.kv_heads, :]  # q and k lie side by side and turn together, in place
        if layer.norm_q is not None and layer.norm_k is not None:
            q, k = turned.split([w.heads, w.kv_heads], dim=-2)
            turned.copy_(torch.cat([self._norm(q, layer.norm_q), self._norm(k, layer.norm_k)], dim=-2))
        turned.copy_(torch.addcmul(turned * cos, turned.roll(w.head_dim // 2, -1), sin))
        return whole[..., : w.heads, :], whole[..., w.heads :, :].unflatten(-2, (2, w.kv_heads))

    def _finish(self, layer: Layer, x: Tensor, read: Tensor) -> Tensor:
        """What attention read [..., H·d], projected and added; then the gated block."""
        x = x + layer.out(read)
        both = layer.gate_up(self._norm(x, layer.norm_mid))
        if self.between is not None:
            return x + layer.down(self.between.gate(both))
        gate, up = both.chunk(2, dim=-1)
        return x + layer.down(F.silu(gate).mul_(up))

    def _store(self, index: int, kv: Tensor, at: At) -> None:
        """Keys and values [P, L, 2, G, d] of whole prompts into their slots, from column 0."""
        width = kv.shape[1]
        self.cache[index, :, at, :, :width] = kv.permute(2, 0, 3, 1, 4)

    def _norm(self, x: Tensor, scale: Tensor) -> Tensor:
        if x.is_cuda:
            return F.rms_norm(x, (x.shape[-1],), scale, self.weights.eps)
        power = x.float().square().mean(-1, keepdim=True)  # on a CPU rms_norm is twice as many operators
        return (x * power.add_(self.weights.eps).rsqrt_().to(x.dtype)).mul_(scale)

    def _mask(self, positions: Tensor, used: int, dtype: torch.dtype) -> Tensor:
        """Positions [B] or [B, W] → [B, 1, 1 or W, C], 0 where a row at that position may read, -inf elsewhere."""
        hidden = self.arange[:used] > positions.reshape(len(positions), 1, -1, 1)
        return torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(hidden, -torch.inf)


def _causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """[P, H, L, d] over [P, G, L, d], each position over itself and those before it."""
    if q.shape[1] != k.shape[1] and not q.is_cuda:  # only CUDA's fused kernels take grouped heads as they are
        k, v = (t.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for t in (k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])


def _grouped(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """One query a row [B, H, d], or W of them [B, W, H, d], over [B, G, C, d] → [B, H·d] or [B, W, H·d].

    Queries that share a key head stand in as its positions.
    """
    kv_heads = k.shape[1]
    if q.dim() == 3:
        return F.scaled_dot_product_attention(q.unflatten(1, (kv_heads, -1)), k, v, attn_mask=mask).flatten(1)
    shared = q.shape[2] // kv_heads
    each = q.unflatten(2, (kv_heads, shared)).permute(0, 2, 3, 1, 4).flatten(2, 3)  # [B, G, H/G · W, d]
    read = F.scaled_dot_product_attention(each, k, v, attn_mask=mask.repeat(1, 1, shared, 1))
    return read.unflatten(2, (shared, -1)).permute(0, 3, 1, 2, 4).flatten(2)


def tolerance(dtype: torch.dtype) -> float:
    """Largest relative difference that rounding explains in this precision."""
    return 1e-4 if dtype in (torch.float32, torch.float64) else 5e-2


@torch.inference_mode()
def probe(decoder: SlotDecoder, backbone: Backbone) -> float:
    """Relative difference of two prompts' logits, prefilled and stepped on, from the model's own; leaves no cache."""
    from transformers import DynamicCache

    from ruplar.engine.reference import left_pad

    backbone.model.eval()
    count = backbone.embedding_weight.shape[0]
    prompts = [[(7 + 13 * i * i + 5 * i) % count for i in range(n)] for n in (9, 4)]
    extra = torch.tensor([[3, 1, 2, 6], [5, 8, 1, 4]], device=decoder.device) % count
    ids, mask = left_pad(prompts, 0, decoder.device)
    cache = DynamicCache(config=backbone.plain_model.config)
    positions = (mask.cumsum(1) - 1).clamp_min(0)
    theirs = [backbone.trunk(backbone.embedding(ids), mask, positions, cache)[0][:, -1]]
    decoder.allocate(3, 16)
    right = torch.stack([row.roll(-int((mask[i] == 0).sum())) for i, row in enumerate(ids)])
    lengths, at = mask.sum(1), torch.tensor([1, 0], device=decoder.device)  # into swapped slots
    ours = [decoder.prefill(decoder.embed(right), lengths, at)]
    for step, column in enumerate(extra.T):
        mask = torch.cat([mask, torch.ones_like(mask[:, :1])], dim=1)
        fed = backbone.embedding(column)
        theirs.append(backbone.trunk(fed[:, None], mask, (lengths + step)[:, None], cache)[0][:, -1])
        ours.append(decoder.step(decoder.embed(column[at]), (lengths + step)[at], int(lengths.max()) + step + 1)[at])
    wanted = backbone.logits(torch.cat(theirs))
    found = decoder.logits(torch.cat(ours))
    return float((found - wanted).norm() / wanted.norm())
