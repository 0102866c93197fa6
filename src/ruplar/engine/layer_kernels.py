"""Launch the Triton kernels between a decoder's matrix products, for any batch size: two per layer instead of a dozen.

In a step one is the whole attention; in a prefill it rotates queries and keys and stores keys and values. The other is SiLU
and product of the MLP. All are compared with the PyTorch operators when the engine starts.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ruplar.engine.decoder import Decoder
from ruplar.engine.small_batch import check_difference, check_triton, power_of_two, supports

MLP_BLOCK = 1024  # MLP elements per program
CACHE_TILE = 4096  # elements of keys that attention reads at a time


@dataclass
class LayerKernels:
    """The kernels of one decoder, on its weights and cache."""

    decoder: Decoder

    @classmethod
    def of(cls, decoder: Decoder, check: bool = True) -> LayerKernels | None:
        """Make the kernels of a decoder and check them; None if its head size is not supported."""
        check_triton()
        if not supports(decoder.weights.head_dim):
            return None
        kernels = cls(decoder)
        if check:
            check_difference("layer", kernels.difference(), decoder.weights.table.dtype)
        return kernels

    def attend(self, index: int, qkv: Tensor, positions: Tensor) -> Tensor:
        """Attention of a step in layer `index`: q|k|v [B, (H + 2G)·d] at positions [B] → [B, H·d]; stores keys and values."""
        from ruplar.engine import kernels

        d, cache = self.decoder, self.decoder.cache[index]
        w, layer = d.weights, d.weights.layers[index]
        norm = layer.norm_q is not None
        out = qkv.new_empty(len(qkv), w.heads * w.head_dim)
        kernels.grouped_attention[(w.kv_heads, len(qkv))](
            qkv, cache, positions, d.cos, d.sin, layer.norm_q if norm else qkv, layer.norm_k if norm else qkv, out,
            positions.stride(0), cache.stride(0), d.columns, w.eps, w.head_dim**-0.5, w.heads, w.kv_heads, w.head_dim, norm,
            max(16, power_of_two(w.heads // w.kv_heads)), max(16, CACHE_TILE // w.head_dim), num_warps=4, num_stages=2,
        )  # fmt: skip
        return out

    def rotate_and_store(self, index: int, qkv: Tensor, slots: Tensor) -> None:
        """Rotate queries and keys of prompts [P, L, H + 2G, d] in place and store keys and values of layer `index`."""
        from ruplar.engine import kernels

        d, cache = self.decoder, self.decoder.cache[index]
        w, layer = d.weights, d.weights.layers[index]
        norm = layer.norm_q is not None
        kernels.rotate_and_store[(qkv.shape[0] * qkv.shape[1],)](
            qkv, d.cos, d.sin, layer.norm_q if norm else qkv, layer.norm_k if norm else qkv, cache, slots,
            cache.stride(0), d.columns, qkv.shape[1], w.eps,
            w.heads, w.kv_heads, w.head_dim // 2, norm, power_of_two(w.heads + w.kv_heads), power_of_two(w.kv_heads),
            num_warps=4,
        )  # fmt: skip

    def silu_mul(self, both: Tensor) -> Tensor:
        """Gate and up projections [..., 2I] → SiLU(gate) · up [..., I]."""
        from ruplar.engine import kernels

        size = both.shape[-1] // 2
        out = both.new_empty((*both.shape[:-1], size))
        kernels.silu_mul[(out.numel() // size, -(-size // MLP_BLOCK))](both, out, size, MLP_BLOCK, num_warps=4)
        return out

    @torch.inference_mode()
    def difference(self) -> float:
        """Largest relative difference of a prefill, steps and what they store from the PyTorch operators; discards the cache.

        The rows of a step are at different positions, from the first column to beyond the columns of one tile.
        """
        decoder, device = self.decoder, self.decoder.device
        small_batch, decoder.small_batch = decoder.small_batch, None
        generator = torch.Generator().manual_seed(0)
        tokens = torch.randint(decoder.weights.table.shape[0], (4, 24), generator=generator).to(device)
        lengths, at = torch.tensor([20, 7, 13, 1], device=device), torch.tensor([2, 0, 1, 3], device=device)
        found = []
        for decoder.layer_kernels in (None, self):
            decoder.allocate(5, 160)
            got = [decoder.prefill(decoder.embed(tokens[:, :20]), lengths, at)]
            got += [decoder.step(decoder.embed(tokens[:, 20]), lengths[at.argsort()], 160)]
            # as if longer questions were in flight: every slot has the longest prompt eight times
            decoder.cache[:] = decoder.cache[:, :, 2:3, :, :20].repeat(1, 1, 5, 1, 8, 1)
            for step in range(2):
                positions = torch.tensor([0, 130, 21, 150], device=device) + step
                got.append(decoder.step(decoder.embed(tokens[:, 21 + step]), positions, 160))
            found.append((torch.cat(got).float(), decoder.cache[:, :, decoder.every[:4], :, positions].float()))
        decoder.layer_kernels, decoder.small_batch = None, small_batch
        differences = [(ours - wanted).norm() / wanted.norm() for wanted, ours in zip(*found, strict=True)]
        return float(torch.stack(differences).max())  # NaN if any of them is


def load_layer_kernels(decoder: Decoder) -> LayerKernels | None:
    """Load the layer kernels if they can run: on a GPU."""
    return LayerKernels.of(decoder) if decoder.device.type == "cuda" else None
