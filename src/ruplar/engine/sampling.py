"""Logits → tokens and noised logits, such that a row's draw never depends on the rows beside it.

    answer    greedy, or sampled: every row has its own stream of uniform numbers, drawn on the CPU from (seed, question,
              sample) before decoding starts; a token is the inverse of the cumulative distribution at that number
    latent    softmax(log p + scale · g), g ~ Gumbel(0, 1); P(</think>), and so the halt, is unchanged
    text      argmax(log p + scale · g): a sample at temperature `scale`

A Gumbel draw is a hash of (seed, question, sample, latent, token), computed where the logits are. So batch, slot, engine
and device change nothing, nothing V-sized is stored, and a CUDA graph can capture it.

Axes: B rows, V vocabulary, T maximum answer tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ruplar.errors import UserError

Key = int | tuple[int, int]
"""Name of a random stream: index of a question, or (index of a question, index of a sample)."""

_WORD = 0xFFFFFFFF
_GOLDEN = 0x9E3779B9

SAMPLE_NOISE = 0.3
"""Default noise for several samples. At 1 a token is drawn as often as its probability says, and priors give operands a
fifth of it, so most thoughts fail; at 0.3 they differ only where the model is uncertain."""


@dataclass(frozen=True)
class Decoding:
    """How latents and answer are decoded; without noise the latents are deterministic."""

    temperature: float = 0.0  # sampling temperature of the answer; 0 is greedy
    top_p: float = 1.0  # sample among the most likely tokens that together have this probability
    seed: int = 0  # random seed of sampled answers and of noise
    max_answer_tokens: int = 64  # maximum tokens of an answer; a truncated answer counts as not ended
    noise: float = 0.0  # scale of the Gumbel noise on every latent's logits; 0: none. See `noised`
    halt_threshold: float | None = None  # P(halt) above which a thought ends; None: as the thinker decides

    def __post_init__(self):
        problems = []
        if not 0 <= self.temperature < math.inf:
            problems.append(f"temperature: must be 0 or more and finite, got {self.temperature}. 0 is greedy.")
        if not 0 < self.top_p <= 1:
            problems.append(f"top_p: must be above 0 and at most 1, got {self.top_p}.")
        if self.seed < 0:
            problems.append(f"seed: must be 0 or more, got {self.seed}.")
        if self.max_answer_tokens < 1:
            problems.append(f"max_answer_tokens: must be at least 1, got {self.max_answer_tokens}.")
        if not 0 <= self.noise < math.inf:
            problems.append(f"noise: must be 0 or more and finite, got {self.noise}. 0 is none.")
        if self.halt_threshold is not None and not 0 < self.halt_threshold < 1:
            problems.append(f"halt_threshold: must be above 0 and below 1, got {self.halt_threshold}.")
        if problems:
            raise UserError(*problems)

    @property
    def noisy(self) -> bool:
        return self.noise > 0


def stream(seed: int, key: Key) -> tuple[int, int, int]:
    """Seed and key → name of a random stream; an int names a question's first sample."""
    return (seed, *key) if isinstance(key, tuple) else (seed, key, 0)


def uniforms(decoding: Decoding, keys: Sequence[Key]) -> Tensor | None:
    """[B, T] uniform numbers, row b from (seed, keys[b]) only; None when greedy."""
    if decoding.temperature == 0:
        return None
    rows = [np.random.default_rng(stream(decoding.seed, key)).random(decoding.max_answer_tokens) for key in keys]
    return torch.from_numpy(np.stack(rows)) if rows else torch.empty(0, decoding.max_answer_tokens)


def pick(logits: Tensor, temperature: float | Tensor, top_p: float | Tensor, uniform: Tensor | None) -> Tensor:
    """Logits [B, V] and, when sampling, one uniform number per row [B] → token ids [B]; temperature and top_p may be [B, 1]."""
    if uniform is None:
        return logits.argmax(-1)
    below = logits.double() - logits.amax(-1, keepdim=True)  # the top's is 0, however small the temperature
    probs, order = (below / temperature).softmax(-1).sort(dim=-1, descending=True, stable=True)
    before = probs.cumsum(-1) - probs  # mass of the more likely tokens
    probs = probs.masked_fill(before >= top_p, 0.0)  # the first token always stays
    cumulative = probs.cumsum(-1)
    target = uniform.to(cumulative).unsqueeze(-1) * cumulative[:, -1:]
    chosen = (cumulative <= target).sum(-1, keepdim=True).clamp_max(probs.shape[-1] - 1)
    return order.gather(-1, chosen).squeeze(-1)


@dataclass
class Noise:
    """Noise of each row's latents."""

    scale: Tensor  # [B] float32 scale of the Gumbel noise; 0: none
    stream: Tensor  # [B, 2] int64, two 32-bit words that name the row's random stream

    @classmethod
    def of(cls, decodings: Sequence[Decoding], keys: Sequence[Key], device=None) -> Noise | None:
        """Decoding and key of each row → their noise; None if no row has any."""
        if not any(d.noisy for d in decodings):
            return None
        # the last 1 separates the stream of the latents from that of the answer
        names = [(*stream(d.seed, key), 1) for d, key in zip(decodings, keys, strict=True)]
        words = [np.random.SeedSequence(name).generate_state(2).tolist() for name in names]
        return cls(
            torch.tensor([d.noise for d in decodings], dtype=torch.float32, device=device),
            torch.tensor(words, dtype=torch.long, device=device).reshape(-1, 2),
        )

    @classmethod
    def none(cls, rows: int, device=None) -> Noise:
        return cls(torch.zeros(rows, device=device), torch.zeros(rows, 2, dtype=torch.long, device=device))

    def __getitem__(self, at: slice | Tensor) -> Noise:
        return Noise(self.scale[at], self.stream[at])

    def __setitem__(self, at: slice | Tensor, rows: Noise) -> None:
        self.scale[at], self.stream[at] = rows.scale, rows.stream


def uniform(stream: Tensor, made: Tensor, count: int) -> Tensor:
    """[B, count] float32 in (0, 1) from each row's stream [B, 2], its number of latents so far [B], and the column."""
    column = torch.arange(count, device=stream.device)
    first = _mixed(stream[:, 0] ^ _mixed(made + 1))
    second = _mixed(stream[:, 1] ^ first)
    bits = _mixed(_mixed((first[:, None] + column * _GOLDEN) & _WORD) ^ second[:, None])
    # in float32, numbers near 0 are exact and the largest would round to 1
    return ((bits.float() + 0.5) * 2.0**-32).clamp_max(1 - 2.0**-24)


def gumbel(stream: Tensor, made: Tensor, count: int) -> Tensor:
    """[B, count] Gumbel(0, 1) numbers; see `uniform`."""
    # -log(-log(1 - u)) is exact for small u, where the large draws come from
    return -(-torch.log1p(-uniform(stream, made, count))).log()


def noised(logits: Tensor, noise: Noise, made: Tensor, end_think_id: int) -> Tensor:
    """[B, V] log-probabilities of the noised mixture; the halt token's is unchanged, the others share the rest.

    A row with scale 0 is returned unchanged.
    """
    # differs from the paper: D65. Its latents are deterministic
    log_probs = logits.log_softmax(-1)
    halt = log_probs[:, end_think_id]
    rest = log_probs + noise.scale[:, None] * gumbel(noise.stream, made, logits.shape[1])
    rest[:, end_think_id] = -torch.inf
    rest = rest.log_softmax(-1) + torch.log1p(-halt.exp())[:, None]
    rest[:, end_think_id] = halt
    return torch.where(noise.scale[:, None] == 0, logits, rest)


def noised_tokens(logits: Tensor, noise: Noise, made: Tensor) -> Tensor:
    """[B] one token per row, for written reasoning: a sample at temperature `scale`, the most likely token at 0."""
    return (logits + noise.scale[:, None] * gumbel(noise.stream, made, logits.shape[1])).argmax(-1)


def _mixed(x: Tensor) -> Tensor:
    """32-bit hash (lowbias32): every input bit changes half of the output bits."""
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & _WORD
    x = ((x ^ (x >> 15)) * 0x846CA68B) & _WORD
    return x ^ (x >> 16)
