import subprocess
import sys

import numpy as np
import pytest

from ruplar.plugins import make
from ruplar.priors.base import PriorTable, ids_of, rng_of, sparse
from ruplar.types import Span


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


def test_a_key_gives_the_same_numbers_in_another_process():
    script = "from ruplar.priors.base import rng_of; print(rng_of(7, 'step 3+4=7', 2).integers(2**40))"
    # a hash seed of its own, so that anything built on Python's hash() would differ
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "31337"}
    )
    assert int(done.stdout) == rng_of(7, "step 3+4=7", 2).integers(2**40)


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
