"""The nouns that travel between modules: plain data, no behaviour beyond reading them.

    raw chain –domain→ steps –spans→ Span –prior→ SparsePrior –method.encode→ Item –batch→ Batch –method.loss→ Loss
    question –prompt→ Prompt –engine→ Answer (with its Latents) –score→ Score

Axes: B rows, S positions, D width, V vocabulary, M latents of a whole batch, T labels of a whole batch, K kept tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np

Encode = Callable[[str], list[int]]
"""Text → token ids: no special tokens are added and none can be written by the text."""


class Markers(NamedTuple):
    """Token ids that delimit thought and answer: `<think>`, `</think>` (the halt token), and the end of the answer."""

    think_id: int
    end_think_id: int
    eos_id: int


@dataclass(frozen=True, slots=True)
class Example:
    """One problem with its written reasoning.

    Attributes:
        question: The problem as the user states it.
        steps: The units of the chain in order, without their `<<` `>>`; empty when the chain has none.
        answer: The marked answer as text, e.g. `"72"`.
        source: Where it stands, `file:line` (or `name:index`), for messages.
        chain: The reasoning as it was written, markup included.
    """

    question: str
    steps: tuple[str, ...]
    answer: str
    source: str = ""
    chain: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """The piece of a step that becomes one latent.

    Attributes:
        text: The piece as written.
        symbols: Its symbols in order and with repeats, the result's own included: `20 * 1.20 = 24`.
        result: The symbols to favour; empty where no result is emphasised (the every-k split).
    """

    text: str
    symbols: tuple[str, ...]
    result: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class SparsePrior:
    """A distribution over the vocabulary with few tokens: ids int64 [K], distinct; probs float32 [K], summing to 1."""

    ids: np.ndarray
    probs: np.ndarray


@dataclass(frozen=True, slots=True)
class Prompt:
    """A question as the model reads it.

    Attributes:
        ids: Token ids up to and including the opening of the assistant's turn; no think marker yet.
        question_at: Index of the token that closes the question (the paper's h_q).
    """

    ids: tuple[int, ...]
    question_at: int


class SampleContext(NamedTuple):
    """When a row is due in training: the only source of variation between one encoding of it and the next.

    Attributes:
        epoch: Passes over the data before this one.
        row: Its number among the training chains.
        progress: Share of the run's optimiser steps done by then, 0 to less than 1.
        seed: The run's; whoever draws takes it in.
    """

    epoch: int
    row: int
    progress: float = 0.0
    seed: int = 0

    @property
    def key(self) -> tuple[int, int, int]:
        """What names the random stream of this visit."""
        return self.seed, self.epoch, self.row


@dataclass(slots=True)
class Item:
    """One training sequence, before padding.

    Attributes:
        ids: Every position's token id; a placeholder (any valid id) where a latent stands.
        labels: For each position the id to predict *at that position from the one before it*, or -100.
        latent_at: Positions of the latents, ascending.
        priors: One per latent, for methods that teach by priors; else none.
        question_at: Position of the token that closes the question.
        mark_at: Positions the method wants to find again in the batch.
        features: One vector of F numbers per latent, for methods that are given them; else none.
        also: Companion sequences by name (a teacher's text, the text of each step). Every item of a method has the same
            names; where one has no such sequence, an empty list.
    """

    ids: list[int]
    labels: list[int]
    latent_at: list[int] = field(default_factory=list)
    priors: list[SparsePrior] = field(default_factory=list)
    question_at: int = 0
    mark_at: list[int] = field(default_factory=list)
    features: list[np.ndarray] = field(default_factory=list)
    also: dict[str, list[Item]] = field(default_factory=dict)


@dataclass(slots=True)
class Batch:
    """Sequences in rows, padded or packed, in flat form: every supervised position is one index into [B*S].

    Attributes:
        ids: [B, S] token ids, pad id where there is nothing.
        mask: [B, S] 0 where nothing stands, else which sequence of its row stands there: 1, 2, ..; 1 when not packed.
        positions: [B, S] position ids, counted from each sequence's first token.
        latent_at: [M] where each latent is *consumed* (its input position). It is predicted at `latent_at - 1`.
        latent_share: [M] weight of each latent in a mean over its row, then over rows: 1 / N of its row.
        question_at: [M] where the question of this latent's row closes.
        prior_ids: [M, K] token ids of each prior; 0 in unused places.
        prior_probs: [M, K] float32, 0 in unused places.
        label_at: [T] position whose output predicts the label.
        label_ids: [T] the labels.
        totals: [3] float: labels, thinking rows and latents of the whole optimiser step this batch is part of. Losses
            are sums divided by these, so that 8 batches of 1 accumulate to exactly one batch of 8.
        packed: Whether a row may hold several sequences, which then must not see each other.
        mark_at: [X] the items' marked positions, in the order of the latents.
        features: [M, F] float32, one row per latent; None without features.
        also: Companion sequences by name, those of all items one after another in the order of the latents, each in a
            row of its own padded on the right. A batch of them may have no row at all.
    """

    ids: Any
    mask: Any
    positions: Any
    latent_at: Any
    latent_share: Any
    question_at: Any
    prior_ids: Any
    prior_probs: Any
    label_at: Any
    label_ids: Any
    totals: Any
    packed: bool = False
    mark_at: Any = None
    features: Any = None
    also: dict[str, Batch] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Field name → tensor, the form data loaders and trainers move between devices; companions as dicts too."""
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        return {**found, "also": {name: batch.as_dict() for name, batch in self.also.items()}}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Batch:
        """What `as_dict` gave → the batch."""
        return cls(**{**values, "also": {name: cls.from_dict(batch) for name, batch in values["also"].items()}})

    def to(self, device) -> Batch:
        """The same batch on another device."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        moved = {k: v.to(device, non_blocking=True) for k, v in values.items() if hasattr(v, "to")}
        return replace(self, **moved, also={name: batch.to(device) for name, batch in self.also.items()})


@dataclass(frozen=True, slots=True)
class Latent:
    """One soft token the model thought, in readable form.

    Attributes:
        tokens: Its most probable tokens, most probable first.
        probs: Their probabilities.
        entropy: Entropy in nats of the whole distribution.
        halt: Probability the model gave to ending the thought here.
    """

    tokens: tuple[str, ...]
    probs: tuple[float, ...]
    entropy: float
    halt: float


@dataclass(slots=True)
class Answer:
    """What came out for one question, and what it cost.

    Attributes:
        text: Decoded text after the thought.
        thought: Written reasoning of a text method, else "".
        latents: Readable latents, when asked for.
        latent_count: Soft tokens fed (for a text method: reasoning tokens), markers not counted: the paper's #L.
        answer_tokens: Tokens generated after the thought, end token included.
        forwards: Model calls this question needed, the prefill included.
        halted: Whether the thought ended by itself rather than at the cap.
        ended: Whether the answer ended by itself rather than at the limit.
    """

    text: str
    thought: str = ""
    latents: tuple[Latent, ...] = ()
    latent_count: int = 0
    answer_tokens: int = 0
    forwards: int = 0
    halted: bool = True
    ended: bool = True


@dataclass(frozen=True, slots=True)
class Score:
    """Right or wrong, and why: `found` is the answer read from the text, None when it could not be read."""

    correct: bool
    found: str | None
