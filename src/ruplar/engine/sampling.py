"""Logits → tokens, greedy or sampled, such that a row's draw never depends on the rows beside it.

Every row has its own stream of uniform numbers, drawn on the CPU from (seed, row key, sample) before decoding begins;
sampling is then the inverse of the cumulative distribution at that number. Batch composition and device change nothing.
The noise of a thought is drawn elsewhere (`noise`), in the same spirit.

Axes: B rows, V vocabulary, T most answer tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ruplar.errors import UserError

Key = int | tuple[int, int]
"""Names a random stream: the number of a question, or of a question and of one of its samples."""


SAMPLE_NOISE = 0.3
"""Noise of several thoughts where none is named. At 1 a latent is drawn as often as its probability says, and priors give
operands a fifth of it, so most thoughts go wrong; at 0.3 they differ where the model is in doubt."""


@dataclass(frozen=True)
class Decoding:
    """How a question is thought through and its answer decoded; without noise the thought is deterministic.

    Attributes:
        temperature: Of the answer; 0 is greedy.
        top_p: Sample among the likeliest tokens that together hold this much probability.
        seed: Seed of sampled answers and of noise.
        max_answer_tokens: An answer is cut here; it then counts as not ended.
        noise: Factor of the Gumbel noise on every latent's logits; 0: none. See `noise.noised`.
        noise_temperature: Of the noised mixture; below 1 is sharper. Has no effect on thoughts in text.
        halt_threshold: P(halt) above which a thought ends; None: the thinker's own way.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0
    max_answer_tokens: int = 64
    noise: float = 0.0
    noise_temperature: float = 1.0
    halt_threshold: float | None = None

    def __post_init__(self):
        problems = []
        if self.temperature < 0:
            problems.append(f"temperature: must be 0 or more, got {self.temperature}. 0 is greedy.")
        if not 0 < self.top_p <= 1:
            problems.append(f"top_p: must be above 0 and at most 1, got {self.top_p}.")
        if self.seed < 0:
            problems.append(f"seed: must be 0 or more, got {self.seed}.")
        if self.max_answer_tokens < 1:
            problems.append(f"max_answer_tokens: must be at least 1, got {self.max_answer_tokens}.")
        if self.noise < 0:
            problems.append(f"noise: must be 0 or more, got {self.noise}. 0 is none.")
        if self.noise_temperature <= 0:
            problems.append(f"noise_temperature: must be above 0, got {self.noise_temperature}. 1 leaves it as it is.")
        if self.halt_threshold is not None and not 0 < self.halt_threshold < 1:
            problems.append(f"halt_threshold: must be above 0 and below 1, got {self.halt_threshold}.")
        if problems:
            raise UserError(*problems)

    @property
    def noisy(self) -> bool:
        """Whether thoughts are drawn."""
        return self.noise > 0 or self.noise_temperature != 1


def stream(seed: int, key: Key) -> tuple[int, int, int]:
    """Seed and key → what names a random stream; a plain number is a question's first sample."""
    return (seed, *key) if isinstance(key, tuple) else (seed, key, 0)


def uniforms(decoding: Decoding, keys: Sequence[Key]) -> Tensor | None:
    """[B, T] uniform numbers, row b from (seed, keys[b]) alone; None when greedy."""
    if decoding.temperature == 0:
        return None
    rows = [
        np.random.default_rng(stream(decoding.seed, key)).random(decoding.max_answer_tokens) for key in keys
    ]  # fmt: skip
    return torch.from_numpy(np.stack(rows)) if rows else torch.empty(0, decoding.max_answer_tokens)


def pick(logits: Tensor, decoding: Decoding, uniform: Tensor | None) -> Tensor:
    """One token a row: logits [B, V] and, when sampling, one uniform number a row [B] → ids [B]."""
    if uniform is None:
        return logits.argmax(-1)
    probs, order = (logits.double() / decoding.temperature).softmax(-1).sort(dim=-1, descending=True, stable=True)
    before = probs.cumsum(-1) - probs  # mass of the likelier tokens
    probs = probs.masked_fill(before >= decoding.top_p, 0.0)  # the first token always stays
    cumulative = probs.cumsum(-1)
    target = uniform.to(cumulative).unsqueeze(-1) * cumulative[:, -1:]
    chosen = (cumulative <= target).sum(-1, keepdim=True).clamp_max(probs.shape[-1] - 1)
    return order.gather(-1, chosen).squeeze(-1)
