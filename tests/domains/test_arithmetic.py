import pytest
from cases import cases
from hypothesis import given
from hypothesis import strategies as st

from ruplar.domains.arithmetic import Config, Domain

EXACT = Domain(Config())
PUBLISHED = Domain(Config(rule="published"))
LENIENT = Domain(Config(lenient=True))


# --- steps ---


def test_steps_are_what_stands_between_the_marks():
    assert EXACT.split("48/2 = <<48/2=24>>24 clips.\nThen <<48+24=72>>72.") == ["48/2=24", "48+24=72"]


@given(st.lists(st.text(st.characters(exclude_characters="<"), min_size=1).filter(lambda s: ">>" not in s + ">")))
def test_no_text_between_the_marks_is_lost(steps):
    chain = "prose ".join(f"<<{step}>>" for step in steps)
    assert EXACT.split(chain) == [step.strip() for step in steps if step.strip()]


# --- symbols and results, exact ---


@pytest.mark.parametrize(("step", "symbols"), cases(__file__, "symbols"))
def test_exact_symbols_keep_all_a_step_says(step, symbols):
    assert EXACT.symbols(step) == symbols.split()


@pytest.mark.parametrize(("step", "exact", "published"), cases(__file__, "results"))
def test_the_result_is_exact_or_has_the_published_quirks(step, exact, published):
    assert EXACT.result(step) == exact.split()
    assert PUBLISHED.result(step) == published.split()


@pytest.mark.parametrize(("step", "symbols"), cases(__file__, "published_symbols"))
def test_published_symbols_are_digit_runs_five_operators_and_points(step, symbols):
    assert PUBLISHED.symbols(step) == symbols.split()


@pytest.mark.slow
@given(st.text())
def test_exact_symbols_lose_nothing_but_spaces_separators_and_stops(step):
    kept = "".join(EXACT.symbols(step))
    written = "".join(step.split())
    dropped = sum(written.count(c) for c in ",.")
    assert len(written) - dropped <= len(kept) <= len(written)


# --- carrying a step out again ---


@pytest.mark.parametrize("step", cases(__file__, "right_or_uncheckable"))
def test_a_right_or_uncheckable_step_has_no_fault(step):
    assert EXACT.check(step) is None


@pytest.mark.parametrize(("step", "fault"), cases(__file__, "wrong"))
def test_a_wrong_step_has_an_error_message(step, fault):
    assert EXACT.check(step) == fault


@given(st.one_of(st.text(), st.text("0123456789+-*/^%=().,xe $", max_size=60)))
def test_checking_never_raises(step):
    assert EXACT.check(step) is None or " " in EXACT.check(step)


@pytest.mark.parametrize(
    "step",
    [
        *("(" * 5000 + "=1", "-" * 5000 + "1=1", "9" * 5000 + "=1", "1e999" + "*1e999" * 20 + "=1"),
        "+".join(f"1/{10**300 + n}" for n in range(50)) + "=1",
    ],
)
def test_hostile_steps_are_not_checkable(step):
    assert EXACT.check(step) is None


@given(st.integers(-999, 999), st.sampled_from("+-*"), st.integers(-999, 999), st.integers(1, 9))
def test_a_true_equation_passes_and_one_off_by_some_does_not(a, operator, b, off):
    value = {"+": a + b, "-": a - b, "*": a * b}[operator]
    assert EXACT.check(f"{a}{operator}{b}={value}") is None
    assert EXACT.check(f"{a}{operator}{b}={value + off}") == f"{a}{operator}{b} is {value}, not {value + off}"


@pytest.mark.parametrize(("step", "why"), cases(__file__, "unchecked"))
def test_a_step_that_cannot_be_checked_says_why(step, why):
    assert EXACT.unchecked(step) == why


# --- answers ---


@pytest.mark.parametrize(("written", "marked"), cases(__file__, "units"))
def test_a_marked_answer_is_read_without_its_unit_and_otherwise_left_as_it_is(written, marked):
    assert EXACT.marked(written) == marked


@pytest.mark.parametrize(("text", "answer"), cases(__file__, "extracted"))
def test_the_answer_is_read_where_it_is_marked_and_never_guessed(text, answer):
    assert EXACT.extract(text) == answer


@pytest.mark.parametrize(("found", "marked"), cases(__file__, "same"))
def test_one_number_written_in_two_ways_is_the_same_answer(found, marked):
    assert EXACT.same(found, marked)
    assert EXACT.same(marked, found)


@pytest.mark.parametrize(("found", "marked"), cases(__file__, "not_same"))
def test_strict_grading_accepts_nothing_else(found, marked):
    assert not EXACT.same(found, marked)


@pytest.mark.parametrize(("found", "marked", "right"), cases(__file__, "lenient"))
def test_lenient_grading_is_the_published_one(found, marked, right):
    assert LENIENT.same(found, marked) is right


@given(st.text(), st.text())
def test_grading_never_raises_and_does_not_depend_on_the_side(found, marked):
    assert EXACT.same(found, marked) == EXACT.same(marked, found)
    LENIENT.same(found, marked)
    EXACT.extract(found)
