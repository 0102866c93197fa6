"""Which row comes when: places, epochs, processes, accumulation."""

import itertools

import pytest
import torch
from accelerate.data_loader import BatchSamplerShard
from torch.utils.data import BatchSampler

from ruplar.train.sampler import EpochPlan, Order, by_length, in_order, shuffled


def test_the_run_moves_on_with_every_optimiser_step():
    # 10 rows, batches of 2, 2 batches a step: steps of 4, 4, 2 rows, 3 an epoch
    plan = EpochPlan(rows=10, batch=2, accumulate=2, max_steps=6)
    assert (plan.steps_per_epoch, plan.steps) == (3, 6)
    assert [plan.progress(0, place) * 6 for place in range(10)] == pytest.approx([0] * 4 + [1] * 4 + [2] * 2)
    assert plan.progress(1, 0) == 3 / 6
    assert plan.progress(2, 9) == 5 / 6, "what workers fetch past the end is no further than the last step"


@pytest.mark.parametrize(("epochs", "steps"), [(1.0, 3), (2.5, 8), (0.1, 1)])
def test_without_max_steps_the_epochs_say_how_long_it_is(epochs, steps):
    assert EpochPlan(rows=10, batch=4, epochs=epochs).steps == steps  # 3 steps an epoch


@pytest.mark.parametrize("rows", [12, 13, 15, 5])
@pytest.mark.parametrize("drop_last", [False, True])
def test_on_several_processes_each_batch_has_the_progress_of_its_step(rows, drop_last):
    plan = EpochPlan(rows, batch=2, processes=3, accumulate=2, drop_last=drop_last, max_steps=20)
    for epoch in (0, 1):
        order = Order(shuffled(rows), plan, seed=3)
        order.set_epoch(epoch)
        samplers = [BatchSampler(order, 2, drop_last) for _ in range(3)]
        shards = [list(BatchSamplerShard(one, num_processes=3, process_index=i)) for i, one in enumerate(samplers)]
        assert len({len(batches) for batches in shards}) == 1
        for batches in shards:
            for number, batch in enumerate(batches):
                step = epoch * plan.steps_per_epoch + number // 2
                assert [context.progress for context in batch] == [step / 20] * 2
        seen = [context.row for context in itertools.chain(*itertools.chain(*shards))]
        assert drop_last or set(seen) == set(range(rows))


def test_the_order_follows_seed_and_epoch_and_every_row_comes_once():
    def rows(seed, epoch):
        order = Order(shuffled(50), EpochPlan(50, 4), seed)
        order.set_epoch(epoch)
        return [context.row for context in order]

    assert rows(1, 0) == rows(1, 0) and sorted(rows(1, 0)) == list(range(50))
    assert rows(1, 0) != rows(1, 1) and rows(1, 0) != rows(9, 0)
    # the order accelerate's own sampler gives, so that runs of earlier versions repeat
    assert rows(1, 2) == torch.randperm(50, generator=torch.Generator().manual_seed(3)).tolist()


def test_rows_in_their_own_order_and_by_length():
    assert [v.row for v in Order(in_order(5), EpochPlan(5, 2), 0)] == [0, 1, 2, 3, 4]
    lengths = [i % 10 for i in range(100)]

    def spread(arrange):
        rows = [v.row for v in Order(arrange, EpochPlan(100, 10), 0)]
        assert sorted(rows) == list(range(100))
        batches = [[lengths[row] for row in rows[i : i + 10]] for i in range(0, 100, 10)]
        return sum(max(batch) - min(batch) for batch in batches)

    assert spread(by_length(lengths, 10)) < 0.7 * spread(shuffled(100))
