"""The dates domain: what a date's symbols are, steps recomputed with the calendar, and the wrong gold chains."""

from datetime import date

import pytest
from cases import cases

from ruplar import plugins
from ruplar.data.read import read
from ruplar.domains import _calendar, _date_questions, _named_days
from ruplar.types import Example

DOMAIN = plugins.make("domains", "dates")

SETS = ("date-understanding-train", "date-understanding")


@pytest.mark.parametrize("written", cases(__file__, "one_day"))
def test_one_day_written_in_seven_ways_is_the_same_answer(written):
    assert DOMAIN.same(written, "07/08/1971") and DOMAIN.same("Jul 8, 1971", written)
    assert DOMAIN.extract(rf"It is \boxed{{{written}}}.") == written
    assert not DOMAIN.same(written, "08/07/1971")


def test_what_is_no_day_is_the_same_only_word_for_word():
    assert DOMAIN.same("a Monday", "A  Monday") and not DOMAIN.same("a Monday", "07/08/1971")
    # 1900 had no Feb 29: by the rule of centuries it was no leap year
    assert _calendar.read("02/29/1900") is None and _calendar.read("02/29/2000") == date(2000, 2, 29)
    assert DOMAIN.extract("12/32/1929") is None and DOMAIN.extract("perhaps 7/8/1971") is None


@pytest.mark.parametrize(("step", "symbols"), cases(__file__, "symbols"))
def test_symbols_keep_months_days_years_units_and_signs(step, symbols):
    assert DOMAIN.symbols(step) == symbols.split()


def test_the_result_is_the_whole_date_behind_the_last_equals_sign():
    assert DOMAIN.result("Jul 8, 1972 - 1 year = Jul 8, 1971") == ["Jul", "8", "1971"]
    assert DOMAIN.result("2 Jan 1987 + 1 day = 3 Jan 1987 = 01/03/1987") == ["Jan", "3", "1987"]
    assert DOMAIN.result("Jun 1, 2021 - 2 days = May 30, 2021, then +1 day = May 31, 2021") == ["May", "31", "2021"]
    assert DOMAIN.result("Jul 8, 1972") == []


@pytest.mark.parametrize("step", cases(__file__, "right"))
def test_right_steps_re_execute(step):
    assert DOMAIN.check(step) is None and DOMAIN.unchecked(step) is None


@pytest.mark.parametrize(("step", "fault"), cases(__file__, "wrong"))
def test_wrong_steps_have_an_error_message_with_the_right_day(step, fault):
    assert DOMAIN.check(step) == fault and DOMAIN.unchecked(step) is None


def test_hours_that_are_no_whole_day_may_end_on_two_days():
    # 36 hours before a time of Jan 1: before noon that is Dec 30, after it Dec 31, and never Dec 29
    first, second, never = (DOMAIN.check(f"Jan 1, 2015 - 36 hours = Dec {day}, 2014") for day in (30, 31, 29))
    assert first is second is None and "is Dec 30, 2014" in never


@pytest.mark.parametrize("step", cases(__file__, "unchecked"))
def test_what_cannot_be_carried_out_is_said_to_be_unchecked(step):
    assert DOMAIN.check(step) is None and DOMAIN.unchecked(step)


@pytest.mark.parametrize(("step", "why"), cases(__file__, "unjudged"))
def test_every_equation_must_be_judged_and_leave_nothing_over(step, why):
    assert DOMAIN.check(step) is None and DOMAIN.unchecked(step) == why


@pytest.mark.parametrize("written", ["MAY 27, 1900", "may 27, 1900", "27TH OF MAY, 1900", "MAY 27TH 1900"])
def test_a_month_is_read_in_any_case(written):
    assert _calendar.read(written) == date(1900, 5, 27) and DOMAIN.same(written, "05/27/1900")
    assert DOMAIN.symbols(f"{written} + 1 day") == ["May", "27", "1900", "+", "1", "day"]
    assert DOMAIN.extract(written) == written
    assert _date_questions.today(f"Today is {written}.") == (date(1900, 5, 27),)


def test_days_that_have_a_name_are_counted_by_the_calendar():
    assert _named_days.read("the first Monday of 2019") == date(2019, 1, 7)  # Jan 1, 2019 was a Tuesday
    assert _named_days.read("the last day of Feburary in 2000") == date(2000, 2, 29)
    assert _named_days.read("second day of the third month of 1966") == date(1966, 3, 2)
    assert _named_days.read("Christmas Eve of 1937") == date(1937, 12, 24)
    assert _named_days.read("palindrome day of 2019") is None  # 9102: there is no month 91
    assert _named_days.read("a rainy day of 2019") is None


@pytest.mark.parametrize(("premises", "today"), cases(__file__, "premises"))
def test_premises_give_the_day_it_is_today(premises, today):
    assert _date_questions.today(premises) == (today,)


def test_eggs_eaten_one_a_day_may_be_gone_on_two_days():
    premises = "On May 9th, 2017 Jane bought 40 eggs. She ate one per day. Today she ran out of eggs."
    assert set(_date_questions.today(premises)) == {date(2017, 6, 18), date(2017, 6, 17)}


def test_premises_of_another_form_are_not_understood():
    assert _date_questions.today("It rained all day.") == ()
    assert DOMAIN.check_chain(Example("It rained. What is the date today in MM/DD/YYYY?", (), "07/08/1971")) == []


@pytest.mark.parametrize(("real", "count", "scenarios"), [(False, 16, 6), (True, 369, 40)], ids=["invented", "real"])
def test_all_rows_of_date_understanding_parse_and_are_read(data, benchmark_data, real, count, scenarios):
    folder = benchmark_data(*SETS) if real else data
    rows = [example for name in SETS for example in read(name, DOMAIN, data_dir=folder).examples]
    assert len(rows) == count
    # two texts differ only in who is right
    assert len({DOMAIN.scenario(example.question) for example in rows}) == scenarios
    assert all(len(example.steps) == 1 and DOMAIN.unchecked(example.steps[0]) is None for example in rows)
    assert all(len(DOMAIN.result(example.steps[0])) == 3 for example in rows)
    assert all(_date_questions.expected(example.question) for example in rows)
