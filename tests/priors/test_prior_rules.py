"""What priors are made of, and every prior on the worked example `20*1.20=24`, whose tokens are 20 * 1 . 20 = 24."""

import math
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from cases import cases

from ruplar.domains import arithmetic
from ruplar.model.tokenizers import load_tokenizer
from ruplar.plugins import make, names
from ruplar.priors.base import PriorTable, ids_of, rng_of, sparse
from ruplar.types import Span

EXACT = arithmetic.Domain(arithmetic.Config())
OPERANDS = ("20", "*", "1", ".", "=")

SETTINGS = (
    [(name, {}) for name in names("priors")]
    + [("mixture", {"semantics": "published"})]
    + [(name, {"noise": False}) for name in ("uniform", "random", "learned")]
)


def expected(result: float, repeated: float, other: float) -> dict[str, float]:
    return {**dict.fromkeys(OPERANDS, other), "20": repeated, "24": result}


@pytest.fixture(scope="module", params=[pytest.param("llama-3", marks=pytest.mark.slow), "embedded"])
def real_tokenizer(request):
    if request.param == "embedded":
        return load_tokenizer("embedded")
    return request.getfixturevalue("llama3_tokenizer")


@pytest.mark.parametrize(("name", "settings", "result", "repeated", "other"), cases(__file__, "example"))
@pytest.mark.parametrize("rule", ["exact", "published"])
def test_a_real_tokenizer_and_the_real_domain_give_the_printed_numbers(
    real_tokenizer, rng, name, settings, result, repeated, other, rule
):
    domain = arithmetic.Domain(arithmetic.Config(rule=rule))
    step = "20*1.20=24"
    span = Span(step, tuple(domain.symbols(step)), tuple(domain.result(step)))
    prior = make("priors", name, settings).build(
        span, lambda text: real_tokenizer.encode(text, add_special_tokens=False), rng
    )
    named = {
        real_tokenizer.decode([i]).strip(): p for i, p in zip(prior.ids.tolist(), prior.probs.tolist(), strict=True)
    }
    assert named == pytest.approx(expected(result, repeated, other), abs=5e-5)


# --- a result of several pieces


def test_each_piece_of_a_long_result_has_the_results_logit(toy, rng):
    # 1400 is "140" and "0": 2 * 4.953 against 4 operands
    span = Span("700*2=1400", ("700", "*", "2", "=", "1400"), ("1400",))
    named = toy.named(make("priors", "temperature").build(span, toy.encode, rng))
    odds = math.exp(1.6)
    assert named["140"] == named["0"] == pytest.approx(odds / (2 * odds + 4))


@pytest.mark.parametrize(("step", "semantics", "shares"), cases(__file__, "shares"))
def test_a_repeated_operand_and_a_result_of_several_pieces_share_mass_as_the_semantics_says(
    toy, rng, step, semantics, shares
):
    symbols = EXACT.symbols(step)
    prior = make("priors", "mixture", {"semantics": semantics})
    named = toy.named(prior.build(Span(step, tuple(symbols), tuple(EXACT.result(step))), toy.encode, rng))
    over = sum(shares.get(piece, shares["others"]) for piece in named)
    assert named == pytest.approx({piece: shares.get(piece, shares["others"]) / over for piece in named})


def test_a_span_that_is_all_result_has_all_its_mass_there(toy, rng):
    span = Span("24", ("24",), ("24",))
    for name, settings in SETTINGS:
        assert toy.named(make("priors", name, settings).build(span, toy.encode, rng)) == {"24": 1.0}


# --- Gumbel


def test_the_mean_of_gumbel_draws_is_flatter_than_the_temperature_prior(toy):
    span = Span("3+4=7", ("3", "+", "4", "=", "7"), ("7",))
    prior, draws = make("priors", "gumbel"), np.random.default_rng(7)
    mean: dict[str, float] = {}
    for _ in range(4_000):
        for piece, p in toy.named(prior.build(span, toy.encode, draws)).items():
            mean[piece] = mean.get(piece, 0) + p / 4_000
    # four operands and one result; the standard error of each mean is 0.005
    assert mean.pop("7") == pytest.approx(0.34, abs=0.02)
    assert mean == pytest.approx(dict.fromkeys("3+4=", 0.165), abs=0.02)


# --- ablations


def test_the_random_prior_keeps_its_fixed_logits_through_every_visit(toy, vector):
    prior = make("priors", "random", {"noise": False})
    first = toy.named(prior.build(vector, toy.encode, np.random.default_rng(1)))
    assert first == toy.named(prior.build(vector, toy.encode, np.random.default_rng(2)))
    other_seed = make("priors", "random", {"noise": False, "seed": 1})
    assert first != toy.named(other_seed.build(vector, toy.encode, np.random.default_rng(1)))
    # logits from U[1.5, 3.0] at temperature 0.5: no odds above e^3
    assert len(set(first.values())) == 6 and max(first.values()) / min(first.values()) < math.exp(3)


def test_the_random_prior_refuses_a_range_upside_down():
    with pytest.raises(ValueError, match="low must not be above high"):
        make("priors", "random", {"low": 3, "high": 1})


def test_the_learned_prior_scores_by_real_token_places(toy, rng, vector):
    # places 0..6 of 7: the span 1.5 + 1.5 * 3/7, the result 1.5 + 1.5 * 6/7; the difference 9/14 at tau 0.5 is 9/7
    named = toy.named(make("priors", "learned", {"noise": False}).build(vector, toy.encode, rng))
    odds = math.exp(9 / 7)
    assert named == pytest.approx(expected(odds / (odds + 5), 1 / (odds + 5), 1 / (odds + 5)))


def test_the_learned_prior_takes_the_last_place_that_reads_like_the_result(toy, rng):
    # 5 * 1 = 5: the result stands at 4 of 5, not at 0; 1.5 * (4 - 2) / 5 = 0.6, at tau 0.5 1.2
    span = Span("5*1=5", ("5", "*", "1", "=", "5"), ("5",))
    named = toy.named(make("priors", "learned", {"noise": False}).build(span, toy.encode, rng))
    assert named["5"] / named["*"] == pytest.approx(math.exp(1.2), rel=1e-5)


def test_the_learned_prior_refuses_a_result_that_has_no_place(toy, rng):
    with pytest.raises(ValueError, match="not among its symbols"):
        make("priors", "learned").build(Span("3+4", ("3", "+", "4"), ("7",)), toy.encode, rng)


# --- what all of them promise


@pytest.mark.parametrize(("name", "settings"), SETTINGS)
def test_a_span_without_a_result_is_even_over_its_ids(toy, rng, name, settings):
    span = Span("20*20", ("20", "*", "20"))
    named = toy.named(make("priors", name, settings).build(span, toy.encode, rng))
    assert named == {"20": 0.5, "*": 0.5}


# --- what priors are made of


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


def test_a_prior_that_draws_but_is_not_dynamic_is_the_same_for_every_seed(toy, vector):
    draws = SimpleNamespace(dynamic=False, build=lambda span, encode, rng: sparse({5: rng.random(), 6: rng.random()}))
    one, other = (PriorTable(draws, toy.encode, seed).of(vector).probs.tolist() for seed in (1, 2))
    assert one == other


def test_spans_that_read_alike_but_favour_another_result_are_told_apart(toy):
    table = PriorTable(make("priors", "mixture"), toy.encode)
    one, other = (table.of(Span("3=3", ("3", "=", "3"), result)) for result in [("3",), ("=",)])
    assert toy.named(one)["3"] == pytest.approx(0.8) and toy.named(other)["="] == pytest.approx(0.8)
