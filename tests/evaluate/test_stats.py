import math

import pytest

from ruplar.evaluate.stats import (
    Grouped,
    bootstrap_mean,
    clustered_variance,
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
    with pytest.raises(ValueError, match="longer"):
        paired_difference([1], [1, 0])


def test_mcnemar_counts_only_questions_on_which_the_methods_differ():
    # 1 against 5 of 6 differing: 2 * (C(6,0) + C(6,1)) / 64 = 14/64
    first = [True] + [False] * 5 + [True] * 20
    second = [False] + [True] * 5 + [True] * 20
    assert mcnemar(first, second) == pytest.approx(14 / 64)
    assert mcnemar([True, False], [True, False]) == 1.0
    # 3 against 3: both tails overlap, the value is cut at 1
    assert mcnemar([True] * 3 + [False] * 3, [False] * 3 + [True] * 3) == 1.0


@pytest.mark.parametrize(
    ("freedom", "t"), [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (30 - 1e-13, 2.042)]
)
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
        assert t_test(t_quantile(freedom), freedom) == pytest.approx(0.05)
    assert t_test(-1.959964, math.inf) == pytest.approx(0.05)
    assert t_test(0.0, 5) == 1.0


TOLD = [0, 0, 0, 1, 1, 1]
"""Two scenarios, three questions each."""


def test_answers_that_stand_or_fall_together_make_a_mean_less_sure():
    # 1 1 1 and 0 0 1: mean 2/3; the residuals sum to 3 - 2 = 1 and 1 - 2 = -1; 2/1 * (1 + 1) / 6^2 = 1/9
    assert clustered_variance([1, 1, 1, 0, 0, 1], TOLD) == pytest.approx(1 / 9)
    # every question by itself: p(1 - p) / (n - 1) = 2/9 / 5
    assert clustered_variance([1, 1, 1, 0, 0, 1], range(6)) == pytest.approx(2 / 45)
    # groups of unequal size, 1 1 1 1 and 0 1: mean 5/6; sums 4 - 10/3 = 2/3 and 1 - 5/3 = -2/3; 2 * (8/9) / 36 = 4/81
    assert clustered_variance([1, 1, 1, 1, 0, 1], [0, 0, 0, 0, 1, 1]) == pytest.approx(4 / 81)
    with pytest.raises(ValueError, match="one group"):
        clustered_variance([1, 0, 1], [0, 0, 0])


def test_groups_that_agree_have_no_variance_whatever_thirds_are_rounded_to():
    assert clustered_variance([1, 0, 0, 0, 0, 1], TOLD) == 0.0
    assert clustered_variance([1 / 3, 2 / 3, 0.1, 0.1, 2 / 3, 1 / 3], TOLD) == 0.0


def test_the_interval_of_grouped_questions_is_that_of_as_many_as_would_have_their_variance():
    # one seed, 2/3 right with variance 1/9: as 2/9 / (1/9) = 2 questions; one degree of freedom, t = 12.706, t² = 161.45
    # centre (2/3 + 161.45/4) / (1 + 161.45/2) = 0.5020; half 12.706 / 81.72 * sqrt(1/9 + 161.45/16) = 0.4966
    mean, interval = over_seeds([2 / 3], 6, grouped=Grouped(1 / 9, 2))
    assert (mean, *interval) == pytest.approx((2 / 3, 0.0055, 0.9986), abs=5e-4)
    # ten groups of ten, half right, variance 0.025: as ten questions; t(9) = 2.262, t² = 5.117
    # centre 0.5; half 2.262 / 1.5117 * sqrt(0.025 + 5.117/400) = 0.2910
    assert over_seeds([0.5], 100, grouped=Grouped(0.025, 10))[1] == pytest.approx((0.2090, 0.7910), abs=5e-4)


def test_seeds_and_groups_bring_their_own_degrees_of_freedom():
    # seeds 0.4, 0.5, 0.6: 0.01 / 3; questions 0.025 with 9: together 0.02833, as 8.824 questions
    # freedom 0.02833² / (0.003333² / 2 + 0.025² / 9) = 0.00080278 / (0.00000556 + 0.00006944) = 10.7: t(10) = 2.228
    # half 2.228 / (1 + 4.964/8.824) * sqrt(0.02833 + 4.964 / (4 * 77.85)) = 1.4260 * 0.21043 = 0.3001
    assert over_seeds([0.4, 0.5, 0.6], 100, grouped=Grouped(0.025, 10))[1] == pytest.approx((0.2, 0.8), abs=1e-3)


def test_groups_make_nothing_surer_and_one_group_says_nothing():
    # no variance between groups: that of independent questions, 0.0025, with t(9): half 2.262 / 1.0512 * sqrt(0.0025 + 0.000128)
    assert over_seeds([0.5], 100, grouped=Grouped(0.0, 10))[1] == pytest.approx((0.3897, 0.6103), abs=5e-4)
    # all right: each group counts as one question
    assert over_seeds([1.0, 1.0], 90, grouped=Grouped(0.0, 10))[1] == wilson(10, 10)
    assert over_seeds([0.5], 100, grouped=Grouped(0.0, 1))[1] == (0.0, 1.0)
