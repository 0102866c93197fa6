"""Items → batches, worked out by hand; and rows of a columnar dataset → the same batches."""

import dataclasses

import numpy as np
import pytest
import torch

from ruplar.data.collate import batch_of, collate, pack_rows, share_totals
from ruplar.data.columnar import to_columns
from ruplar.data.pretokenize import join, load, write
from ruplar.types import Batch, Item, SparsePrior

NONE = -100


def prior(*pairs):
    ids, probs = zip(*pairs, strict=True)
    return SparsePrior(np.array(ids, dtype=np.int64), np.array(probs, dtype=np.float32))


def items():
    """Two items: one with two latents, features and a companion, one with a single latent and neither."""
    teacher = Item(ids=[8, 9], labels=[NONE, 9])
    first = Item(
        ids=[11, 12, 0, 0, 13],
        labels=[NONE, NONE, NONE, NONE, 13],
        latent_at=[2, 3],
        priors=[prior((5, 0.75), (6, 0.25)), prior((7, 1.0))],
        question_at=1,
        mark_at=[4],
        features=[np.array([1.0, 2.0]), np.array([3.0, 4.0])],
        also={"teacher": [teacher]},
    )
    second = Item(
        ids=[21, 0, 22],
        labels=[NONE, NONE, 22],
        latent_at=[1],
        priors=[prior((4, 1.0))],
        question_at=0,
        features=[np.array([5.0, 6.0])],
        also={"teacher": []},
    )
    return [first, second]


def test_a_padded_batch_has_one_item_per_row():
    batch = collate(items(), pad_id=99)
    assert batch.ids.tolist() == [[11, 12, 0, 0, 13], [21, 0, 22, 99, 99]]
    assert batch.mask.tolist() == [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]
    assert batch.positions.tolist() == [[0, 1, 2, 3, 4]] * 2 and not batch.packed
    # flat positions: row 0 starts at 0, row 1 at 5
    assert batch.latent_at.tolist() == [2, 3, 6] and batch.latent_share.tolist() == [0.5, 0.5, 1.0]
    assert batch.question_at.tolist() == [1, 1, 5] and batch.mark_at.tolist() == [4]
    # a label is predicted one position earlier: 4 - 1, and 5 + 2 - 1
    assert batch.label_at.tolist() == [3, 6] and batch.label_ids.tolist() == [13, 22]
    assert batch.prior_ids.tolist() == [[5, 6], [7, 0], [4, 0]]
    assert batch.prior_probs.tolist() == [[0.75, 0.25], [1.0, 0.0], [1.0, 0.0]]
    assert batch.features.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert batch.totals.tolist() == [2, 2, 3]  # labels, items with latents, latents
    teacher = batch.also["teacher"]
    assert (
        teacher.ids.tolist() == [[8, 9]] and teacher.label_at.tolist() == [0] and teacher.totals.tolist() == [1, 0, 0]
    )


def test_a_packed_batch_puts_several_items_into_a_row():
    batch = collate(items(), pad_id=99, width=9)
    assert batch.ids.tolist() == [[11, 12, 0, 0, 13, 21, 0, 22, 99]] and batch.packed
    assert batch.mask.tolist() == [[1, 1, 1, 1, 1, 2, 2, 2, 0]]
    assert batch.positions.tolist() == [[0, 1, 2, 3, 4, 0, 1, 2, 8]]
    assert batch.latent_at.tolist() == [2, 3, 6] and batch.label_at.tolist() == [3, 6]
    assert batch.also["teacher"].ids.tolist() == [[8, 9]]  # companions are never packed


def test_items_without_latents_labels_marks_or_companions_are_a_batch():
    batch = collate([Item(ids=[3, 4, 5], labels=[NONE] * 3) for _ in range(2)], 0)
    assert batch.ids.tolist() == [[3, 4, 5]] * 2 and batch.totals.tolist() == [0, 0, 0]
    assert batch.prior_ids.shape == (0, 1) and batch.latent_at.shape == (0,) and batch.features is None
    with pytest.raises(ValueError, match="3 ids but 1 labels"):
        Item(ids=[3, 4, 5], labels=[5])


def _random_item(seed, companions=True):
    rng = np.random.default_rng(seed)
    size, latents = int(rng.integers(6, 30)), int(rng.integers(0, 4))
    labels = np.where(rng.random(size) < 0.3, rng.integers(0, 90, size), NONE)
    labels[0] = NONE
    return Item(
        ids=rng.integers(0, 90, size).tolist(),
        labels=labels.tolist(),
        latent_at=list(range(2, 2 + latents)),
        priors=[prior(*((i, 0.5 / (i + 1)) for i in range(int(rng.integers(1, 6))))) for _ in range(latents)],
        question_at=1,
        mark_at=[size - 1],
        features=[rng.random(3).astype(np.float32) for _ in range(latents)],
        also={"teacher": [_random_item(1000 + seed * 7 + i, False) for i in range(seed % 3)]} if companions else {},
    )


def assert_equal(a: Batch, b: Batch):
    for field in dataclasses.fields(Batch):
        one, two = getattr(a, field.name), getattr(b, field.name)
        if field.name == "also":
            assert one.keys() == two.keys()
            for name in one:
                assert_equal(one[name], two[name])
        elif isinstance(one, torch.Tensor):
            assert one.dtype == two.dtype and torch.equal(one, two), field.name
        else:
            assert one == two, field.name


@pytest.mark.parametrize("width", [0, 64, 8], ids=["padded", "packed", "packed, some items wider than the rows"])
def test_any_rows_of_joined_datasets_are_the_batch_of_their_items(tmp_path, width):
    found = [_random_item(seed) for seed in range(40)]
    parts = [tmp_path / name for name in "abc"]
    for part, some in zip(parts, (found[:7], found[7:25], found[25:]), strict=True):
        write(to_columns(some), part)
    join(parts, tmp_path / "joined")
    columns = load(tmp_path / "joined")
    rows = np.random.default_rng(3).permutation(40)[:17]
    assert_equal(batch_of(columns, rows, 5, width), collate([found[row] for row in rows], 5, width))


def test_packing_fills_the_fullest_row_with_room():
    # longest first: 6 opens row 0 (2 left), 5 opens row 1 (3 left), 3 goes to row 1, 2 to row 0
    rows, starts = pack_rows([2, 6, 3, 5], 8)
    assert rows.tolist() == [0, 0, 1, 1] and starts.tolist() == [6, 0, 5, 0]


def test_packed_items_never_overlap_and_leave_little_room():
    lengths = np.random.default_rng(0).integers(1, 33, 500)
    rows, starts = pack_rows(lengths, 64)
    used = np.zeros((rows.max() + 1, 64), dtype=int)
    for row, start, length in zip(rows, starts, lengths, strict=True):
        used[row, start : start + length] += 1
    assert used.max() == 1 and used.sum() == lengths.sum() and used.mean() > 0.97


def test_totals_are_shared_by_the_micro_batches_of_a_step():
    batches = [collate([item], 0).as_dict() for item in items()]
    totals = share_totals(batches, lambda rows: 2 * rows)  # two processes with the same batches
    assert totals.tolist() == [4, 4, 6] and all(b["totals"].tolist() == [4, 4, 6] for b in batches)
    assert [b["also"]["teacher"]["totals"].tolist() for b in batches] == [[2, 0, 0]] * 2
