from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruplar.plugins import make, names
from ruplar.priors.base import PriorTable, even, focus, ids_of, rng_of, soften, sparse
from ruplar.types import Span

FRESH = {"gumbel", "learned", "random", "uniform"}


def test_symbols_are_encoded_one_by_one_and_keep_order_and_repeats(toy):
    a, star, b = toy.encode("20")[0], toy.encode("*")[0], toy.encode("140")[0]
    zero = toy.encode("0")[0]
    assert ids_of(["20", "*", "1400", "20"], toy.encode) == [a, star, b, zero, a]


def test_weights_become_a_distribution_most_probable_first_then_by_id():
    prior = sparse({7: 1.0, 3: 1.0, 5: 2.0})
    assert prior.ids.tolist() == [5, 3, 7]
    assert prior.probs.tolist() == [0.5, 0.25, 0.25]
    assert prior.ids.dtype == np.int64 and prior.probs.dtype == np.float32


def test_a_token_without_probability_is_no_token_of_the_prior():
    # 1e-60 is a float64 but no float32
    assert sparse({1: 1.0, 2: 0.0, 3: 1e-60}).ids.tolist() == [1]


@pytest.mark.parametrize("weights", [{}, {1: 0.0}, {1: 1.0, 2: -0.5}, {1: float("nan")}, {1: float("inf")}])
def test_weights_that_are_no_distribution_are_refused(weights):
    with pytest.raises(ValueError, match="weights must be"):
        sparse(weights)


def test_even_counts_a_repeated_id_once():
    assert even([4, 9, 4]).probs.tolist() == [0.5, 0.5]


def test_a_softmax_without_noise_has_the_odds_of_its_logits():
    # (2.8 - 2.0) / 0.5 = 1.6, and e^1.6 = 4.953
    prior = soften({1: 2.8, 2: 2.0}, 0.5)
    assert prior.probs[0] / prior.probs[1] == pytest.approx(4.953, abs=1e-3)


def test_focus_keeps_what_is_strictly_above_the_threshold():
    probs = np.array([0.97, 0.02, 0.01, 0.0], dtype=np.float32)
    assert focus(probs, 0.01).tolist() == [True, True, False, False]


def test_focus_never_keeps_an_unused_place():
    assert focus(np.array([1.0, 0.0], dtype=np.float32), 0.0).tolist() == [True, False]


def test_focus_keeps_the_k_largest_and_of_equals_the_first():
    probs = np.array([[0.1, 0.4, 0.25, 0.25], [0.7, 0.1, 0.1, 0.1]], dtype=np.float32)
    assert focus(probs, 0.01, top_k=2).tolist() == [[False, True, True, False], [True, True, False, False]]


@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=12), st.floats(0, 1), st.integers(1, 12))
def test_focus_keeps_at_most_k_and_only_what_the_threshold_lets_through(values, threshold, top_k):
    probs = np.array(values, dtype=np.float32)
    mask = focus(probs, threshold, top_k)
    assert mask.sum() <= top_k
    assert not (mask & ~focus(probs, threshold)).any()
    assert not mask.any() or probs[mask].min() >= probs[focus(probs, threshold) & ~mask].max(initial=0)


def test_a_key_gives_the_same_numbers_in_another_process():
    script = "from ruplar.priors.base import rng_of; print(rng_of(7, 'step 3+4=7', 2).integers(2**40))"
    # a hash seed of its own, so that anything built on Python's hash() would differ
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "31337"}
    )
    assert int(done.stdout) == rng_of(7, "step 3+4=7", 2).integers(2**40)


def test_keys_of_different_length_draw_differently():
    assert rng_of(3).integers(2**40) != rng_of(3, 0).integers(2**40)


def test_a_table_builds_a_span_once_and_encodes_a_symbol_once(toy, vector):
    calls = []
    table = PriorTable(make("priors", "mixture"), lambda text: calls.append(text) or toy.encode(text))
    first = table.of(vector, (0, 1, 2))
    assert table.of(Span(vector.text, vector.symbols, vector.result), (5, 6, 7)) is first
    assert sorted(calls) == sorted(set(vector.symbols))


def test_spans_that_read_alike_but_favour_another_result_are_told_apart(toy):
    table = PriorTable(make("priors", "mixture"), toy.encode)
    one, other = (table.of(Span("3=3", ("3", "=", "3"), result)) for result in [("3",), ("=",)])
    assert toy.named(one)["3"] == pytest.approx(0.8) and toy.named(other)["="] == pytest.approx(0.8)


def test_a_fresh_prior_depends_on_seed_and_visit_and_on_nothing_else(toy, vector):
    def draw(seed: int, context: tuple[int, ...]) -> dict[str, float]:
        return toy.named(PriorTable(make("priors", "gumbel"), toy.encode, seed).of(vector, context))

    assert draw(1, (0, 5, 2)) == draw(1, (0, 5, 2))
    assert draw(1, (0, 5, 2)) != draw(1, (1, 5, 2))
    assert draw(1, (0, 5, 2)) != draw(2, (0, 5, 2))


def test_every_prior_says_whether_it_draws_anew():
    assert {n for n in names("priors") if make("priors", n).dynamic} == FRESH


@pytest.mark.parametrize("name", ["mixture", "gumbel", "random"])
def test_a_hundred_thousand_chains_of_three_spans_take_seconds(toy, name):
    # a sample of 2,000 chains, each span a distinct one; measured at 10 to 40 microseconds a span
    table = PriorTable(make("priors", name), toy.encode)
    spans = [Span(f"{a}+1={a + 1}", (str(a), "+", "1", "=", str(a + 1)), (str(a + 1),)) for a in range(6000)]
    start = time.process_time()
    for at, span in enumerate(spans):
        table.of(span, (0, at // 3, at % 3))
    assert (time.process_time() - start) / len(spans) < 300e-6
