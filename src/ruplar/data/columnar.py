"""Training items → flat arrays, so that a batch of any rows is built without a Python object per row.

    items   [5 7 2] [5 9] [4 1 1 2]        one list of ids each
    values   5 7 2   5 9   4 1 1 2         one array
    starts   0       3     5       9       where each item begins; the last is the end

The arrays may be memory-mapped files: concurrent runs then share one copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from ruplar.types import Item, SparsePrior


@dataclass(frozen=True)
class Ragged:
    """Lists of numbers, or of rows of numbers, concatenated."""

    values: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, lists: Sequence[Sequence | np.ndarray], dtype: type, shape: tuple[int, ...] = ()) -> Ragged:
        """Lists → one array; `shape` is the shape of one value."""
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
        """Return the lengths of the lists of these rows."""
        return self.starts[rows + 1] - self.starts[rows]

    def take(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the lists of these rows, concatenated, and their lengths."""
        counts = self.counts(rows)
        return self.values[ranges(self.starts[rows], counts)], counts


@dataclass(frozen=True)
class ColumnarDataset:
    """All items of a training set in flat form; the fields are those of `Item`."""

    ids: Ragged
    label_at: Ragged
    label_ids: Ragged
    latent_at: Ragged
    prior_ids: Ragged  # [K] per prior, 0 in unused places; empty for methods without priors
    prior_probs: Ragged  # [K] per prior, 0 in unused places
    question_at: Ragged  # one number per item: where its question closes
    mark_at: Ragged
    features: Ragged  # [F] per latent; empty without features
    # companions by name, those of all items in one dataset
    also: dict[str, ColumnarDataset] = field(default_factory=dict)
    # companions by name: the rows of `also` that belong to each item
    also_at: dict[str, Ragged] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)


COLUMNS = tuple(column.name for column in fields(ColumnarDataset) if column.name not in ("also", "also_at"))


def to_columns(items: Sequence[Item]) -> ColumnarDataset:
    labels = [np.asarray(item.labels, dtype=np.int64) for item in items]
    supervised: list[Any] = [np.flatnonzero(one != -100) for one in labels]
    prior_starts = counting([len(item.priors) for item in items]).starts
    prior_ids, prior_probs = pad_priors([prior for item in items for prior in item.priors])
    feature_count = max((len(vector) for item in items for vector in item.features), default=0)
    names = sorted(frozenset().union(*(item.also for item in items)))
    assert all(len(item.also) == len(names) for item in items), "every item of a method names the same companions"
    companions = {name: [one for item in items for one in item.also[name]] for name in names}
    return ColumnarDataset(
        ids=Ragged.of([item.ids for item in items], np.int32),
        label_at=Ragged.of(supervised, np.int32),
        label_ids=Ragged.of([one[at] for one, at in zip(labels, supervised, strict=True)], np.int32),
        latent_at=Ragged.of([item.latent_at for item in items], np.int32),
        prior_ids=Ragged(prior_ids, prior_starts),
        prior_probs=Ragged(prior_probs, prior_starts),
        question_at=Ragged.of([[item.question_at] for item in items], np.int32),
        mark_at=Ragged.of([item.mark_at for item in items], np.int32),
        features=Ragged.of([item.features for item in items], np.float32, (feature_count,)),
        also={name: to_columns(found) for name, found in companions.items()},
        also_at={name: counting([len(item.also[name]) for item in items]) for name in names},
    )


def pad_priors(priors: Sequence[SparsePrior]) -> tuple[np.ndarray, np.ndarray]:
    """Priors → [M, K] ids and probs; unused places are id 0 with probability 0."""
    width = max((len(p.ids) for p in priors), default=1)
    ids = np.zeros((len(priors), width), dtype=np.int32)
    probs = np.zeros((len(priors), width), dtype=np.float32)
    for row, prior in enumerate(priors):
        ids[row, : len(prior.ids)] = prior.ids
        probs[row, : len(prior.ids)] = prior.probs
    return ids, probs


def ranges(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return starts[0], starts[0] + 1, … (counts[0] numbers), then the same for the next start, concatenated."""
    ends = np.cumsum(counts)
    return np.repeat(starts - (ends - counts), counts) + np.arange(ends[-1] if len(ends) else 0)


def counting(counts: Sequence[int] | np.ndarray) -> Ragged:
    """Lengths → lists of these lengths that count 0, 1, 2, … on from one to the next."""
    starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    return Ragged(np.arange(starts[-1], dtype=np.int64), starts)
