"""Logits → tokens, greedy or sampled, such that a row's draw never depends on the rows beside it.

Every row has its own stream of uniform numbers, drawn on the CPU from (seed, row key) before decoding begins; sampling
is then the inverse of the cumulative distribution at that number. Batch composition and device change nothing.

Axes: B rows, V vocabulary, T most answer tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ruplar.errors import UserError


@dataclass(frozen=True)
class Decoding:
    """How an answer is decoded; the thought itself is deterministic.

    Attributes:
        temperature: 0 is greedy.
        top_p: Sample among the likeliest tokens that together hold this much probability.
        seed: Seed of sampled answers.
        max_answer_tokens: An answer is cut here; it then counts as not ended.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0
    max_answer_tokens: int = 64

    def __post_init__(self):
        problems = []
        if self.temperature < 0:
            problems.append(f"temperature: must be 0 or more, got {self.temperature}. 0 is greedy.")
        if not 0 < self.top_p <= 1:
            problems.append(f"top_p: must be above 0 and at most 1, got {self.top_p}.")
        if self.max_answer_tokens < 1:
            problems.append(f"max_answer_tokens: must be at least 1, got {self.max_answer_tokens}.")
        if problems:
            raise UserError(*problems)


def uniforms(decoding: Decoding, keys: Sequence[int]) -> Tensor | None:
    """[B, T] uniform numbers, row b from (seed, keys[b]) alone; None when greedy."""
    if decoding.temperature == 0:
        return None
    rows = [np.random.default_rng([decoding.seed, key]).random(decoding.max_answer_tokens) for key in keys]
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
