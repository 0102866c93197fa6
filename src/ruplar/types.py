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
        return self.markers.think_id

    @property
    def end_think_id(self) -> int:
        return self.markers.end_think_id

    @property
    def eos_id(self) -> int:
        return self.markers.eos_id


@dataclass(frozen=True, slots=True)
class Example:
    """One problem with its written reasoning."""

    question: str
    steps: tuple[str, ...]  # the steps of the chain in order, without `<<` `>>`; empty if there are none
    answer: str  # the marked answer as text, e.g. `"72"`
    source: str = ""  # its location for messages, `file:line` or `name:index`
    chain: str = ""  # the reasoning as written, with markup


@dataclass(frozen=True, slots=True)
class Span:
    """The piece of a step that becomes one latent."""

    text: str
    symbols: tuple[str, ...]  # its symbols in order, with repeats, including the result: `20 * 1.20 = 24`
    result: tuple[str, ...] = ()  # the symbols that the prior emphasises; may be empty


@dataclass(frozen=True, slots=True, eq=False)
class SparsePrior:
    """A sparse distribution over the vocabulary: distinct ids int64 [K]; probs float32 [K] that sum to 1."""

    ids: np.ndarray
    probs: np.ndarray


@dataclass(frozen=True, slots=True)
class Prompt:
    """A tokenized question."""

    ids: tuple[int, ...]  # token ids up to and including the start of the assistant's turn, without `<think>`
    question_at: int  # index of the token that closes the question (the paper's h_q)


class SampleContext(NamedTuple):
    """When a training sample is used: the only source of variation between two encodings of the same row."""

    epoch: int  # number of completed epochs
    row: int  # row number in the training data
    progress: float = 0.0  # share of the optimizer steps that are done, 0 to less than 1
    seed: int = 0  # seed of the run

    @property
    def key(self) -> tuple[int, int, int]:
        return self.seed, self.epoch, self.row


@dataclass(slots=True)
class Item:
    """One training sequence, before padding."""

    ids: list[int]  # token id of every position; a placeholder (any valid id) at a latent
    labels: list[int]  # for each position the id to predict *at that position from the one before it*, or -100
    latent_at: list[int] = field(default_factory=list)  # positions of the latents, ascending
    priors: list[SparsePrior] = field(default_factory=list)  # one per latent where a method trains on priors
    question_at: int = 0  # position of the token that closes the question
    mark_at: list[int] = field(default_factory=list)  # other positions that the method needs in the batch
    features: list[np.ndarray] = field(default_factory=list)  # [F] per latent where a method uses them
    # companion sequences by name, such as the teacher's text; all items of a method have the same names
    also: dict[str, list[Item]] = field(default_factory=dict)

    def __post_init__(self):
        if len(self.labels) != len(self.ids):
            raise ValueError(f"{len(self.ids)} ids but {len(self.labels)} labels; -100 where nothing is learned")


@dataclass(slots=True)
class Batch:
    """Sequences in rows, padded or packed, in flat form: every supervised position is one index into [B*S]."""

    ids: Any  # [B, S] token ids, padded
    mask: Any  # [B, S] 0 for padding, else the number of the sequence in its row: 1, 2, ..; always 1 if not packed
    positions: Any  # [B, S] position ids, counted from the first token of each sequence
    latent_at: Any  # [M] input position of each latent. It is predicted at `latent_at - 1`
    latent_share: Any  # [M] weight of each latent in a mean over sequences: 1 / latents of its sequence
    question_at: Any  # [M] position where the question of this latent's sequence closes
    prior_ids: Any  # [M, K] token ids of each prior; 0 in unused places
    prior_probs: Any  # [M, K] float32, 0 in unused places
    label_at: Any  # [T] position whose output predicts the label
    label_ids: Any  # [T] the labels
    # [3] float: labels, sequences with latents, and latents of the whole optimizer step. Losses are sums divided by
    # these, so that 8 batches of 1 accumulate to exactly one batch of 8
    totals: Any
    packed: bool = False  # whether a row may contain several sequences, which then must not attend to each other
    mark_at: Any = None  # [X] marked positions of the items, in the order of the latents
    features: Any = None  # [M, F] float32, one row per latent; None without features
    # companion sequences by name, of all items in the order of the latents, one per row, padded on the right; may be empty
    also: dict[str, Batch] = field(default_factory=dict)
    # packed: [sequences + 1] int32, where each sequence and each padding starts in [B*S], and B*S
    segments: Any = None

    def as_dict(self) -> dict[str, Any]:
        """Return field name → tensor, the form that data loaders move between devices; companions are dicts, too."""
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        return {**found, "also": {name: batch.as_dict() for name, batch in self.also.items()}}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Batch:
        return cls(**{**values, "also": {name: cls.from_dict(batch) for name, batch in values["also"].items()}})

    def to(self, device) -> Batch:
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
