import math

import pytest

from ruplar.evaluate.stats import (
    bootstrap_mean,
    mcnemar,
    over_seeds,
    paired_difference,
    t_quantile,
    t_test,
    wilson,
)


def test_wilson_gives_the_published_values():
    # Newcombe 1998, table I: 81 of 263 → 0.2553..0.3662; 15 of 148 → 0.0624..0.1605; 1 of 29 → 0.0061..0.1718
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(15, 148) == pytest.approx((0.0624, 0.1605), abs=5e-5)
    assert wilson(1, 29) == pytest.approx((0.0061, 0.1718), abs=5e-5)


def test_wilson_is_honest_when_none_or_all_are_right():
    # none of n: z²/(n + z²) = 3.8415 / 23.8415 = 0.1611
    assert wilson(0, 20) == pytest.approx((0, 0.1611), abs=5e-5)
    assert wilson(20, 20) == pytest.approx((1 - 0.1611, 1), abs=5e-5)


def test_wilson_refuses_what_is_not_a_proportion():
    for correct, n in [(0, 0), (3, 2), (-1, 5)]:
        with pytest.raises(ValueError, match="not a proportion"):
            wilson(correct, n)


def test_the_bootstrap_interval_is_close_to_the_normal_one_and_repeats_under_its_seed():
    values = [1.0] * 46 + [0.0] * 54
    found = bootstrap_mean(values, seed=3)
    half = 1.96 * math.sqrt(0.46 * 0.54 / 100)  # 0.0977
    assert found.mean == pytest.approx(0.46)
    assert (found.low, found.high) == pytest.approx((0.46 - half, 0.46 + half), abs=0.012)
    assert found == bootstrap_mean(values, seed=3)
    assert bootstrap_mean([0.5]) == (0.5, None, None)


def test_a_constant_paired_difference_has_no_width():
    # every question gains exactly 1, whatever is drawn
    assert paired_difference([1, 1, 1], [0, 0, 0]) == (1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="same questions"):
        paired_difference([1], [1, 0])


def test_mcnemar_counts_only_questions_on_which_the_methods_differ():
    # 1 against 5 of 6 differing: 2 * (C(6,0) + C(6,1)) / 64 = 14/64
    first = [True] + [False] * 5 + [True] * 20
    second = [False] + [True] * 5 + [True] * 20
    assert mcnemar(first, second) == pytest.approx(14 / 64)
    assert mcnemar([True, False], [True, False]) == 1.0
    # 3 against 3: both tails overlap, the value is cut at 1
    assert mcnemar([True] * 3 + [False] * 3, [False] * 3 + [True] * 3) == 1.0


@pytest.mark.parametrize(("freedom", "t"), [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (30, 2.042)])
def test_t_quantiles_are_those_of_the_tables(freedom, t):
    assert t_quantile(freedom) == pytest.approx(t, abs=5e-4)


def test_seeds_that_scatter_widen_wilsons_interval_and_one_seed_leaves_it():
    # of the seeds 0.0004 / 3, of the questions 0.2484 / 1000: as 650.7 questions; degrees of freedom 16.4, t(16) = 2.120
    mean, interval = over_seeds([0.44, 0.46, 0.48], 1000)
    assert (mean, *interval) == pytest.approx((0.46, 0.4190, 0.5016), abs=5e-5)
    assert over_seeds([0.46], 1000) == (0.46, wilson(460, 1000))
    assert over_seeds([0.46, 0.46], 1000)[1] == pytest.approx(wilson(460, 1000))
    # all right under every seed: as sure as one seed would make us, no surer
    assert over_seeds([1.0, 1.0, 1.0], 20)[1] == wilson(20, 20)


def test_the_t_test_gives_the_level_of_its_own_quantile():
    for freedom in (1, 3, 16):
        assert t_test(t_quantile(freedom, 0.95), freedom) == pytest.approx(0.05)
    assert t_test(-1.959964, math.inf) == pytest.approx(0.05)
    assert t_test(0.0, 5) == 1.0
