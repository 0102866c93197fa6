"""Embeddings → hidden states for the Llama family, on a static KV cache with one slot per question.

Every slot's keys start at column 0, so a new question overwrites the old one, and a row's position alone says which
columns it may read. Decoding allocates only what the operators return.

    cache   [layer, 2, slot, kv head, column, d]
    prefill  prompts into any slots, padded on the right: attention is causal, so nothing reads the padding
    step     one position per slot for slots 0 .. B-1, each at its own position; the output of idle slots is ignored

Axes: B rows, P prompts, L padded prompt length, C columns read, D width, V vocabulary, H/G query/key heads, d head width.
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from ruplar.engine.fused import Layer, Weights, covers, read_weights
from ruplar.engine.reference import left_pad
from ruplar.model.backbone import Backbone

log = logging.getLogger(__name__)

At = slice | Tensor
"""Which slots: a slice from 0 or indices [P]."""


class SlotDecoder(Protocol):
    """What the engine needs of a decoder; `Decoder` documents each method, `hf_decoder.HFDecoder` has the same."""

    columns: int

    @property
    def device(self) -> torch.device: ...
    def allocate(self, slots: int, columns: int) -> None: ...
    def embed(self, ids: Tensor) -> Tensor: ...
    def mixture(self, weights: Tensor) -> Tensor: ...
    def logits(self, hidden: Tensor) -> Tensor: ...
    def prefill(self, embeds: Tensor, lengths: Tensor, at: At) -> Tensor: ...
    def copy(self, source: Tensor, target: Tensor, columns: int) -> None: ...
    def step(self, embeds: Tensor, positions: Tensor, used: int) -> Tensor: ...


@dataclass
class Decoder:
    """The Llama family on fused matrices; see the module's docstring."""

    weights: Weights
    slots: int = 0
    columns: int = 0
    cache: Tensor = field(init=False, repr=False)
    cos: Tensor = field(init=False, repr=False)  # [columns, d]
    sin: Tensor = field(init=False, repr=False)  # [columns, d], the first half negated
    every: Tensor = field(init=False, repr=False)  # [slots]
    arange: Tensor = field(init=False, repr=False)  # [columns]
    small_batch: Any = field(init=False, default=None, repr=False)  # `small_batch.SmallBatchKernels`
    layer_kernels: Any = field(init=False, default=None, repr=False)  # `layer_kernels.LayerKernels`

    @classmethod
    def of(cls, backbone: Backbone, release: bool = False) -> Decoder | None:
        """Make the decoder of a backbone; None if its architecture is not supported or its outputs differ."""
        if not covers(backbone):
            return None
        decoder = cls(read_weights(backbone, release))
        decoder.weights.pack()
        difference = probe(decoder, backbone)
        if difference > tolerance(decoder.weights.table.dtype):
            log.warning(
                "%s has the structure of a Llama but its outputs differ (by %.2g); its own forward is used.",
                type(backbone.plain_model).__name__, difference,
            )  # fmt: skip
            return None
        return decoder

    @property
    def device(self) -> torch.device:
        return self.weights.table.device

    @torch.inference_mode()
    def allocate(self, slots: int, columns: int) -> None:
        """Allocate the cache for this many questions of this many positions; discards the old one."""
        w = self.weights
        self.slots, self.columns = slots, columns
        self.cache = w.table.new_zeros((len(w.layers), 2, slots, w.kv_heads, columns, w.head_dim))
        self.arange = torch.arange(columns, device=self.device)
        cos, sin = w.rotary(w.table[:1, None], self.arange[None])
        # RoPE(x) = x·cos + roll(x)·sin, with roll = (second half, first half) and the first half of sin negated
        signs = torch.ones(w.head_dim, dtype=sin.dtype, device=self.device)
        signs[: w.head_dim // 2] = -1
        self.cos, self.sin = cos[0].contiguous(), sin[0] * signs
        self.every = torch.arange(slots, device=self.device)

    def embed(self, ids: Tensor) -> Tensor:
        return F.embedding(ids, self.weights.table)

    def mixture(self, weights: Tensor) -> Tensor:
        """Weights [B, V] → expected embedding [B, D]; in pieces, since a float32 copy of the table would take gigabytes."""
        table = self.weights.table
        if table.dtype == torch.float32:
            return weights.float() @ table
        total = weights.new_zeros((len(weights), table.shape[1]), dtype=torch.float32)
        for piece, rows in zip(weights.float().split(8192, 1), table.split(8192), strict=True):
            total += piece @ rows.float()
        return total.to(table.dtype)

    def logits(self, hidden: Tensor) -> Tensor:
        return self.raw_logits(hidden).float().contiguous()

    def raw_logits(self, hidden: Tensor) -> Tensor:
        """As `logits`, but in the head's precision and with gaps between rows where the head is padded: no copy."""
        if self.small_batch is not None and len(hidden) <= self.small_batch.max_rows:
            return self.small_batch.logits(hidden)
        return self.weights.head(hidden)[:, : len(self.weights.table)]

    def prefill(self, embeds: Tensor, lengths: Tensor, at: At) -> Tensor:
        """Embeddings [P, L, D], which are overwritten, lengths [P], slots → hidden state of each last position [P, D]."""
        w, x, width = self.weights, embeds, embeds.shape[1]
        slots = self.every[at] if self.layer_kernels is not None else None
        for index, layer in enumerate(w.layers[:-1]):
            q, kv = self._prompt_qkv(index, layer, x, at, slots)
            k, v = kv.permute(2, 0, 3, 1, 4)
            read = _causal(q.transpose(1, 2), k, v)
            self._finish(layer, x, read.transpose(1, 2).flatten(2))
        # the last layer needs all keys and values, but only the output of the last position
        q, kv = self._prompt_qkv(len(w.layers) - 1, w.layers[-1], x, at, slots)
        rows, last = torch.arange(len(x), device=x.device), lengths - 1
        k, v = kv.permute(2, 0, 3, 1, 4)
        read = _grouped(q[rows, last], k, v, self._mask(last, width, x.dtype))
        x = x[rows, last]
        self._finish(w.layers[-1], x, read)
        return self._norm(x, w.norm)

    def copy(self, source: Tensor, target: Tensor, columns: int) -> None:
        """Copy the first columns of slots `source` [P] to slots `target` [P]; they may be the same."""
        for layer in self.cache:  # one at a time, since the copy needs temporary memory
            layer[:, target, :, :columns] = layer[:, source, :, :columns]

    def step(self, embeds: Tensor, positions: Tensor, used: int) -> Tensor:
        """Feed slots 0..B-1 one embedding [B, D] at positions [B], reading columns below `used` → hidden [B, D]."""
        if self.small_batch is not None and len(embeds) <= self.small_batch.max_rows:
            return self.small_batch.step(embeds, positions)
        x, rows, w = embeds.clone(), len(embeds), self.weights
        if self.layer_kernels is not None:  # each row reads the columns up to its position
            for index, layer in enumerate(w.layers):
                qkv = layer.qkv(self._norm(x, layer.norm_in))
                self._finish(layer, x, self.layer_kernels.attend(index, qkv, positions))
            return self._norm(x, w.norm)
        mask = self._mask(positions, used, x.dtype)
        for index, layer in enumerate(w.layers):
            cache = self.cache[index, :, :rows]
            q, kv = self._qkv(layer, x, self.cos[positions, None], self.sin[positions, None])
            cache[:, self.every[:rows], :, positions] = kv
            k, v = cache[:, :, :, :used]
            self._finish(layer, x, _grouped(q, k, v, mask))
        return self._norm(x, w.norm)

    def _prompt_qkv(self, index: int, layer: Layer, x: Tensor, at: At, slots: Tensor | None) -> tuple[Tensor, Tensor]:
        """Prompts [P, L, D] → as `_qkv`; also stores keys and values in the cache."""
        w, width = self.weights, x.shape[1]
        if self.layer_kernels is None:
            q, kv = self._qkv(layer, x, self.cos[:width, None], self.sin[:width, None])
            self._store(index, kv, at)
            return q, kv
        qkv = layer.qkv(self._norm(x, layer.norm_in)).unflatten(-1, (-1, w.head_dim))
        self.layer_kernels.rotate_and_store(index, qkv, slots)
        return qkv[..., : w.heads, :], qkv[..., w.heads :, :].unflatten(-2, (2, w.kv_heads))

    def _qkv(self, layer: Layer, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        """[..., D] → rotated queries [..., H, d]; rotated keys and values together [..., 2, G, d]."""
        w = self.weights
        qkv = layer.qkv(self._norm(x, layer.norm_in)).unflatten(-1, (-1, w.head_dim))
        rotated = qkv[..., : w.heads + w.kv_heads, :]  # q and k are adjacent and rotated together, in place
        if layer.norm_q is not None and layer.norm_k is not None:
            q, k = rotated.split([w.heads, w.kv_heads], dim=-2)
            rotated.copy_(torch.cat([self._norm(q, layer.norm_q), self._norm(k, layer.norm_k)], dim=-2))
        rotated.copy_(torch.addcmul(rotated * cos, rotated.roll(w.head_dim // 2, -1), sin))
        return qkv[..., : w.heads, :], qkv[..., w.heads :, :].unflatten(-2, (2, w.kv_heads))

    def _finish(self, layer: Layer, x: Tensor, read: Tensor) -> None:
        """Add to the residual stream x, in place: the projection of the attention output [..., H·d], then the MLP."""
        layer.out.add_to(x, read)
        both = layer.gate_up(self._norm(x, layer.norm_mid))
        if self.layer_kernels is not None:
            inner = self.layer_kernels.silu_mul(both)
        else:
            gate, up = both.chunk(2, dim=-1)
            inner = F.silu(gate).mul_(up)
        layer.down.add_to(x, inner)

    def _store(self, index: int, kv: Tensor, at: At) -> None:
        """Store keys and values [P, L, 2, G, d] of prompts in their slots, from column 0."""
        width = kv.shape[1]
        self.cache[index, :, at, :, :width] = kv.permute(2, 0, 3, 1, 4)

    def _norm(self, x: Tensor, scale: Tensor) -> Tensor:
        if x.is_cuda:
            return F.rms_norm(x, (x.shape[-1],), scale, self.weights.eps)
        power = x.float().square().mean(-1, keepdim=True)  # on a CPU rms_norm takes twice as many operators
        return (x * power.add_(self.weights.eps).rsqrt_().to(x.dtype)).mul_(scale)

    def _mask(self, positions: Tensor, used: int, dtype: torch.dtype) -> Tensor:
        """Positions [B] → additive mask [B, 1, 1, C]: 0 up to the row's position, -inf after it."""
        hidden = self.arange[:used] > positions[:, None, None, None]
        return torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(hidden, -torch.inf)


def _causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention of [P, H, L, d] over [P, G, L, d]."""
    if q.shape[1] != k.shape[1] and not q.is_cuda:  # only CUDA's fused kernels support grouped heads
        k, v = (t.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for t in (k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])


def _grouped(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """One query per row [B, H, d] over [B, G, C, d] → [B, H·d]; queries of one key head are treated as its positions."""
    return F.scaled_dot_product_attention(q.unflatten(1, (k.shape[1], -1)), k, v, attn_mask=mask).flatten(1)


@contextmanager
def matrix_products(weight: Tensor) -> Iterator[None]:
    """Use the faster library for products with such weights, here and in other threads.

    On an ARM CPU oneDNN repacks a float32 matrix for every product; plain BLAS does not.
    """
    on_arm = not weight.is_cuda and platform.machine() in ("aarch64", "arm64")
    library: Any = torch.backends.mkldnn
    before = library.enabled
    library.enabled = before and not (on_arm and weight.dtype == torch.float32)
    try:
        yield
    finally:
        library.enabled = before


def tolerance(dtype: torch.dtype) -> float:
    """Largest relative difference that rounding can cause in this precision."""
    return 1e-4 if dtype in (torch.float32, torch.float64) else 0.1


@torch.inference_mode()
def probe(decoder: SlotDecoder, backbone: Backbone) -> float:
    """Relative difference of the logits of two prompts, prefill and four steps, from the model's; discards the cache."""
    from transformers import DynamicCache

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
    lengths, at = mask.sum(1), torch.tensor([1, 0], device=decoder.device)  # slots swapped
    ours = [decoder.prefill(decoder.embed(right), lengths, at)]
    for step, column in enumerate(extra.T):
        mask = torch.cat([mask, torch.ones_like(mask[:, :1])], dim=1)
        fed = backbone.embedding(column)
        theirs.append(backbone.trunk(fed[:, None], mask, (lengths + step)[:, None], cache)[0][:, -1])
        ours.append(decoder.step(decoder.embed(column[at]), (lengths + step)[at], int(lengths.max()) + step + 1)[at])
    wanted = backbone.logits(torch.cat(theirs))
    found = decoder.logits(torch.cat(ours))
    return float((found - wanted).norm() / wanted.norm())
