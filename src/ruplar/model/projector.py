"""Hidden state → the input of the next latent: a small network that ends in a LayerNorm."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Projector(nn.Module):
    """Dropout, D → inner, GELU, inner → D, LayerNorm; float32 weights, the same every time.

    Args:
        width: D.
        inner: Inner width.
        dropout: Before the first layer, in training.
        seed: Of the weights.
    """

    def __init__(self, width: int, inner: int, dropout: float = 0.0, seed: int = 0):
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.layers = nn.Sequential(
                nn.Dropout(dropout), nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width), nn.LayerNorm(width)
            )

    def forward(self, hidden: Tensor) -> Tensor:
        """Hidden states [..., D] → inputs [..., D], in the precision they came in."""
        weight = next(self.parameters())
        return self.layers(hidden.to(weight.dtype)).to(hidden.dtype)
