"""Sums on the device and what is read of them."""

from __future__ import annotations

import math

import pytest
import torch

from ruplar.train.metrics import NORM, MetricAccumulator


def values(**numbers):
    return {name: torch.tensor(float(value)) for name, value in numbers.items()}


def test_the_first_step_that_was_not_finite_is_remembered_for_each_part():
    accumulator = MetricAccumulator()
    accumulator.add(values(answer=1, prior=1), values(tokens=1), 7)
    accumulator.add(values(answer=1, prior=math.nan), values(tokens=1), 8)
    accumulator.add(values(answer=math.inf, prior=1), values(tokens=1), 9)
    accumulator.add_norm(torch.tensor(math.inf), 9)
    assert accumulator.read().bad_at == {"prior": 8, "answer": 9, NORM: 9}
    accumulator.reset(tokens=3)
    assert accumulator.read().bad_at == {} and accumulator.tokens == 3


def test_a_part_may_not_take_a_name_that_a_row_of_the_curve_has():
    with pytest.raises(AssertionError, match="'step'"):
        MetricAccumulator().add({"step": torch.tensor(1.0)}, {}, 1)
