import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruplar import plugins
from ruplar.domains import arithmetic
from ruplar.errors import UserError
from ruplar.records import Span

EXACT = arithmetic.Domain(arithmetic.Config())
PUBLISHED = arithmetic.Domain(arithmetic.Config(rule="published"))


def cut(name, step, domain=EXACT, **settings):
    return plugins.make("spans", name, settings).cut(step, domain)


def written(spans):
    return [" ".join(span.symbols) for span in spans]


def test_the_three_ways_of_cutting_are_found_by_name():
    assert plugins.names("spans") == ["every_k", "result_split", "step"]
    assert all(plugins.describe("spans", name) for name in plugins.names("spans"))
    with pytest.raises(UserError, match="Did you mean 'every_k'"):
        plugins.load("spans", "every_2")


def test_step_keeps_the_step_whole_with_its_result():
    assert cut("step", "20*1.20=24") == [Span("20*1.20=24", ("20", "*", "1.20", "=", "24"), ("24",))]


def test_result_split_parts_at_the_last_equals_sign_and_favours_nothing():
    assert cut("result_split", "20 * 1.20 = 24") == [
        Span("20 * 1.20", ("20", "*", "1.20")),
        Span("= 24", ("=", "24")),
    ]
    assert written(cut("result_split", "3+4=7=-7")) == ["3 + 4 = 7", "= -7"]


@pytest.mark.parametrize("step", ["3+4", "3+4=", "3>=2"])
def test_result_split_keeps_a_step_that_states_no_result_whole(step):
    assert cut("result_split", step) == cut("step", step)


def test_result_split_under_the_published_rule_keeps_its_last_number_as_result():
    assert cut("result_split", "3+4", PUBLISHED) == [Span("3+4", ("3", "+", "4"), ("4",))]
    assert written(cut("result_split", "20*1.20=24", PUBLISHED)) == ["20 * 1 . 20", "= 24"]


@pytest.mark.parametrize(
    ("k", "groups"),
    [
        (1, ["20", "*", "1.20", "=", "24"]),
        (2, ["20 *", "1.20 =", "24"]),
        (3, ["20 * 1.20", "= 24"]),
        (4, ["20 * 1.20 =", "24"]),
        (5, ["20 * 1.20 = 24"]),
    ],
)
@pytest.mark.parametrize("domain", [EXACT, PUBLISHED])
def test_every_k_groups_five_symbols_by_k_under_either_rule(k, groups, domain):
    spans = cut("every_k", "20 * 1.20 = 24", domain, k=k)
    assert written(spans) == groups
    assert all(span.result == () for span in spans)


def test_every_k_keeps_a_step_shorter_than_k_whole_with_its_result():
    assert cut("every_k", "20*1.20=24", k=6) == [Span("20*1.20=24", ("20", "*", "1.20", "=", "24"), ("24",))]


@given(st.lists(st.integers(0, 999), min_size=1, max_size=20), st.integers(1, 12))
def test_every_k_uses_each_symbol_once_and_only_the_last_group_is_short(numbers, k):
    step = "+".join(map(str, numbers))
    spans = cut("every_k", step, k=k)
    assert [s for span in spans for s in span.symbols] == EXACT.symbols(step)
    assert all(len(span.symbols) == k for span in spans[:-1])


def test_every_k_refuses_k_below_one():
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        plugins.make("spans", "every_k", {"k": 0})


@pytest.mark.parametrize("name", ["step", "result_split", "every_k"])
@pytest.mark.parametrize(("step", "domain"), [("", EXACT), ("  ", EXACT), ("half of it", PUBLISHED)])
def test_a_step_without_a_symbol_gives_no_span(name, step, domain):
    assert cut(name, step, domain) == []
