import numpy as np
import pytest

from ruplar.report.paired import difference, holm

A = np.array([[1, 1, 1, 0], [1, 1, 0, 0]], float)
B = np.array([[1, 0, 0, 0], [0, 0, 0, 0]], float)


def test_one_seed_each_is_mcnemars_exact_test():
    first, second = np.array([[1] * 9 + [0]], float), np.array([[0] * 8 + [1, 1]], float)
    found = difference(first, second)
    # they differ on nine questions, 8 to 1: 2 * (1 + 9) / 2^9 = 0.0390625; 9 - 2 right of ten is 0.7
    assert (found.mean, found.p, found.test) == (pytest.approx(0.7), 0.0390625, "McNemar, questions")
    assert found.low < 0.7 < found.high


def test_several_seeds_must_beat_the_chance_of_seeds_and_questions():
    found = difference(A, B)
    # by question 0.5, 1, 0.5, 0: mean 0.5, variance 1/6, of the mean 1/24
    # seeds: 0.75 and 0.5, 0.25 and 0: variance 1/32 each, of the means 1/64 + 1/64
    # single answers: residuals of ±1/8 (six) and ±3/8 (two), squares sum to 3/8, over (1)(3) and 8: 1/64 each
    # together 1/32 + (1/24 - 1/32) = 1/24; degrees of freedom (1/24)^2 / (2 / 64^2) = 3.56, taken as 3
    # t = 0.5 * sqrt(24) = sqrt(6); with 3 degrees of freedom the angle is atan(sqrt 2): p = 0.0917, t(95 %) = 3.182
    assert found.mean == 0.5 and found.test == "t, seeds and questions"
    assert found.p == pytest.approx(0.0917, abs=5e-5)
    assert (found.low, found.high) == pytest.approx((0.5 - 3.182 / 24**0.5, 1.0), abs=1e-3)  # no more than all of it
    turned = difference(B, A)
    assert (turned.mean, turned.p) == (-0.5, pytest.approx(found.p))


def test_against_a_single_seed_only_the_questions_chance_is_covered():
    found = difference(A, B[:1])
    # by question 0, 1, 0.5, 0: mean 0.375, variance 0.2292, of the mean 0.0573; t = 1.567, normal: p = 0.117
    assert found.test == "t, questions"
    assert (found.mean, found.p) == (0.375, pytest.approx(0.117, abs=1e-3))


def test_where_both_ask_the_same_models_a_seeds_luck_cancels():
    first, second = np.array([[1, 1, 0, 0], [1, 0, 0, 0]], float), np.array([[0, 1, 0, 0], [0, 0, 0, 0]], float)
    found = difference(first, second, shared=True)
    # the first question alone differs, in both seeds: by question 1, 0, 0, 0, variance of the mean 1/16; none of the seeds
    assert (found.mean, found.test) == (0.25, "t, seeds and questions, same models")
    assert found.p == pytest.approx(0.3173, abs=1e-4)  # 0.25 / 0.25 is one standard error
    assert found.p < difference(first, second).p
    same = difference(first, first, shared=True)
    assert (same.low, same.high, same.p) == (0.0, 0.0, 1.0)


def test_without_any_scatter_the_signs_are_the_evidence():
    always, never = np.ones((2, 6)), np.zeros((2, 6))
    assert difference(always, never).p == 2 / 64
    assert difference(always, always).p == 1.0


def test_holm_multiplies_by_the_tests_left_and_never_turns_back():
    # sorted 0.01, 0.02, 0.03, 0.04: times 4, 3, 2, 1 is 0.04, 0.06, 0.06, 0.04, and the last may not fall below 0.06
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0] and holm([]) == []


TOLD = [0, 0, 0, 1, 1, 1]
"""Two scenarios, three questions each."""
NONE = np.zeros((1, 6))


def test_one_scenario_says_nothing_and_equal_signs_are_counted_by_scenario():
    found = difference(np.ones((1, 6)), NONE, groups=[0] * 6)
    assert (found.mean, found.low, found.high, found.p) == (1.0, -1.0, 1.0, 1.0)
    assert difference(np.ones((2, 6)), np.zeros((2, 6)), groups=TOLD).p == 2 / 4
