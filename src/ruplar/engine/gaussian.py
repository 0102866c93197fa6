"""Last hidden state → the next latent as a Gaussian vector: the latent head and its thinker (CoLaR).

    hidden –body→ –mean, log_std→ N(mean, std²)      in units of sigma, the embedding's standard deviation
    latent = mean · sigma;  with noise, (mean + noise · std · g) · sigma

The thought ends when the model's own next token is `</think>`.

Axes: B rows, V vocabulary, D width, H inner width.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from ruplar.engine.sampling import Noise, uniform
from ruplar.engine.thinker import NextInput

_LOG_ROOT_TAU = 0.5 * math.log(2 * math.pi)


class LatentHead(nn.Module):
    """Hidden [..., D] → mean and log standard deviation [..., D] of the next latent, both float32, in units of sigma."""

    def __init__(self, width: int, inner: int, seed: int = 0):
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.body = nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, inner), nn.LayerNorm(inner))
            self.mean = nn.Linear(inner, width)
            self.log_std = nn.Linear(inner, width)

    def forward(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        inner = self.body(hidden.to(self.mean.weight.dtype))
        return self.mean(inner).float(), self.log_std(inner).float()


def log_density(mean: Tensor, log_std: Tensor, value: Tensor) -> Tensor:
    """[..., D] each → log N(value; mean, std²) in nats, averaged over D, [...]."""
    distance = (value - mean) * (-log_std).exp()
    return -(0.5 * distance.square() + log_std + _LOG_ROOT_TAU).mean(-1)


def normal(stream: Tensor, made: Tensor, count: int) -> Tensor:
    """[B, count] standard normal numbers; see `sampling.uniform`."""
    drawn = uniform(stream, made, count).clamp_min(2.0**-25)  # 2u - 1 would round to -1, where erfinv is -inf
    return torch.erfinv(2 * drawn - 1) * math.sqrt(2)


@dataclass
class GaussianThinker:
    """Feed the mean of the latent head's Gaussian or, with noise, a sample; at least one latent."""

    head: LatentHead
    sigma: float  # standard deviation of the input embedding, the unit of the head
    end_think_id: int
    # `argmax`: halt when `</think>` is the most likely token; `sample`: with noise, when a token sampled at T = 1 is
    # `</think>`
    halt: Literal["argmax", "sample"] = "argmax"
    cap: int = 64  # maximum number of latents
    thinks: bool = True
    takes_noise: ClassVar[bool] = True
    captures: ClassVar[bool] = True

    def next(self, logits: Tensor, hidden: Tensor, made: Tensor, noise: Noise | None = None) -> NextInput:
        """See `Thinker.next`; with a noise of 1 the latent is a sample of the Gaussian, as published."""
        latent, log_std = self.head(hidden)
        over = logits.argmax(-1) == self.end_think_id
        if noise is not None:
            drawn = normal(noise.stream, made, latent.shape[-1])
            latent = latent + noise.scale[:, None] * log_std.exp() * drawn
            if self.halt == "sample":
                # a token sampled at T = 1 is the halt token with probability P(halt)
                chance = uniform(noise.stream.flip(1), made, 1)[:, 0]
                sampled = chance < logits.softmax(-1)[:, self.end_think_id]
                over = torch.where(noise.scale > 0, sampled, over)
        return NextInput(over & (made > 0), (latent * self.sigma).to(hidden.dtype))
