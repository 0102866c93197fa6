"""What lies between a decoder's matrix products, for any number of rows → two kernels a layer instead of a dozen operators.

Turning queries and keys and storing keys and values is one; the gated block's SiLU and product the other. Held to the
plain operators when the engine starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ruplar.engine.rounding import power_of_two
from ruplar.engine.small_batch import TOLERANCE, KernelsDisagree, load_kernels

if TYPE_CHECKING:
    from ruplar.engine.decoder import Decoder

WIDE = 1024  # elements of the gated block a program makes


@dataclass
class Between:
    """The kernels of one decoder, whose weights and cache they use."""

    decoder: Decoder

    @classmethod
    def of(cls, decoder: Decoder, check: bool = True) -> Between | None:
        """Kernels for this decoder, checked; None where its heads are of a width they do not handle.

        Raises:
            KernelsDisagree: They do not compute what the decoder computes.
        """
        load_kernels()
        half = decoder.weights.head_dim // 2
        if half & (half - 1):
            return None
        between = cls(decoder)
        if check:
            difference = between.difference()
            if not difference <= TOLERANCE:  # a NaN is no agreement either
                raise KernelsDisagree(
                    f"prefill kernels differ from the plain operators by {difference:.3g} (at most {TOLERANCE} is "
                    "rounding). Use EngineOptions(kernels=False) and report this."
                )
        return between

    def turn(self, index: int, whole: Tensor, slots: Tensor, positions: Tensor | None = None) -> None:
        """Turn q and k in q|k|v where they lie, and store k and v of layer `index`.

        Args:
            index: Which layer.
            whole: [P, L, H + 2G, d] of prompts from column 0, or [B, H + 2G, d] of a step.
            slots: Each row's slot.
            positions: Each row's column, for a step.
        """
        from ruplar.engine import kernels

        d, cache = self.decoder, self.decoder.cache[index]
        w, layer = d.weights, d.weights.layers[index]
        norm = layer.norm_q is not None
        length = whole.shape[1] if positions is None else 0
        tokens = whole.numel() // ((w.heads + 2 * w.kv_heads) * w.head_dim)
        at = positions if positions is not None else slots
        kernels.turn[(tokens,)](
            whole, d.cos, d.sin, layer.norm_q if norm else whole, layer.norm_k if norm else whole, cache, slots, at,
            at.stride(0), cache.stride(0), d.columns, length, w.eps,
            w.heads, w.kv_heads, w.head_dim // 2, norm, power_of_two(w.heads + w.kv_heads), power_of_two(w.kv_heads),
            num_warps=4,
        )  # fmt: skip

    def gate(self, both: Tensor) -> Tensor:
        """Gates and ups [..., 2I] → SiLU(gate) · up [..., I]."""
        from ruplar.engine import kernels

        size = both.shape[-1] // 2
        out = both.new_empty((*both.shape[:-1], size))
        kernels.gate[(out.numel() // size, -(-size // WIDE))](both, out, size, WIDE, num_warps=4)
        return out

    @torch.inference_mode()
    def difference(self) -> float:
        """Relative difference of a prefill, two steps and a block from the plain operators'; leaves no cache."""
        decoder, device = self.decoder, self.decoder.device
        few, decoder.few_rows = decoder.few_rows, None
        generator = torch.Generator().manual_seed(0)
        tokens = torch.randint(decoder.weights.table.shape[0], (4, 24), generator=generator).to(device)
        lengths, at = torch.tensor([20, 7, 13, 1], device=device), torch.tensor([2, 0, 1, 3], device=device)
        found = []
        for decoder.between in (None, self):
            decoder.allocate(5, 32)
            got = [decoder.prefill(decoder.embed(tokens[:, :20]), lengths, at)]
            for step in range(2):
                positions = (lengths + step)[at.argsort()]
                got.append(decoder.step(decoder.embed(tokens[:, 20 + step]), positions, 24))
            got.append(decoder.block(decoder.embed(tokens[:, :3]), positions + 1, 28).flatten(0, 1))
            found.append(torch.cat(got).float())
        decoder.between, decoder.few_rows = None, few
        plain, ours = found
        return float("nan") if ours.isnan().any() else float((ours - plain).norm() / plain.norm())


def between(decoder: Decoder) -> Between | None:
    """The kernels where they can run: on a GPU."""
    return Between.of(decoder) if decoder.device.type == "cuda" else None
