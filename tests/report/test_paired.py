from pathlib import Path

import numpy as np
import pytest
from report_toys import record, write_run, write_study

from ruplar.errors import UserError
from ruplar.evaluate.record import read_record, read_samples, write_record, write_samples
from ruplar.launch import _kept_samples
from ruplar.report.paired import BOTH, MCNEMAR, QUESTIONS, SHARED, difference, holm, marks, pairs
from ruplar.report.rows import collect

A = np.array([[1, 1, 1, 0], [1, 1, 0, 0]], float)
B = np.array([[1, 0, 0, 0], [0, 0, 0, 0]], float)


def test_one_seed_each_is_mcnemars_exact_test():
    first, second = np.array([[1] * 9 + [0]], float), np.array([[0] * 8 + [1, 1]], float)
    found = difference(first, second)
    # they differ on nine questions, 8 to 1: 2 * (1 + 9) / 2^9 = 0.0390625; 9 - 2 right of ten is 0.7
    assert (found.mean, found.p, found.test) == (pytest.approx(0.7), 0.0390625, MCNEMAR)
    assert found.low < 0.7 < found.high


def test_several_seeds_must_beat_the_chance_of_seeds_and_questions():
    found = difference(A, B)
    # by question 0.5, 1, 0.5, 0: mean 0.5, variance 1/6, of the mean 1/24
    # seeds: 0.75 and 0.5, 0.25 and 0: variance 1/32 each, of the means 1/64 + 1/64
    # single answers: residuals of ±1/8 (six) and ±3/8 (two), squares sum to 3/8, over (1)(3) and 8: 1/64 each
    # together 1/32 + (1/24 - 1/32) = 1/24; degrees of freedom (1/24)^2 / (2 / 64^2) = 3.56, taken as 3
    # t = 0.5 * sqrt(24) = sqrt(6); with 3 degrees of freedom the angle is atan(sqrt 2): p = 0.0917, t(95 %) = 3.182
    assert found.mean == 0.5 and found.test == BOTH
    assert found.p == pytest.approx(0.0917, abs=5e-5)
    assert (found.low, found.high) == pytest.approx((0.5 - 3.182 / 24**0.5, 1.0), abs=1e-3)  # no more than all of it
    turned = difference(B, A)
    assert (turned.mean, turned.p) == (-0.5, pytest.approx(found.p))


def test_against_a_single_seed_only_the_questions_chance_is_covered():
    found = difference(A, B[:1])
    # by question 0, 1, 0.5, 0: mean 0.375, variance 0.2292, of the mean 0.0573; t = 1.567, normal: p = 0.117
    assert found.test == QUESTIONS
    assert (found.mean, found.p) == (0.375, pytest.approx(0.117, abs=1e-3))


def test_where_both_ask_the_same_models_a_seeds_luck_cancels():
    first, second = np.array([[1, 1, 0, 0], [1, 0, 0, 0]], float), np.array([[0, 1, 0, 0], [0, 0, 0, 0]], float)
    found = difference(first, second, shared=True)
    # the first question alone differs, in both seeds: by question 1, 0, 0, 0, variance of the mean 1/16; none of the seeds
    assert (found.mean, found.test) == (0.25, SHARED)
    assert found.p == pytest.approx(0.3173, abs=1e-4)  # 0.25 / 0.25 is one standard error
    assert found.p < difference(first, second).p
    same = difference(first, first, shared=True)
    assert (same.low, same.high, same.p) == (0.0, 0.0, 1.0)


def test_a_row_that_asks_anothers_models_is_paired_with_it_by_seed():
    folder = Path(__file__).parents[2] / "results" / "beyond"
    rows = [row for row in collect([folder]) if row.benchmark == "word-problems"]
    tests = {pair.method: pair.test for pair in pairs(rows, "RuPLaR-Mix")}
    assert {name for name, test in tests.items() if test == SHARED} == {
        "whole mixture fed", "halt mass fed", "argmax halting", "early halting",
    }  # fmt: skip


def test_without_any_scatter_the_signs_are_the_evidence():
    always, never = np.ones((2, 6)), np.zeros((2, 6))
    assert difference(always, never).p == 2 / 64
    assert difference(always, always).p == 1.0


def test_holm_multiplies_by_the_tests_left_and_never_turns_back():
    # sorted 0.01, 0.02, 0.03, 0.04: times 4, 3, 2, 1 is 0.04, 0.06, 0.06, 0.04, and the last may not fall below 0.06
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0] and holm([]) == []


def test_rows_are_compared_with_the_best_or_with_one_named(tmp_path):
    rows = collect(write_study(tmp_path / "toy"))
    [pair] = pairs(rows)
    assert (pair.method, pair.against, pair.n, pair.difference) == ("bad", "good", 4, -50.0)
    assert pair.p == pair.holm == pytest.approx(0.0917, abs=5e-5)
    [turned] = pairs(rows, "bad")
    assert (turned.method, turned.against, turned.difference) == ("good", "bad", 50.0)
    with pytest.raises(UserError, match="unknown row 'god'. Did you mean 'good'"):
        pairs(rows, "god")


def test_of_equals_the_one_with_fewer_forwards_is_the_best(tmp_path):
    write_run(tmp_path, "slow", 1, "10", forwards=9)
    write_run(tmp_path, "quick", 1, "01", forwards=3)
    assert pairs(collect(tmp_path))[0].against == "quick"


def test_missing_samples_or_other_questions_are_told(tmp_path):
    write_run(tmp_path, "a", 1, "1100")
    write_record(record(1, 3, "b", 4, study="toy"), tmp_path / "b-seed1")
    with pytest.raises(UserError, match="holds 0 of the 4 answers"):
        pairs(collect(tmp_path))
    write_run(tmp_path, "b", 1, "11000")
    with pytest.raises(UserError, match="different questions"):
        pairs(collect(tmp_path))


def test_grading_a_run_leniently_too_leaves_its_strict_marks_as_they_were(tmp_path):
    home = write_run(tmp_path, "good", 1, "1000")
    fresh = [{**row, "decoding": "greedy", "lenient": True, "correct": True} for row in read_samples(home)]
    write_samples([*_kept_samples(home, fresh), *fresh], home)  # as `ruplar evaluate --lenient` does
    kind = read_record(home).benchmarks[0].model_copy(update={"lenient": True, "correct": 4})
    write_record(read_record(home).with_benchmark(kind), home)
    right = {row.method: sum(right for [right] in marks(row).values()) for row in collect(tmp_path)}
    assert right == {"good": 1, "good (lenient grading)": 4}
