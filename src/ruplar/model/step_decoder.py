"""Hidden state of a latent → the words of its step: a small decoder that helps training and is thrown away after it.

    input    g(h)  E[3]  E[+]  E[4]  E[=]  E[7]
    predicts  3     +     4     =     7    eos          each position sees itself and what stands before it

If h holds the step, order included, the decoder can write it; its loss teaches h to.  Axes: M latents, S positions, D width.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class StepDecoder(nn.Module):
    """A causal transformer of few layers over the backbone's own embeddings, read by the backbone's own head.

    Args:
        width: D.
        layers: Transformer layers; 0 leaves only g, for a backbone that decodes by itself.
        seed: The same weights every time.
    """

    def __init__(self, width: int, layers: int, seed: int = 0):
        super().__init__()
        heads = next(h for h in range(max(1, width // 64), 0, -1) if width % h == 0)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.g = nn.Linear(width, width)
            self.layers = nn.ModuleList(
                nn.TransformerEncoderLayer(
                    width, heads, 2 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
                )
                for _ in range(layers)
            )
            self.out = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width)) if layers else nn.Identity()

    def opened(self, hidden: Tensor, embeds: Tensor) -> Tensor:
        """Hidden states [M, D] and embeddings of the steps [M, S, D] → the same, each beginning with its g(h)."""
        first = self.g(hidden.to(self.g.weight.dtype)).to(embeds.dtype)
        return torch.cat([first[:, None], embeds[:, 1:]], dim=1)

    def forward(self, hidden: Tensor, embeds: Tensor) -> Tensor:
        """Hidden states [M, D] and embeddings of the steps [M, S, D], whose first is not read → outputs [M, S, D]."""
        x = self.opened(hidden, embeds).to(self.g.weight.dtype)
        size = x.shape[1]
        # embeddings and g are of any scale, each by itself: made alike, so that a place weighs as much as a word
        x = nn.functional.layer_norm(x, x.shape[-1:]) + _places(size, x.shape[2], x.device)
        mask = torch.triu(torch.full((size, size), -torch.inf, device=x.device, dtype=x.dtype), diagonal=1)
        for layer in self.layers:
            x = layer(x, src_mask=mask, is_causal=True)
        return self.out(x).to(hidden.dtype)


def _places(size: int, width: int, device: torch.device) -> Tensor:
    """[size, width] sines and cosines of the position."""
    half = -(-width // 2)
    rates = torch.exp(-math.log(10_000.0) * torch.arange(half, device=device) / half)
    angles = torch.arange(size, device=device)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)[:, :width]
