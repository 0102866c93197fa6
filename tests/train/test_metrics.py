"""Sums on the device and what is read of them."""

from __future__ import annotations

import math

import pytest
import torch
from pytest import approx

from ruplar.train.metrics import NORM, MetricAccumulator


def values(**numbers):
    return {name: torch.tensor(float(value)) for name, value in numbers.items()}


def test_parts_are_means_over_steps_and_metrics_are_ratios():
    accumulator = MetricAccumulator()
    accumulator.steps = 2
    # step 1 in two micro-batches, step 2 in one
    accumulator.add(
        values(answer=0.5, prior=1.0), values(halt_right=3, halt_seen=4, latents=2, entropy_sum=3, tokens=10), 1
    )
    accumulator.add(
        values(answer=0.25, prior=0.0), values(halt_right=1, halt_seen=4, latents=2, entropy_sum=1, tokens=10), 1
    )
    accumulator.add(
        values(answer=0.25, prior=1.0), values(halt_right=4, halt_seen=8, latents=4, entropy_sum=4, tokens=12), 2
    )
    found = accumulator.read()
    assert found.parts == {"answer": approx(0.5), "prior": approx(1.0)} and found.loss == approx(1.5)
    assert found.figures == {"halting": approx(8 / 16), "entropy": approx(8 / 8)}
    assert found.tokens == 32 and found.bad_at == {}


def test_the_first_step_that_was_not_finite_is_remembered_for_each_part():
    accumulator = MetricAccumulator()
    accumulator.add(values(answer=1, prior=1), values(tokens=1), 7)
    accumulator.add(values(answer=1, prior=math.nan), values(tokens=1), 8)
    accumulator.add(values(answer=math.inf, prior=1), values(tokens=1), 9)
    accumulator.add_norm(torch.tensor(math.inf), 9)
    assert accumulator.read().bad_at == {"prior": 8, "answer": 9, NORM: 9}
    accumulator.reset(tokens=3)
    assert accumulator.read().bad_at == {} and accumulator.tokens == 3


def test_a_saved_accumulator_resumes(tmp_path):
    accumulator = MetricAccumulator()
    accumulator.steps = 1
    accumulator.add(values(answer=1 / 3), values(tokens=5), 1)
    accumulator.save(tmp_path / "tally.json", None, write=True)
    again = MetricAccumulator.load(tmp_path / "tally.json", main=True)
    for one in (accumulator, again):
        one.steps += 1
        one.add(values(answer=0.1), values(tokens=6), 2)
    assert again.read() == accumulator.read()
    assert (
        MetricAccumulator.load(tmp_path / "tally.json", main=False).read().tokens == 0
    )  # other processes add nothing twice


def test_sums_of_all_processes_are_added_and_the_earliest_fault_wins():
    accumulator = MetricAccumulator()
    accumulator.steps = 1
    accumulator.add(values(answer=1), values(tokens=5), 4)
    other = torch.tensor([[[2.0, 7.0, 0.0], [3.0, math.inf, math.inf]]])
    found = accumulator.read(lambda mine: torch.cat([mine, other]))
    assert found.parts == {"answer": 3.0} and found.tokens == 12 and found.bad_at == {"answer": 3}


def test_a_part_may_not_take_a_name_that_a_row_of_the_curve_has():
    with pytest.raises(AssertionError, match="'step'"):
        MetricAccumulator().add({"step": torch.tensor(1.0)}, {}, 1)
