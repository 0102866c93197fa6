import pytest
from cases import cases
from digit_tokenizer import DigitTokenizer
from hypothesis import given
from hypothesis import strategies as st

from ruplar import plugins
from ruplar.domains import arithmetic
from ruplar.spans.base import attached, cut_chain
from ruplar.types import Span

EXACT = arithmetic.Domain(arithmetic.Config())
PUBLISHED = arithmetic.Domain(arithmetic.Config(rule="published"))


def cut(name, step, domain=EXACT, **settings):
    return plugins.make("spans", name, settings).cut(step, domain)


def written(spans):
    return [" ".join(span.symbols) for span in spans]


def test_step_is_one_span_with_its_result():
    assert cut("step", "20*1.20=24") == [Span("20*1.20=24", ("20", "*", "1.20", "=", "24"), ("24",))]


def test_result_split_cuts_at_the_last_equals_sign_without_a_result():
    assert cut("result_split", "20 * 1.20 = 24") == [Span("20 * 1.20", ("20", "*", "1.20")), Span("= 24", ("=", "24"))]
    assert written(cut("result_split", "3+4=7=-7")) == ["3 + 4 = 7", "= -7"]


@pytest.mark.parametrize("step", ["3+4", "3+4=", "3>=2"])
def test_result_split_is_one_span_for_a_step_without_a_result(step):
    assert cut("result_split", step) == cut("step", step)


@pytest.mark.parametrize(("k", "groups"), cases(__file__, "groups"))
@pytest.mark.parametrize("domain", [EXACT, PUBLISHED])
def test_every_k_groups_five_symbols_by_k_under_either_rule(k, groups, domain):
    spans = cut("every_k", "20 * 1.20 = 24", domain, k=k)
    assert written(spans) == groups
    assert all(span.result == () for span in spans)


def test_every_k_keeps_a_step_shorter_than_k_whole_with_its_result():
    assert cut("every_k", "20*1.20=24", k=6) == [Span("20*1.20=24", ("20", "*", "1.20", "=", "24"), ("24",))]


def pieces(step: str, group: int = 3, domain=EXACT):
    tokenizer = DigitTokenizer(group)
    return attached(plugins.make("spans", "result_pieces"), tokenizer.encode, tokenizer).cut(step, domain)


def test_result_pieces_gives_every_token_of_a_result_a_span_in_order():
    assert pieces("1000+234=1234") == [
        Span("1000+234=1234", ("1000", "+", "234", "=", "123"), ("123",)),
        Span("4", ("4",), ("4",)),
    ]
    for group, step, wanted in cases(__file__, "pieces"):
        assert written(pieces(step, group)) == wanted


@pytest.mark.parametrize("step", ["3+4=7", "3+4", "3+4=", "20*1.20=24"])
def test_result_pieces_keeps_a_step_whole_whose_result_is_one_token_or_none(step):
    assert pieces(step) == cut("step", step)


def test_result_pieces_keeps_a_symbol_whole_whose_tokens_cannot_be_written_alone():
    class Halves(DigitTokenizer):
        def decode(self, ids, **_):
            return "\ufffd"  # half of a letter

    rule = attached(plugins.make("spans", "result_pieces"), DigitTokenizer(1).encode, Halves(1))
    assert rule.cut("20+4=24", EXACT) == cut("step", "20+4=24")


def operation(step: str, domain=EXACT):
    tokenizer = DigitTokenizer(3)
    return attached(plugins.make("spans", "operation"), tokenizer.encode, tokenizer).cut(step, domain)


def test_operation_gives_every_operation_a_span_that_favours_its_result():
    assert operation("16-3-4=9") == [
        Span("16-3=13", ("16", "-", "3", "=", "13"), ("13",)),
        Span("13-4=9", ("13", "-", "4", "=", "9"), ("9",)),
    ]
    for step, wanted in cases(__file__, "operations"):
        assert written(operation(step)) == wanted


@pytest.mark.parametrize("step", cases(__file__, "whole"))
def test_operation_keeps_a_step_whole_where_it_cannot_be_taken_apart(step):
    assert operation(step) == cut("step", step)


@given(st.lists(st.integers(1, 99), min_size=2, max_size=6), st.data())
def test_operations_carried_out_one_by_one_end_where_the_step_does(numbers, data):
    signs = data.draw(st.lists(st.sampled_from("+-*"), min_size=len(numbers) - 1, max_size=len(numbers) - 1))
    left = "".join(f"{n}{s}" for n, s in zip(numbers, [*signs, ""], strict=True))
    parts = EXACT.operations(f"{left}={eval(left)}")
    assert len(parts) == len(signs) and all(EXACT.check(part) is None for part in parts)
    assert parts[-1].rpartition("=")[2] == str(eval(left))


def plan(*steps, domain=EXACT, **settings):
    tokenizer = DigitTokenizer(3)
    rule = attached(plugins.make("spans", "plan", settings), tokenizer.encode, tokenizer)
    return cut_chain(rule, steps, domain)


def test_plan_favours_the_last_result_and_lays_out_what_is_done_with_it():
    assert plan("39+47=86", "86-20=66") == [
        [Span("39+47=", ("39", "+", "47"), ("39",))],
        [Span("86-20=", ("86", "-", "20"), ("86",))],
    ]
    [_, [later], [last]] = plan("7*5=35", "3*5=15", "35+15=50")
    assert later == Span("3*5=", ("35", "3", "*", "5"), ("35",)), (
        "a result that is needed later is thought where it comes out"
    )
    assert last == Span("35+15=", ("35", "+", "15"), ("15",))


def test_plan_takes_operations_apart_and_leaves_the_last_result_to_the_answer():
    assert [written(spans) for spans in plan("16-3-4=9", "9*2=18")] == [["16 - 3", "13 - 4"], ["9 * 2"]]
    assert written(plan("600*30/100=180")[0]) == ["600 * 30 / 100"], "18000 is more than one token"


def test_plan_thinks_a_result_of_several_tokens_in_order():
    assert plan("1000+234=1234", "1234*2=2468")[1] == [
        Span("123", ("123",), ("123",)),
        Span("1234*2=", ("4", "1234", "*", "2"), ("4",)),
    ]


def test_plan_may_leave_all_but_the_first_symbols_to_the_forward_that_computes():
    assert [written(spans) for spans in plan("39+47=86", "2*86=172", symbols=2)] == [["39 +"], ["86 2 *"]]
    assert written(plan("20*1.20=24", domain=PUBLISHED, symbols=3)[0]) == ["20 * 1.20"], "a decimal is one symbol"


def test_plan_goes_on_over_steps_that_say_nothing_or_state_no_result():
    assert plan("39+47=86", "", "86-20=66")[1:] == [[], [Span("86-20=", ("86", "-", "20"), ("86",))]]
    assert plan("3+4", "7*2=14") == [[Span("3+4", ("3", "+", "4"), ("3",))], [Span("7*2=", ("7", "*", "2"), ("7",))]]
    assert plan() == []


@pytest.mark.parametrize("name", ["step", "result_split", "every_k"])
@pytest.mark.parametrize(("step", "domain"), [("", EXACT), ("  ", EXACT), ("half of it", PUBLISHED)])
def test_a_step_without_symbols_has_no_span(name, step, domain):
    assert cut(name, step, domain) == []
