"""Examples → items → padded batches in flat form.

    ids   [ question <think> · · </think> answer eos | question <think> · </think> .. eos | pad ]
    mask  [    1        1    1 1     1       1    1  |    2        2    2    2        2   |  0  ]

Encoding needs no model, only its tokenizer, so it runs in data-loader workers; `Encoder` is picklable.
Axes: B rows, S positions, M latents, K prior tokens, T labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import Dataset

from ruplar.domains.base import Domain
from ruplar.priors.base import KEPT_SPANS, PriorTable
from ruplar.spans.base import attached, cut_chain
from ruplar.types import Batch, Example, Item, Markers, SampleContext, Span, SparsePrior

if TYPE_CHECKING:
    from ruplar.methods.base import Method
    from ruplar.model.prompt import PromptBuilder


@dataclass
class Encoder:
    """The recipe's prompt, spans and prior behind plain calls: what a method's `encode` may use (`methods.base.Tools`)."""

    prompt: PromptBuilder
    markers: Markers
    domain: Domain
    span_rule: Any
    priors: PriorTable
    _spans: dict[str, list[Span]] = field(default_factory=dict, repr=False)

    def __post_init__(self):
        attached(self.span_rule, self.prompt.plain, self.prompt.tokenizer)

    @property
    def think_id(self) -> int:
        """Id of `<think>`."""
        return self.markers.think_id

    @property
    def end_think_id(self) -> int:
        """Id of `</think>`."""
        return self.markers.end_think_id

    @property
    def eos_id(self) -> int:
        """Id that ends an answer."""
        return self.markers.eos_id

    def encode(self, text: str) -> list[int]:
        """Plain text → ids."""
        return self.prompt.plain(text)

    def answer(self, answer: str) -> list[int]:
        """The answer in the recipe's format, end token included."""
        return [*self.prompt.answer(answer), self.eos_id]

    def spans(self, example: Example) -> list[Span]:
        """The spans of all steps in order; each distinct step is cut once, unless the rule looks at the whole chain."""
        if hasattr(self.span_rule, "cut_chain"):
            return [span for cut in cut_chain(self.span_rule, example.steps, self.domain) for span in cut]
        out: list[Span] = []
        for step in example.steps:
            found = self._spans.get(step)
            if found is None:
                found = self.span_rule.cut(step, self.domain)
                if len(self._spans) < KEPT_SPANS:
                    self._spans[step] = found
            out += found
        return out

    def prior(self, span: Span, context: tuple[int, ...]) -> SparsePrior:
        """The span's target distribution."""
        return self.priors.of(span, context)


@dataclass
class ChainDataset(Dataset):
    """Examples as training items, encoded when asked for.

    Items that never change between visits are kept after their first encoding when `keep` is set.
    """

    examples: Sequence[Example]
    method: Method
    encoder: Encoder
    keep: bool = True
    _kept: dict[int, Item] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, context: SampleContext) -> Item:
        if context.row in self._kept:
            item = self._kept[context.row]
            return (
                replace(item, features=self.method.features(context, len(item.latent_at)))
                if self.method.draws
                else item
            )
        item = self.method.encode(self.examples[context.row], self.encoder, context)
        if self.keep and not (self.method.dynamic or self.encoder.priors.prior.dynamic):
            self._kept[context.row] = item
        return item

    def lengths(self) -> list[int]:
        """How long each row is, in letters: close enough to sort by, and nothing has to be encoded beforehand."""
        return [len(e.question) + sum(map(len, e.steps)) for e in self.examples]

    def collate(self, items: Sequence[Item], pad_id: int, width: int) -> Batch:
        """Items → one batch."""
        return collate(items, pad_id, width)


def collate(items: Sequence[Item], pad_id: int, width: int = 0) -> Batch:
    """Items → one batch, each in a row of its own padded on the right, or packed into rows of `width` positions.

    Right is as good as left here: nothing attends to what comes later. An item is never split; one longer than `width`
    widens the rows. Companions have a row each, whether or not the items are packed.
    """
    packed = width > 0
    lengths = [len(item.ids) for item in items]
    width = max([width, *lengths])
    places = [(row, 0) for row in range(len(items))]
    if packed:
        places = list(zip(*(found.tolist() for found in pack_rows(lengths, width)), strict=True))
    shape = (1 + max((row for row, _ in places), default=-1), width)
    ids = np.full(shape, pad_id, dtype=np.int64)
    mask = np.zeros(shape, dtype=np.int64)
    positions = np.tile(np.arange(width), (shape[0], 1))
    latent_at, share, question_at, mark_at = [], [], [], []
    label_at, label_ids = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    placed = sorted(zip(places, items, strict=True), key=lambda one: one[0])
    for (row, start), item in placed:
        offset, end, count = row * width + start, start + len(item.ids), len(item.latent_at)
        ids[row, start:end] = item.ids
        mask[row, start:end] = 1 + mask[row, start - 1] if start else 1
        positions[row, start:end] = np.arange(end - start)
        labels = np.asarray(item.labels, dtype=np.int64)
        supervised = np.flatnonzero(labels != -100)
        label_at.append(supervised + offset - 1)  # the output one position earlier predicts it
        label_ids.append(labels[supervised])
        latent_at += [offset + at for at in item.latent_at]
        share += [1.0 / max(count, 1)] * count
        question_at += [offset + item.question_at] * count
        mark_at += [offset + at for at in item.mark_at]
    ordered = [item for _, item in placed]
    prior_ids, prior_probs = pad_priors([prior for item in ordered for prior in item.priors])
    flat_labels = np.concatenate(label_ids)
    thinking = sum(1 for item in items if item.latent_at)
    return Batch(
        ids=torch.from_numpy(ids),
        mask=torch.from_numpy(mask),
        positions=torch.from_numpy(positions),
        latent_at=torch.tensor(latent_at, dtype=torch.long),
        latent_share=torch.tensor(share, dtype=torch.float32),
        question_at=torch.tensor(question_at, dtype=torch.long),
        prior_ids=torch.from_numpy(prior_ids),
        prior_probs=torch.from_numpy(prior_probs),
        label_at=torch.from_numpy(np.concatenate(label_at)),
        label_ids=torch.from_numpy(flat_labels),
        totals=torch.tensor([len(flat_labels), thinking, len(latent_at)], dtype=torch.float32),
        packed=packed,
        mark_at=torch.tensor(mark_at, dtype=torch.long),
        features=_features(ordered),
        also=_companions(ordered, pad_id),
    )


def _features(items: Sequence[Item]) -> torch.Tensor | None:
    rows = [vector for item in items for vector in item.features]
    return torch.from_numpy(np.stack(rows).astype(np.float32)) if rows else None


def _companions(items: Sequence[Item], pad_id: int) -> dict[str, Batch]:
    names = {frozenset(item.also) for item in items}
    assert len(names) <= 1, "every item of a method names the same companions"
    found = {name: [one for item in items for one in item.also[name]] for name in sorted(frozenset().union(*names))}
    return {name: collate(sequences, pad_id) for name, sequences in found.items()}


def share_totals(batches: Sequence[dict[str, Any]], add_up: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """Tell the micro-batches of one optimiser step, companions included, the totals of them all.

    Args:
        batches: Each as `Batch.as_dict` gives it; changed in place.
        add_up: Sum over processes.

    Returns:
        [3] the totals of the sequences themselves.
    """
    names = sorted(batches[0]["also"])
    rows = [torch.stack([b["totals"], *(b["also"][name]["totals"] for name in names)]) for b in batches]
    totals = add_up(torch.stack(rows).sum(0))  # [1 + companions, 3]
    for batch in batches:
        batch["totals"] = totals[0]
        for row, name in enumerate(names, start=1):
            batch["also"][name]["totals"] = totals[row]
    return totals[0]


def pack_rows(lengths: Sequence[int] | np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Lengths → (row, start) of each: the longest first, each into the fullest row with room.

    Rows wait by how much room they have, and one bit of `open_at` a room says where any do, so that no item looks at
    every row.
    """
    waiting: list[list[int]] = [[] for _ in range(width + 1)]
    open_at, count = 0, 0
    rows, starts = np.zeros(len(lengths), dtype=np.int64), np.zeros(len(lengths), dtype=np.int64)
    lengths = np.asarray(lengths)
    for item, length in zip(*(x.tolist() for x in _longest_first(lengths)), strict=True):
        fitting = open_at >> length
        if fitting:
            room = length + (fitting & -fitting).bit_length() - 1
            row = waiting[room].pop()
            if not waiting[room]:
                open_at &= ~(1 << room)
        else:
            room, row, count = width, count, count + 1
        rows[item], starts[item] = row, width - room
        waiting[room - length].append(row)
        open_at |= 1 << (room - length)
    return rows, starts


def _longest_first(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(-lengths, kind="stable")
    return order, lengths[order]


def pad_priors(priors: Sequence[SparsePrior]) -> tuple[np.ndarray, np.ndarray]:
    """[M, K] ids and probs; unused places are id 0 with probability 0."""
    width = max((len(p.ids) for p in priors), default=1)
    ids = np.zeros((len(priors), width), dtype=np.int64)
    probs = np.zeros((len(priors), width), dtype=np.float32)
    for row, prior in enumerate(priors):
        ids[row, : len(prior.ids)] = prior.ids
        probs[row, : len(prior.ids)] = prior.probs
    return ids, probs
