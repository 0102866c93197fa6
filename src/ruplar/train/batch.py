"""Examples → items → padded batches in flat form.

    ids   [ question <think> · · </think> answer eos | question <think> · </think> .. eos | pad ]
    mask  [    1        1    1 1     1       1    1  |    2        2    2    2        2   |  0  ]

Encoding needs no model, only its tokenizer, so it runs in data-loader workers; `Encoder` is picklable.
Axes: B rows, S positions, M latents, K prior tokens, T labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from ruplar.backbone.prompt import PromptBuilder
from ruplar.domains.base import Domain
from ruplar.methods.base import Method
from ruplar.priors.base import KEPT_SPANS, PriorTable
from ruplar.records import Batch, Example, Item, Span, SparsePrior


@dataclass
class Encoder:
    """The recipe's prompt, spans and prior behind plain calls: what a method's `encode` may use (`methods.base.Tools`)."""

    prompt: PromptBuilder
    think_id: int
    end_think_id: int
    eos_id: int
    domain: Domain
    span_rule: Any
    priors: PriorTable
    _spans: dict[str, list[Span]] = field(default_factory=dict, repr=False)

    def encode(self, text: str) -> list[int]:
        """Plain text → ids."""
        return self.prompt.plain(text)

    def answer(self, answer: str) -> list[int]:
        """The answer in the recipe's format, end token included."""
        return [*self.prompt.answer(answer), self.eos_id]

    def spans(self, example: Example) -> list[Span]:
        """The spans of all steps in order; each distinct step is cut once."""
        out: list[Span] = []
        for step in example.steps:
            found = self._spans.get(step)
            if found is None:
                found = self.span_rule.cut(step, self.domain)
                if len(self._spans) < KEPT_SPANS:
                    self._spans[step] = found
            out += found
        return out

    def prior(self, span: Span, visit: tuple[int, ...]) -> SparsePrior:
        """The span's target distribution."""
        return self.priors.of(span, visit)


@dataclass
class ChainDataset(Dataset):
    """Examples as training items, encoded when asked for.

    Items that never change between epochs are kept after their first encoding when `keep` is set.
    """

    examples: Sequence[Example]
    method: Method
    encoder: Encoder
    keep: bool = True
    epoch: int = 0
    _kept: dict[int, Item] = field(default_factory=dict, repr=False)

    def set_epoch(self, epoch: int) -> None:
        """Called by the trainer before each epoch: fresh priors draw anew, curricula move on."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, row: int) -> Item:
        if row in self._kept:
            return self._kept[row]
        item = self.method.encode(self.examples[row], self.encoder, (self.epoch, row))
        if self.keep and not self.encoder.priors.prior.fresh:
            self._kept[row] = item
        return item


def collate(items: Sequence[Item], pad_id: int, width: int = 0) -> Batch:
    """Items → one batch, each in a row of its own padded on the right, or packed into rows of `width` positions.

    Right is as good as left here: nothing attends to what comes later. An item is never split; one longer than `width`
    widens the rows.
    """
    packed = width > 0
    lengths = [len(item.ids) for item in items]
    width = max(width, *lengths)
    places = _pack(lengths, width) if packed else [(row, 0) for row in range(len(items))]
    shape = (1 + max(row for row, _ in places), width)
    ids = np.full(shape, pad_id, dtype=np.int64)
    mask = np.zeros(shape, dtype=np.int64)
    positions = np.tile(np.arange(width), (shape[0], 1))
    latent_at, share, question_at, label_at, label_ids = [], [], [], [], []
    priors: list[SparsePrior] = []
    for (row, start), item in sorted(zip(places, items, strict=True), key=lambda placed: placed[0]):
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
        priors += item.priors
    prior_ids, prior_probs = _pad_priors(priors)
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
        totals=torch.tensor([len(flat_labels), thinking], dtype=torch.float32),
        packed=packed,
    )


def _pack(lengths: Sequence[int], width: int) -> list[tuple[int, int]]:
    """Lengths → (row, start) of each: the longest first, each into the first row with room."""
    free: list[int] = []
    places = [(0, 0)] * len(lengths)
    for item in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        row = next((r for r, room in enumerate(free) if room >= lengths[item]), len(free))
        if row == len(free):
            free.append(width)
        places[item] = (row, width - free[row])
        free[row] -= lengths[item]
    return places


def _pad_priors(priors: Sequence[SparsePrior]) -> tuple[np.ndarray, np.ndarray]:
    """[M, K] ids and probs; unused places are id 0 with probability 0."""
    width = max((len(p.ids) for p in priors), default=1)
    ids = np.zeros((len(priors), width), dtype=np.int64)
    probs = np.zeros((len(priors), width), dtype=np.float32)
    for row, prior in enumerate(priors):
        ids[row, : len(prior.ids)] = prior.ids
        probs[row, : len(prior.ids)] = prior.probs
    return ids, probs
