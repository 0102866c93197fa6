"""Training items → flat arrays, and any rows of them → a batch, without a Python object per row.

    items   [5 7 2] [5 9] [4 1 1 2]        one list of ids each
    values   5 7 2   5 9   4 1 1 2         one array
    starts   0       3     5       9       where each item begins; the last is the end

A batch made here is the batch `collate` makes of the same items, without encoding them again. The arrays may be files
mapped into memory: runs side by side share one copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ruplar.data.collate import pack_rows, pad_priors
from ruplar.types import Batch, Item


@dataclass(frozen=True)
class Ragged:
    """Lists of numbers (or of rows of them) one after another.

    Attributes:
        values: [total, ...].
        starts: [lists + 1] where each begins.
    """

    values: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, lists: Sequence[Sequence | np.ndarray], dtype: type, shape: tuple[int, ...] = ()) -> Ragged:
        """Lists → one array; `shape` is that of one value."""
        starts = np.zeros(len(lists) + 1, dtype=np.int64)
        np.cumsum([len(one) for one in lists], out=starts[1:])
        values = np.empty((starts[-1], *shape), dtype=dtype)
        for one, start in zip(lists, starts.tolist(), strict=False):
            if len(one):
                values[start : start + len(one)] = one
        return cls(values, starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def counts(self, rows: np.ndarray) -> np.ndarray:
        """[rows] how long each list is."""
        return self.starts[rows + 1] - self.starts[rows]

    def take(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The lists of these rows one after another, and how long each is."""
        counts = self.counts(rows)
        return self.values[_ranges(self.starts[rows], counts)], counts

    @classmethod
    def joined(cls, parts: Sequence[Ragged]) -> Ragged:
        """Several one after another."""
        ends = np.cumsum([0, *(len(part.values) for part in parts)])
        starts = [part.starts[:-1] + end for part, end in zip(parts, ends, strict=False)]
        return cls(np.concatenate([part.values for part in parts]), np.concatenate([*starts, ends[-1:]]))


@dataclass(frozen=True)
class ColumnarDataset:
    """All items of a training set in flat form; the fields are those of `Item`.

    Attributes:
        ids: Token ids.
        label_at: Positions with a label.
        label_ids: The labels.
        latent_at: Positions of latents.
        prior_ids: [K] a prior, 0 in unused places; none where the method teaches by none.
        prior_probs: [K] its probabilities, 0 in unused places.
        question_at: Where each question closes: one number an item.
        mark_at: Marked positions.
        features: [F] a latent; none without features.
        also: Companions by name, those of all items on one shelf.
        also_at: Companions by name, the numbers of each item's own.
    """

    ids: Ragged
    label_at: Ragged
    label_ids: Ragged
    latent_at: Ragged
    prior_ids: Ragged
    prior_probs: Ragged
    question_at: Ragged
    mark_at: Ragged
    features: Ragged
    also: dict[str, ColumnarDataset] = field(default_factory=dict)
    also_at: dict[str, Ragged] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)


COLUMNS = (
    "ids", "label_at", "label_ids", "latent_at", "prior_ids", "prior_probs", "question_at", "mark_at", "features",
)  # fmt: skip


def to_columns(items: Sequence[Item]) -> ColumnarDataset:
    """Items → a shelf."""
    labels = [np.asarray(item.labels, dtype=np.int64) for item in items]
    supervised: list[Any] = [np.flatnonzero(one != -100) for one in labels]
    priors = [prior for item in items for prior in item.priors]
    prior_starts = _numbers([len(item.priors) for item in items]).starts
    prior_ids, prior_probs = pad_priors(priors)
    many = max((len(vector) for item in items for vector in item.features), default=0)
    names = sorted(frozenset().union(*(item.also for item in items)))
    flat = {name: [one for item in items for one in item.also[name]] for name in names}
    return ColumnarDataset(
        ids=Ragged.of([item.ids for item in items], np.int32),
        label_at=Ragged.of(supervised, np.int32),
        label_ids=Ragged.of([one[at] for one, at in zip(labels, supervised, strict=True)], np.int32),
        latent_at=Ragged.of([item.latent_at for item in items], np.int32),
        prior_ids=Ragged(prior_ids.astype(np.int32), prior_starts),
        prior_probs=Ragged(prior_probs, prior_starts),
        question_at=Ragged.of([[item.question_at] for item in items], np.int32),
        mark_at=Ragged.of([item.mark_at for item in items], np.int32),
        features=Ragged.of([item.features for item in items], np.float32, (many,)),
        also={name: to_columns(found) for name, found in flat.items()},
        also_at={name: _numbers([len(item.also[name]) for item in items]) for name in names},
    )


def join(datasets: Sequence[ColumnarDataset]) -> ColumnarDataset:
    """Concatenate data sets in the order of their items."""
    names = sorted(frozenset().union(*(one.also for one in datasets)))
    columns = {}
    for name in COLUMNS:
        parts = [getattr(one, name) for one in datasets]
        wide = max((part.values.shape[1] for part in parts if part.values.ndim == 2), default=0)
        columns[name] = Ragged.joined([_widened(part, wide) for part in parts])
    starts = {name: [np.diff(one.also_at[name].starts) for one in datasets] for name in names}
    return ColumnarDataset(
        **columns,
        also={name: join([one.also[name] for one in datasets]) for name in names},
        also_at={name: _numbers(np.concatenate(starts[name])) for name in names},
    )


def batch_of(
    columns: ColumnarDataset, rows: np.ndarray, pad_id: int, width: int = 0, drawn: Ragged | None = None
) -> Batch:
    """Rows of a shelf → one batch, padded or packed as `collate` does it.

    `drawn` are features in place of the shelf's, a list for each of `rows`.
    """
    packed, lengths = width > 0, columns.ids.counts(rows)
    width = int(max([width, *lengths]))
    line, start = pack_rows(lengths, width) if packed else (np.arange(len(rows)), np.zeros(len(rows), dtype=np.int64))
    order = np.lexsort((start, line))
    rows, line, start = rows[order], line[order], start[order]
    offset = line * width + start
    shape = (1 + int(line.max(initial=-1)), width)
    ids, mask = np.full(shape, pad_id, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    positions = np.tile(np.arange(width), (shape[0], 1))
    tokens, counts = columns.ids.take(rows)
    to = _ranges(offset, counts)
    ids.flat[to], positions.flat[to] = tokens, to - np.repeat(offset, counts)
    mask.flat[to] = np.repeat(_place_in(line), counts)
    label_at, label_counts = columns.label_at.take(rows)
    latent_at, latent_counts = columns.latent_at.take(rows)
    mark_at, mark_counts = columns.mark_at.take(rows)
    question_at = columns.question_at.take(rows)[0] + offset
    label_ids = columns.label_ids.take(rows)[0]
    share = np.repeat(1.0 / np.maximum(latent_counts, 1), latent_counts)
    prior_ids, prior_probs = _trimmed(columns.prior_ids.take(rows)[0], columns.prior_probs.take(rows)[0])
    features = (columns.features.take(rows) if drawn is None else drawn.take(order))[0]
    totals = [len(label_ids), int((latent_counts > 0).sum()), len(latent_at)]
    return Batch(
        ids=torch.from_numpy(ids),
        mask=torch.from_numpy(mask),
        positions=torch.from_numpy(positions),
        latent_at=_long(latent_at + np.repeat(offset, latent_counts)),
        latent_share=torch.from_numpy(share.astype(np.float32)),
        question_at=_long(np.repeat(question_at, latent_counts)),
        prior_ids=_long(prior_ids),
        prior_probs=torch.from_numpy(prior_probs),
        label_at=_long(label_at + np.repeat(offset, label_counts) - 1),  # the output one position earlier predicts it
        label_ids=_long(label_ids),
        totals=torch.tensor(totals, dtype=torch.float32),
        packed=packed,
        mark_at=_long(mark_at + np.repeat(offset, mark_counts)),
        features=torch.from_numpy(features) if len(features) else None,
        also={name: batch_of(columns.also[name], at.take(rows)[0], pad_id) for name, at in columns.also_at.items()},
    )


def _ranges(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """starts[0], starts[0] + 1, .. counts[0] of them, then the same for the next."""
    ends = np.cumsum(counts)
    return np.repeat(starts - (ends - counts), counts) + np.arange(ends[-1] if len(ends) else 0)


def _place_in(line: np.ndarray) -> np.ndarray:
    """Ascending rows of items → which item of its row each is: 1, 2, .."""
    first = np.concatenate([[True], line[1:] != line[:-1]])
    return np.arange(len(line)) - np.flatnonzero(first)[np.cumsum(first) - 1] + 1 if len(line) else line


def _trimmed(ids: np.ndarray, probs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Priors without the places that none of them uses; one place where there are none."""
    if not len(ids):
        return np.zeros((0, 1), dtype=np.int64), np.zeros((0, 1), dtype=np.float32)
    used = int((probs > 0).sum(1).max())
    return ids[:, :used], np.ascontiguousarray(probs[:, :used])


def _numbers(counts: Sequence[int] | np.ndarray) -> Ragged:
    """Lists 0, 1, .. one after another, of these lengths."""
    starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    return Ragged(np.arange(starts[-1], dtype=np.int64), starts)


def _widened(part: Ragged, width: int) -> Ragged:
    if part.values.ndim == 1 or part.values.shape[1] == width:
        return part
    return Ragged(np.pad(part.values, ((0, 0), (0, width - part.values.shape[1]))), part.starts)


def _long(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(values.astype(np.int64))
