"""Launch the Triton kernels between a decoder's matrix products, for any batch size: two per layer instead of a dozen.

One rotates queries and keys and stores keys and values; the other is SiLU and product of the MLP. Both are compared with the
PyTorch operators when the engine starts.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ruplar.engine.decoder import Decoder
from ruplar.engine.small_batch import check_difference, check_triton, power_of_two

MLP_BLOCK = 1024  # MLP elements per program


@dataclass
class LayerKernels:
    """The kernels of one decoder, on its weights and cache."""

    decoder: Decoder

    @classmethod
    def of(cls, decoder: Decoder, check: bool = True) -> LayerKernels | None:
        """Make the kernels of a decoder and check them; None if its head size is not supported."""
        check_triton()
        half = decoder.weights.head_dim // 2
        if half & (half - 1):
            return None
        kernels = cls(decoder)
        if check:
            check_difference("layer", kernels.difference(), decoder.weights.table.dtype)
        return kernels

    def rotate_and_store(self, index: int, qkv: Tensor, slots: Tensor, positions: Tensor | None = None) -> None:
        """Rotate queries and keys in place and store keys and values of layer `index`.

        `qkv` is [P, L, H + 2G, d] of prompts from column 0, or [B, H + 2G, d] of a step at `positions`.
        """
        from ruplar.engine import kernels

        d, cache = self.decoder, self.decoder.cache[index]
        w, layer = d.weights, d.weights.layers[index]
        norm = layer.norm_q is not None
        length = qkv.shape[1] if positions is None else 0
        tokens = qkv.numel() // ((w.heads + 2 * w.kv_heads) * w.head_dim)
        at = positions if positions is not None else slots
        kernels.rotate_and_store[(tokens,)](
            qkv, d.cos, d.sin, layer.norm_q if norm else qkv, layer.norm_k if norm else qkv, cache, slots, at,
            at.stride(0), cache.stride(0), d.columns, length, w.eps,
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
        """Relative difference of a prefill and two steps from the PyTorch operators; discards the cache."""
        decoder, device = self.decoder, self.decoder.device
        small_batch, decoder.small_batch = decoder.small_batch, None
        generator = torch.Generator().manual_seed(0)
        tokens = torch.randint(decoder.weights.table.shape[0], (4, 24), generator=generator).to(device)
        lengths, at = torch.tensor([20, 7, 13, 1], device=device), torch.tensor([2, 0, 1, 3], device=device)
        found = []
        for decoder.layer_kernels in (None, self):
            decoder.allocate(5, 32)
            got = [decoder.prefill(decoder.embed(tokens[:, :20]), lengths, at)]
            for step in range(2):
                positions = (lengths + step)[at.argsort()]
                got.append(decoder.step(decoder.embed(tokens[:, 20 + step]), positions, 24))
            found.append(torch.cat(got).float())
        decoder.layer_kernels, decoder.small_batch = None, small_batch
        wanted, ours = found
        return float("nan") if ours.isnan().any() else float((ours - wanted).norm() / wanted.norm())


def load_layer_kernels(decoder: Decoder) -> LayerKernels | None:
    """Load the layer kernels if they can run: on a GPU."""
    return LayerKernels.of(decoder) if decoder.device.type == "cuda" else None
