"""Plain data types shared by all modules.

    raw chain –domain→ steps –spans→ Span –prior→ SparsePrior –method.encode→ Item –batch→ Batch –method.loss→ Loss
    question –prompt→ Prompt –engine→ Answer (with its Latents) –score→ Score

Axes: B rows, S positions, D width, V vocabulary, M latents of a batch, T labels of a batch, K tokens of a prior.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np

Encode = Callable[[str], list[int]]
"""Text → token ids, without special tokens, even if the text contains their names."""


class Markers(NamedTuple):
    """Token ids that delimit thought and answer: `<think>`, `</think>` (the halt token), and the end of the answer."""

    think_id: int
    end_think_id: int
    eos_id: int


class HasMarkers:
    """Shorthands for the ids in `markers`."""

    markers: Markers

    @property
    def think_id(self) -> int:
        """Id of `<think>`."""
        return self.markers.think_id

    @property
    def end_think_id(self) -> int:
        """Id of `</think>`, the halt token."""
        return self.markers.end_think_id

    @property
    def eos_id(self) -> int:
        """Id that ends an answer."""
        return self.markers.eos_id


@dataclass(frozen=True, slots=True)
class Example:
    """One problem with its written reasoning.

    Attributes:
        question: The problem.
        steps: The steps of the chain in order, without `<<` `>>`; empty if there are none.
        answer: The marked answer as text, e.g. `"72"`.
        source: Its location for messages, `file:line` or `name:index`.
        chain: The reasoning as written, with markup.
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
        text: The text of the span.
        symbols: Its symbols in order, with repeats, including the result: `20 * 1.20 = 24`.
        result: The symbols that the prior emphasises; may be empty.
    """

    text: str
    symbols: tuple[str, ...]
    result: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class SparsePrior:
    """A sparse distribution over the vocabulary: distinct ids int64 [K]; probs float32 [K] that sum to 1."""

    ids: np.ndarray
    probs: np.ndarray


@dataclass(frozen=True, slots=True)
class Prompt:
    """A tokenized question.

    Attributes:
        ids: Token ids up to and including the start of the assistant's turn, without `<think>`.
        question_at: Index of the token that closes the question (the paper's h_q).
    """

    ids: tuple[int, ...]
    question_at: int


class SampleContext(NamedTuple):
    """When a training sample is used: the only source of variation between two encodings of the same row.

    Attributes:
        epoch: Number of completed epochs.
        row: Row number in the training data.
        progress: Share of the optimizer steps that are done, 0 to less than 1.
        seed: Seed of the run.
    """

    epoch: int
    row: int
    progress: float = 0.0
    seed: int = 0

    @property
    def key(self) -> tuple[int, int, int]:
        """The key of the random generator of this sample."""
        return self.seed, self.epoch, self.row


@dataclass(slots=True)
class Item:
    """One training sequence, before padding.

    Attributes:
        ids: Token id of every position; a placeholder (any valid id) at a latent.
        labels: For each position the id to predict *at that position from the one before it*, or -100.
        latent_at: Positions of the latents, ascending.
        priors: One per latent, for methods that train on priors; else empty.
        question_at: Position of the token that closes the question.
        mark_at: Other positions that the method needs in the batch.
        features: One vector of F numbers per latent, for methods that use them; else empty.
        also: Companion sequences by name, such as the teacher's text. Every item of a method has the same names; the list
            of an item may be empty.
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
        ids: [B, S] token ids, padded.
        mask: [B, S] 0 for padding, else the number of the sequence in its row: 1, 2, ..; always 1 if not packed.
        positions: [B, S] position ids, counted from the first token of each sequence.
        latent_at: [M] input position of each latent. It is predicted at `latent_at - 1`.
        latent_share: [M] weight of each latent in a mean over its sequence, then over sequences: 1 / N of its sequence.
        question_at: [M] position where the question of this latent's sequence closes.
        prior_ids: [M, K] token ids of each prior; 0 in unused places.
        prior_probs: [M, K] float32, 0 in unused places.
        label_at: [T] position whose output predicts the label.
        label_ids: [T] the labels.
        totals: [3] float: labels, sequences with latents, and latents of the whole optimizer step. Losses are sums divided
            by these, so that 8 batches of 1 accumulate to exactly one batch of 8.
        packed: Whether a row may contain several sequences, which then must not attend to each other.
        segments: [sequences + 1] int32, where each sequence and each padding starts in [B*S], and B*S; None if not packed.
        mark_at: [X] marked positions of the items, in the order of the latents.
        features: [M, F] float32, one row per latent; None without features.
        also: Companion sequences by name, those of all items in the order of the latents, one per row, padded on the
            right. Such a batch may have no rows.
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
    segments: Any = None

    def as_dict(self) -> dict[str, Any]:
        """Return field name → tensor, the form that data loaders move between devices; companions are dicts, too."""
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        return {**found, "also": {name: batch.as_dict() for name, batch in self.also.items()}}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Batch:
        """Return the batch of an `as_dict`."""
        return cls(**{**values, "also": {name: cls.from_dict(batch) for name, batch in values["also"].items()}})

    def to(self, device) -> Batch:
        """Return the same batch on another device."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        moved = {k: v.to(device, non_blocking=True) for k, v in values.items() if hasattr(v, "to")}
        return replace(self, **moved, also={name: batch.to(device) for name, batch in self.also.items()})


@dataclass(frozen=True, slots=True)
class Latent:
    """One latent in readable form.

    Attributes:
        tokens: Its most probable tokens, in descending order.
        probs: Their probabilities.
        entropy: Entropy of the whole distribution, in nats.
        halt: Probability of halting here.
    """

    tokens: tuple[str, ...]
    probs: tuple[float, ...]
    entropy: float
    halt: float


@dataclass(slots=True)
class Answer:
    """The output for one question, and its cost.

    Attributes:
        text: Decoded text after the latents.
        thought: Written reasoning of a text method, else "".
        latents: Readable latents, if requested.
        latent_count: Latents (for a text method: reasoning tokens), without markers: the paper's #L.
        answer_tokens: Tokens generated after the latents, including the end token.
        forwards: Forward passes, including the prefill.
        halted: Whether thinking ended by halting rather than at the maximum.
        ended: Whether the answer ended with the end token rather than at the maximum.
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
    """Whether an answer is right; `found` is the answer extracted from the text, None if there is none."""

    correct: bool
    found: str | None
