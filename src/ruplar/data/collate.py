"""Training items → padded or packed batches in flat form.

    ids   [ question <think> · · </think> answer eos | question <think> · </think> .. eos | pad ]
    mask  [    1        1    1 1     1       1    1  |    2        2    2    2        2   |  0  ]

Axes: B rows, S positions, M latents, K prior tokens, T labels.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ruplar.data.columnar import ColumnarDataset, Ragged, ranges, to_columns
from ruplar.types import Batch, Item


def collate(items: Sequence[Item], pad_id: int, width: int = 0) -> Batch:
    """Items → one batch; see `batch_of`."""
    return batch_of(to_columns(items), np.arange(len(items)), pad_id, width)


def batch_of(
    columns: ColumnarDataset, rows: np.ndarray, pad_id: int, width: int = 0, features: Ragged | None = None
) -> Batch:
    """Rows of a columnar dataset → one batch.

    Padding is on the right, which is as good as on the left: no position attends to a later one. Companions get one batch
    row each, whether or not the items are packed.

    Args:
        columns: The dataset.
        rows: Row numbers.
        pad_id: Token id of padding.
        width: 0 for one item per batch row; else items are packed into rows of this many positions. An item is never
            split: one that is longer widens the rows.
        features: Features to use instead of those of the dataset, one list for each of `rows`.
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
    to = ranges(offset, counts)
    ids.flat[to], positions.flat[to] = tokens, to - np.repeat(offset, counts)
    mask.flat[to] = np.repeat(_place_in_row(line), counts)
    label_at, label_counts = columns.label_at.take(rows)
    latent_at, latent_counts = columns.latent_at.take(rows)
    mark_at, mark_counts = columns.mark_at.take(rows)
    question_at = columns.question_at.take(rows)[0] + offset
    label_ids = columns.label_ids.take(rows)[0]
    share = np.repeat(1.0 / np.maximum(latent_counts, 1), latent_counts)
    prior_ids, prior_probs = _trim_priors(columns.prior_ids.take(rows)[0], columns.prior_probs.take(rows)[0])
    vectors = (columns.features.take(rows) if features is None else features.take(order))[0]
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
        features=torch.from_numpy(vectors) if len(vectors) else None,
        segments=_segments(offset, counts, ids.size) if packed else None,
        also={name: batch_of(columns.also[name], at.take(rows)[0], pad_id) for name, at in columns.also_at.items()},
    )


def pack_rows(lengths: Sequence[int] | np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Lengths → (row, start) of each item by best-fit decreasing: longest first, each into the fullest row with room.

    Rows are grouped by free space, and bit i of `free` says whether any row has i positions free, so no item scans all rows.
    """
    waiting: list[list[int]] = [[] for _ in range(width + 1)]
    free, count = 0, 0
    rows, starts = np.zeros(len(lengths), dtype=np.int64), np.zeros(len(lengths), dtype=np.int64)
    lengths = np.asarray(lengths)
    order = np.argsort(-lengths, kind="stable")
    for item, length in zip(order.tolist(), lengths[order].tolist(), strict=True):
        fitting = free >> length
        if fitting:
            room = length + (fitting & -fitting).bit_length() - 1
            row = waiting[room].pop()
            if not waiting[room]:
                free &= ~(1 << room)
        else:
            room, row, count = width, count, count + 1
        rows[item], starts[item] = row, width - room
        waiting[room - length].append(row)
        free |= 1 << (room - length)
    return rows, starts


def share_totals(batches: Sequence[dict[str, Any]], add_up: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """Write the totals of one optimizer step into each of its micro-batches, companions included."""
    names = sorted(batches[0]["also"])
    rows = [torch.stack([b["totals"], *(b["also"][name]["totals"] for name in names)]) for b in batches]
    totals = add_up(torch.stack(rows).sum(0))  # [1 + companions, 3]
    for batch in batches:
        batch["totals"] = totals[0]
        for row, name in enumerate(names, start=1):
            batch["also"][name]["totals"] = totals[row]
    return totals[0]


def _place_in_row(line: np.ndarray) -> np.ndarray:
    """Ascending batch rows of items → the number of each item in its row: 1, 2, .."""
    first = np.concatenate([[True], line[1:] != line[:-1]])
    return np.arange(len(line)) - np.flatnonzero(first)[np.cumsum(first) - 1] + 1 if len(line) else line


def _segments(starts: np.ndarray, counts: np.ndarray, size: int) -> torch.Tensor:
    """Starts and lengths of sequences in flat rows → starts of all sequences and of the padding between them, and the end."""
    bounds = np.unique(np.concatenate([[0, size], starts, starts + counts]))
    return torch.from_numpy(bounds.astype(np.int32))


def _trim_priors(ids: np.ndarray, probs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Priors [M, K] without the last columns that are 0 in all of them; at least one column stays."""
    if not len(ids):
        return np.zeros((0, 1), dtype=np.int64), np.zeros((0, 1), dtype=np.float32)
    used = 1 + int(np.flatnonzero((probs > 0).any(0)).max(initial=0))
    return ids[:, :used], np.ascontiguousarray(probs[:, :used])


def _long(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(values.astype(np.int64))
