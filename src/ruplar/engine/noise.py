"""Logits → noised logits: Gumbel noise that makes a model think the same question through in different ways.

A draw depends on (seed, question, sample, latent, token) alone: it is a hash of them, computed where the logits
are. So batch, slot, engine and device change nothing, nothing V-sized is stored, and a CUDA graph may hold it.

    thought   softmax((log p + scale · g) / temperature), g ~ Gumbel(0, 1); P(</think>) and so the halt stay as they are
    text      argmax(log p + scale · g): a sample at temperature `scale`

Axes: B rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ruplar.engine.sampling import Decoding, Key, stream

_WORD = 0xFFFFFFFF
_GOLDEN = 0x9E3779B9


@dataclass
class Noise:
    """How each row's thought is noised.

    Attributes:
        scale: [B] float32 factor of the Gumbel noise; 0 where there is none.
        temperature: [B] float32 of the noised mixture; below 1 is sharper, towards a single token.
        stream: [B, 2] int64, two words of 32 bits that name the row's random stream.
    """

    scale: Tensor
    temperature: Tensor
    stream: Tensor

    @classmethod
    def of(cls, decodings: Sequence[Decoding], keys: Sequence[Key], device=None) -> Noise | None:
        """The noise of rows decoded so, whose random streams have these names; None where no row has any."""
        if not any(d.noisy for d in decodings):
            return None
        # the last 1 tells the thought's stream from the answer's
        names = [(*stream(d.seed, key), 1) for d, key in zip(decodings, keys, strict=True)]
        words = [np.random.SeedSequence(name).generate_state(2).tolist() for name in names]
        return cls(
            torch.tensor([d.noise for d in decodings], dtype=torch.float32, device=device),
            torch.tensor([d.noise_temperature for d in decodings], dtype=torch.float32, device=device),
            torch.tensor(words, dtype=torch.long, device=device).reshape(-1, 2),
        )

    @classmethod
    def none(cls, rows: int, device=None) -> Noise:
        """No noise for so many rows."""
        scale = torch.zeros(rows, device=device)
        return cls(scale, torch.ones_like(scale), torch.zeros(rows, 2, dtype=torch.long, device=device))

    def __getitem__(self, at: slice | Tensor) -> Noise:
        """Some of the rows."""
        return Noise(self.scale[at], self.temperature[at], self.stream[at])

    def __setitem__(self, at: slice | Tensor, rows: Noise) -> None:
        """Put others in their places."""
        self.scale[at], self.temperature[at], self.stream[at] = rows.scale, rows.temperature, rows.stream


def uniform(stream: Tensor, made: Tensor, count: int) -> Tensor:
    """[B, count] float32 in (0, 1), from each row's stream [B, 2], its number of latents so far [B], and the place."""
    place = torch.arange(count, device=stream.device)
    first = _mixed(stream[:, 0] ^ _mixed(made + 1))
    second = _mixed(stream[:, 1] ^ first)
    bits = _mixed(_mixed((first[:, None] + place * _GOLDEN) & _WORD) ^ second[:, None])
    # as float32, numbers near 0 are exact and the largest would round to 1
    return ((bits.float() + 0.5) * 2.0**-32).clamp_max(1 - 2.0**-24)


def gumbel(stream: Tensor, made: Tensor, count: int) -> Tensor:
    """[B, count] Gumbel(0, 1) numbers; see `uniform`."""
    # -log(-log(1 - u)) is exact where u is small, which is where a large draw, the one that matters, comes from
    return -(-torch.log1p(-uniform(stream, made, count))).log()


def noised(logits: Tensor, noise: Noise, made: Tensor, end_think_id: int) -> Tensor:
    """[B, V] log-probabilities of the noised mixture; the halt token keeps its own, the others share the rest.

    A row whose scale is 0 and whose temperature is 1 comes back as it is.
    """
    # differs from the paper: D65. Its thoughts are deterministic
    log_probs = logits.log_softmax(-1)
    halt = log_probs[:, end_think_id]
    draws = noise.scale[:, None] * gumbel(noise.stream, made, logits.shape[1])
    rest = (log_probs + draws) / noise.temperature[:, None]
    rest[:, end_think_id] = -torch.inf
    rest = rest.log_softmax(-1) + torch.log1p(-halt.exp())[:, None]
    rest[:, end_think_id] = halt
    plain = (noise.scale == 0) & (noise.temperature == 1)
    return torch.where(plain[:, None], logits, rest)


def noised_tokens(logits: Tensor, noise: Noise, made: Tensor) -> Tensor:
    """[B] one token a row, for thoughts in text: a sample at temperature `scale`, the likeliest where that is 0."""
    return (logits + noise.scale[:, None] * gumbel(noise.stream, made, logits.shape[1])).argmax(-1)


def _mixed(x: Tensor) -> Tensor:
    """A hash of 32 bits (lowbias32): every bit of the input changes half the bits of the output."""
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & _WORD
    x = ((x ^ (x >> 15)) * 0x846CA68B) & _WORD
    return x ^ (x >> 16)
