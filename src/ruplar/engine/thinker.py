"""Last position of the model → the next thing to feed while thinking, or the end of the thought.

The engine owns the cache, the masks and the answer; a `Thinker` owns one decision, made for all rows at once:
    halt?  and if not,  which embedding comes next?
A text chain is the same loop with a token's embedding in place of a soft token.

Axes: B rows, V vocabulary, D width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor, nn

from ruplar.backbone.soft_tokens import mix, mix_all


@dataclass
class Thought:
    """One decision of a thinker for every row.

    Attributes:
        halt: [B] bool, true where the thought is over (nothing of `embeds` is fed there).
        embeds: [B, D] what to feed next where it goes on.
        tokens: [B] the token fed, for methods that think in text; None otherwise.
    """

    halt: Tensor
    embeds: Tensor
    tokens: Tensor | None = None


class Thinker(Protocol):
    """How a method turns the model's last output into its next latent."""

    @property
    def cap(self) -> int:
        """Most latents a thought may have; the engine ends it there."""

    @property
    def thinks(self) -> bool:
        """False for methods that answer at once (no `<think>` position is read)."""

    def next(self, logits: Tensor, hidden: Tensor, made: Tensor) -> Thought:
        """Logits [B, V] float32 and last hidden [B, D] of each row, and how many latents it has made → the decision."""


@dataclass
class SoftThinker:
    """Soft tokens: feed the expected embedding under the model's own next-token distribution.

    Attributes:
        embedding: The input embedding module (adapters included).
        end_think_id: The halt token.
        halt: `argmax`: stop when it is the likeliest token (as published); `threshold`: when P(halt) > halt_threshold.
        halt_threshold: See `halt`.
        top_k: Keep this many tokens of the mixture, renormalised; 0 keeps the whole vocabulary (as published).
        drop_halt: Take the halt token out of the mixture; training never mixes it in.
        harden: Feed only the likeliest token: an ablation.
        cap: Most latents.
    """

    embedding: nn.Module
    end_think_id: int
    halt: Literal["argmax", "threshold"] = "threshold"
    halt_threshold: float = 0.5
    top_k: int = 10
    drop_halt: bool = True
    harden: bool = False
    cap: int = 16
    thinks: bool = True

    def next(self, logits: Tensor, hidden: Tensor, made: Tensor) -> Thought:
        """See `Thinker.next`."""
        probs = logits.softmax(-1)
        # differs from the paper: D17. It halts by argmax, which is early where the prior is flat
        if self.halt == "argmax":
            over = logits.argmax(-1) == self.end_think_id
        else:
            over = probs[:, self.end_think_id] > self.halt_threshold
        # differs from the paper: D18. It feeds the halt token's share too
        if self.drop_halt:
            probs = probs.index_fill(1, torch.tensor([self.end_think_id], device=probs.device), 0.0)
        if not (self.harden or self.top_k):
            return Thought(over, mix_all(self.embedding, _normalised(probs)))
        # differs from the paper: D19. It feeds the whole vocabulary
        weights, ids = probs.topk(1 if self.harden else min(self.top_k, probs.shape[-1]), dim=-1)  # [B, K]
        return Thought(over, mix(self.embedding, ids, _normalised(weights)))


def _normalised(weights: Tensor) -> Tensor:
    # a row that is certain to halt has no mass left; it is not fed, but must not become NaN either
    return weights / weights.sum(-1, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny)


@dataclass
class TextThinker:
    """Written reasoning, greedy: feed the likeliest token until it is the end marker."""

    embedding: nn.Module
    end_think_id: int
    cap: int = 256
    thinks: bool = True

    def next(self, logits: Tensor, hidden: Tensor, made: Tensor) -> Thought:
        """See `Thinker.next`."""
        tokens = logits.argmax(-1)
        return Thought(tokens == self.end_think_id, self.embedding(tokens), tokens)


@dataclass
class NoThinker:
    """No thought at all: `</think>` follows `<think>` at once."""

    cap: int = 0
    thinks: bool = False

    def next(self, logits: Tensor, hidden: Tensor, made: Tensor) -> Thought:
        """See `Thinker.next`."""
        return Thought(torch.ones(len(logits), dtype=torch.bool, device=logits.device), hidden)


@dataclass
class ReplayThinker:
    """Latents given beforehand: feeds row b `latents[b]` in order, then halts. For ablations and agreement tests.

    Attributes:
        latents: One [N_b, D] tensor a row; N_b may be 0.
    """

    latents: list[Tensor]
    thinks: bool = True

    @property
    def cap(self) -> int:
        """The longest of them."""
        return max((len(rows) for rows in self.latents), default=0)

    def next(self, logits: Tensor, hidden: Tensor, made: Tensor) -> Thought:
        """See `Thinker.next`."""
        embeds = torch.zeros_like(hidden)
        halt = torch.ones(len(hidden), dtype=torch.bool, device=hidden.device)
        for row, (latents, at) in enumerate(zip(self.latents, made.tolist(), strict=True)):
            if at < len(latents):
                embeds[row], halt[row] = latents[at].to(embeds), False
        return Thought(halt, embeds)
