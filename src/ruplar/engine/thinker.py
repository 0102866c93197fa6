"""Last position of the model → the next thing to feed while thinking, or the end of the thought.

The engine owns the cache, the masks and the answer; a `Thinker` owns one decision, made for all rows at once:
    halt?  and if not,  which embedding comes next?
A text chain is the same loop with a token's embedding in place of a soft token.

A thinker that can think noisily says `takes_noise` and is given each row's `Noise` as a fourth argument of `next`, when
some row has any; others are never given it, and a question with noise is refused for them.

A thinker may make a block of W latents a forward: it has W - 1 tokens `asking`, which are fed behind `<think>` and behind
every block, and is then asked once for each latent of the block, with what was read there; the first decides on the halt.

Axes: B rows, V vocabulary, D width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import torch
from torch import Tensor, nn

from ruplar.engine.noise import Noise, noised, noised_tokens
from ruplar.engine.sampling import Decoding
from ruplar.errors import UserError
from ruplar.model.soft_tokens import mix, mix_all


@dataclass
class Thought:
    """One decision of a thinker for every row.

    Attributes:
        halt: [B] bool, true where the thought is over (nothing of `embeds` is fed there).
        embeds: [B, D] what to feed next where it goes on.
        tokens: [B] the token fed, for methods that think in text; None otherwise.
        logits: [B, V] what the latents were made from, where that is not what the model said but noised.
    """

    halt: Tensor
    embeds: Tensor
    tokens: Tensor | None = None
    logits: Tensor | None = None


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


def asking_of(thinker: Thinker) -> tuple[int, ...]:
    """The tokens fed behind every block of latents; () where a forward makes one."""
    return getattr(thinker, "asking", ())


def room(thinker: Thinker) -> int:
    """Positions a question takes at most beside its prompt and its answer."""
    asking = len(asking_of(thinker))
    if not thinker.thinks:
        return 2 + asking  # <think>, </think>
    block = (
        1 + 2 * asking
    )  # W latents and the tokens behind them; as many are fed, and left, by whoever does not think
    return 2 + asking + thinker.cap // (1 + asking) * block + 2 * asking


def check_noise(thinker: Thinker, decoding: Decoding) -> None:
    """Refuse noise where the thinker has no use for it, rather than give many times the same answer."""
    if decoding.noisy and not getattr(thinker, "takes_noise", False):
        raise UserError(
            f"noise: {type(thinker).__name__} does not draw its thoughts. Leave noise out; answers can be sampled with a "
            "temperature."
        )


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
        asking: See the module's docstring.
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
    asking: tuple[int, ...] = ()
    takes_noise: ClassVar[bool] = True

    def next(self, logits: Tensor, hidden: Tensor, made: Tensor, noise: Noise | None = None) -> Thought:
        """See `Thinker.next`; `noise` changes the mixture, never the halt."""
        probs = logits.softmax(-1)
        # differs from the paper: D17. It halts by argmax, which is early where the prior is flat
        if self.halt == "argmax":
            over = logits.argmax(-1) == self.end_think_id
        else:
            over = probs[:, self.end_think_id] > self.halt_threshold
        made_from = None
        if noise is not None:
            made_from = noised(logits, noise, made, self.end_think_id)
            probs = made_from.softmax(-1)
        # differs from the paper: D18. It feeds the halt token's share too
        if self.drop_halt:
            probs = probs.index_fill(1, torch.tensor([self.end_think_id], device=probs.device), 0.0)
        if not (self.harden or self.top_k):
            return Thought(over, mix_all(self.embedding, _normalised(probs)), logits=made_from)
        # differs from the paper: D19. It feeds the whole vocabulary
        weights, ids = probs.topk(1 if self.harden else min(self.top_k, probs.shape[-1]), dim=-1)  # [B, K]
        return Thought(over, mix(self.embedding, ids, _normalised(weights)), logits=made_from)


def _normalised(weights: Tensor) -> Tensor:
    # a row that is certain to halt has no mass left; it is not fed, but must not become NaN either
    return weights / weights.sum(-1, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny)


@dataclass
class TextThinker:
    """Written reasoning: feed the likeliest token until it is the end marker; with noise, a sampled one."""

    embedding: nn.Module
    end_think_id: int
    cap: int = 256
    thinks: bool = True
    takes_noise: ClassVar[bool] = True

    def next(self, logits: Tensor, hidden: Tensor, made: Tensor, noise: Noise | None = None) -> Thought:
        """See `Thinker.next`."""
        tokens = logits.argmax(-1) if noise is None else noised_tokens(logits, noise, made)
        return Thought(tokens == self.end_think_id, self.embedding(tokens), tokens)


@dataclass
class HiddenThinker:
    """Hidden states: feed the last one again, a fixed number of times.

    Attributes:
        count: Latents of every thought.
        project: What makes an input of a hidden state [B, D]; None feeds it as it is.
    """

    count: int
    project: nn.Module | None = None
    thinks: bool = True
    captures: ClassVar[bool] = True

    @property
    def cap(self) -> int:
        """All of them."""
        return self.count

    def next(self, logits: Tensor, hidden: Tensor, made: Tensor) -> Thought:
        """See `Thinker.next`."""
        return Thought(made >= self.count, hidden if self.project is None else self.project(hidden))


@dataclass
class NoThinker:
    """No thought at all: `</think>` follows `<think>` at once, or what is fed behind that where latents come in blocks."""

    cap: int = 0
    thinks: bool = False
    asking: tuple[int, ...] = ()

    def next(self, logits: Tensor, hidden: Tensor, made: Tensor) -> Thought:
        """See `Thinker.next`."""
        return Thought(torch.ones(len(logits), dtype=torch.bool, device=logits.device), hidden)


@dataclass
class ReplayThinker:
    """Latents given beforehand: feeds row b `latents[b]` in order, then halts. For ablations and agreement tests.

    Attributes:
        latents: One [N_b, D] tensor a row; N_b may be 0.
        asking: See the module's docstring.
    """

    latents: list[Tensor]
    thinks: bool = True
    asking: tuple[int, ...] = ()

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
