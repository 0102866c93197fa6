"""Last output of the model → the next input while thinking, or the end of the thought.

The engine owns the cache, the masks and the answer. A `Thinker` makes one decision per decode step, for all rows at once:
halt, or feed which embedding next? A text chain is the same loop with token embeddings instead of soft tokens.

A thinker that supports noise sets `takes_noise` and gets each row's `Noise` as a fourth argument of `next` when some row
has noise. For the others a question with noise is refused.

Axes: B rows, V vocabulary, D width.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, Protocol

import torch
from torch import Tensor, nn

from ruplar.engine.sampling import Decoding, Noise, noised, noised_tokens
from ruplar.errors import UserError
from ruplar.model.soft_tokens import mix, mix_all


@dataclass
class NextInput:
    """One decision of a thinker for every row."""

    halt: Tensor  # [B] bool, true where the thought is over; `embeds` is not fed there
    embeds: Tensor  # [B, D] what to feed next where it continues
    tokens: Tensor | None = None  # [B] the tokens fed, for thinkers that write text; None otherwise
    # [B, V] the noised logits the latents were made from; None where they are the model's own
    logits: Tensor | None = None


class Thinker(Protocol):
    """How a method turns the model's last output into its next latent."""

    @property
    def cap(self) -> int:
        """Maximum number of latents of a thought; the engine ends it there."""

    @property
    def thinks(self) -> bool:
        """False for methods that answer at once: `</think>` is then part of the prefill."""

    def next(self, logits: Tensor, hidden: Tensor, made: Tensor) -> NextInput:
        """Logits [B, V] float32, last hidden state [B, D] and number of latents so far [B] → the decision."""


def room(thinker: Thinker) -> int:
    """Maximum positions a question needs beyond its prompt and its answer: both markers and the latents."""
    return 2 + (thinker.cap if thinker.thinks else 0)


def check_decoding(thinker: Thinker, decoding: Decoding) -> None:
    """Refuse decoding options that this thinker would ignore."""
    name = type(thinker).__name__
    if decoding.noisy and not getattr(thinker, "takes_noise", False):
        raise UserError(f"noise: {name} does not sample its latents. Leave noise out; temperature samples the answer.")
    by_threshold = isinstance(thinker, SoftThinker) and thinker.halt == "threshold"
    if decoding.halt_threshold is not None and not by_threshold:
        raise UserError(f"halt_threshold: {name} does not halt by a threshold here. Leave it out.")


def override_halt(halt: Tensor, logits: Tensor, end_think_id: int, thresholds: Sequence[float | None]) -> Tensor:
    """[B] bool: P(halt) > threshold in rows that have a threshold of their own, the thinker's decision in the others."""
    rows = [row for row, value in enumerate(thresholds) if value is not None]
    if not rows:
        return halt
    at = torch.tensor(rows, device=halt.device)
    above = torch.tensor([thresholds[row] for row in rows], device=halt.device)
    halt = halt.clone()
    halt[at] = logits[at].softmax(-1)[:, end_think_id] > above
    return halt


@dataclass
class SoftThinker:
    """Soft tokens: feed the expected embedding under the model's own next-token distribution."""

    embedding: nn.Module  # the input embedding module (adapters included)
    end_think_id: int
    # `argmax`: halt when it is the most likely token (as published); `threshold`: when P(halt) > halt_threshold
    halt: Literal["argmax", "threshold"] = "threshold"
    halt_threshold: float = 0.5
    top_k: int = 10  # tokens of a soft token, renormalised; 0 uses the whole vocabulary (as published)
    drop_halt: bool = True  # remove the halt token from the mixture; training never mixes it in
    harden: bool = False  # feed only the most likely token: an ablation
    cap: int = 16  # maximum number of latents
    thinks: bool = True
    takes_noise: ClassVar[bool] = True

    def next(self, logits: Tensor, hidden: Tensor, made: Tensor, noise: Noise | None = None) -> NextInput:
        """See `Thinker.next`; `noise` changes the mixture, never the halt."""
        source = None if noise is None else noised(logits, noise, made, self.end_think_id)
        return self.soft_token(logits, source, self.embedding, partial(mix_all, self.embedding))

    def soft_token(
        self, logits: Tensor, source: Tensor | None, embed: Any, mix_vocabulary: Callable[[Tensor], Tensor]
    ) -> NextInput:
        """The decision, without tensors made on the host, so that a CUDA graph can capture it.

        `logits` [B, V] decide the halt; the mixture is made from the noised `source`, or from them.
        """
        probs = logits.softmax(-1)
        # differs from the paper: D17. It halts by argmax, which is early where the prior is flat
        if self.halt == "argmax":
            over = logits.argmax(-1) == self.end_think_id
        else:
            over = probs[:, self.end_think_id] > self.halt_threshold
        if source is not None:
            probs = source.softmax(-1)
        # differs from the paper: D18. It feeds the halt token's share too
        if self.drop_halt:
            probs[:, self.end_think_id].zero_()
        if not (self.harden or self.top_k):
            return NextInput(over, mix_vocabulary(_normalised(probs)), logits=source)
        # differs from the paper: D19. It feeds the whole vocabulary
        weights, ids = probs.topk(1 if self.harden else min(self.top_k, probs.shape[-1]), dim=-1)  # [B, K]
        return NextInput(over, mix(embed, ids, _normalised(weights)), logits=source)


def _normalised(weights: Tensor) -> Tensor:
    # a row that is certain to halt has no mass left; it is not fed, but must not become NaN
    return weights / weights.sum(-1, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny)


@dataclass
class TextThinker:
    """Written reasoning: feed the most likely token, or with noise a sampled one, until it is the end marker."""

    embedding: nn.Module
    end_think_id: int
    cap: int = 256
    thinks: bool = True
    takes_noise: ClassVar[bool] = True

    def next(self, logits: Tensor, hidden: Tensor, made: Tensor, noise: Noise | None = None) -> NextInput:
        tokens = logits.argmax(-1) if noise is None else noised_tokens(logits, noise, made)
        return NextInput(tokens == self.end_think_id, self.embedding(tokens), tokens)


@dataclass
class HiddenThinker:
    """Hidden states: feed the last one back, a fixed number of times."""

    count: int
    project: nn.Module | None = None  # hidden state [B, D] → input [B, D]; None feeds it unchanged
    thinks: bool = True
    captures: ClassVar[bool] = True

    @property
    def cap(self) -> int:
        return self.count

    def next(self, logits: Tensor, hidden: Tensor, made: Tensor) -> NextInput:
        return NextInput(made >= self.count, hidden if self.project is None else self.project(hidden))


@dataclass
class NoThinker:
    """No latents: `</think>` follows `<think>` in the prefill."""

    cap: int = 0
    thinks: bool = False

    def next(self, logits: Tensor, hidden: Tensor, made: Tensor) -> NextInput:
        return NextInput(torch.ones(len(logits), dtype=torch.bool, device=logits.device), hidden)


@dataclass
class ReplayThinker:
    """Given latents: feed row b `latents[b]` in order, then halt. For ablations, in the reference engine only."""

    latents: list[Tensor]  # one [N_b, D] tensor per row; N_b may be 0
    thinks: bool = True

    @property
    def cap(self) -> int:
        return max((len(rows) for rows in self.latents), default=0)

    def next(self, logits: Tensor, hidden: Tensor, made: Tensor) -> NextInput:
        embeds = torch.zeros_like(hidden)
        halt = torch.ones(len(hidden), dtype=torch.bool, device=hidden.device)
        for row, (latents, at) in enumerate(zip(self.latents, made.tolist(), strict=True)):
            if at < len(latents):
                embeds[row], halt[row] = latents[at].to(embeds), False
        return NextInput(halt, embeds)
