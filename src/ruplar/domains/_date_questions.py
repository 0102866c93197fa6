"""Question about a date → what day today is according to its premises, and which day it asks for.

The known forms are those of BIG-bench's Date Understanding and of the generator in `problems/date_scenarios.py`. Each is a
pattern and a rule; the first that matches is used. A question of any other form is not understood.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

from ruplar.domains import _calendar, _named_days
from ruplar.domains._calendar import COUNT, MONTH, UNIT, count_of, month_of, shift

Days = tuple[date, ...]
Rule = Callable[[re.Match[str], str], Days]

_D = rf"(?P<date>{re.sub(r'[?]P<[a-z]+[0-9]?>', '?:', _calendar.DATE)})"
_N = rf"(?P<count>{COUNT}) (?P<unit>{UNIT})"
_PLAIN_N, _MUTE_N = re.compile(_N, re.IGNORECASE), rf"{COUNT} {UNIT}"
_YEARS = r"(?P<years>[0-9]{1,3})[- ]year"
_JUBILEES = {"silver": 25, "golden": 50, "diamond": 60}
_ASK = re.compile(r"What (?:is|was|will be) the date (?P<when>.*?)(?: in MM/DD/YYYY)?\?\s*$", re.IGNORECASE)
_WHEN: tuple[tuple[str, int], ...] = (
    (rf"{_N}(?: ago| before today| earlier)(?: from today)?", -1),
    (rf"{_N}(?: from today| from now| later| after today)", 1),
    (rf"in {_N}", 1),
)
_DAYS = {"today": 0, "tomorrow": 1, "yesterday": -1, "the day before yesterday": -2, "the day after tomorrow": 2}


@dataclass(frozen=True, slots=True)
class Expected:
    """The possible days for today, and the possible days for the answer; usually one each."""

    today: Days
    days: Days


def divide(question: str) -> tuple[str, str]:
    """Question → its premises, and its last sentence."""
    found = re.search(r"(?:(?<=[.!?)]) |^)(?=[^.!?]*(?:[.][^ ][^.!?]*)*\?\s*$)", question)
    at = found.end() if found else 0
    return question[:at].strip(), question[at:].strip()


def scenario(question: str) -> str:
    """Return the premises of a question without the sentence that says which of two people is right."""
    return unjudged(divide(question)[0])


def unjudged(premises: str) -> str:
    """Premises → the same without the sentence that says which of two people is right."""
    return re.sub(rf" ?{_OPINIONS}", "", premises)


def expected(question: str) -> Expected | None:
    """Return what the answer to a question must be; None if the question has no known form."""
    premises, asks = divide(question)
    days, offset = today(premises), offset_asked_for(asks)
    if not days or offset is None:
        return None
    try:
        return Expected(days, tuple(dict.fromkeys(d for day in days for d in shift(day, *offset))))
    except ValueError:
        return None


def offset_asked_for(text: str) -> tuple[int, str] | None:
    """`What is the date one week ago from today in MM/DD/YYYY?` → (-1, "week"): the offset from today."""
    found = _ASK.fullmatch(text.strip())
    if found is None:
        return None
    when = found["when"].strip().lower()
    if when in _DAYS:
        return _DAYS[when], "day"
    for pattern, sign in _WHEN:
        if offset := re.fullmatch(pattern, when):
            return sign * count_of(offset["count"]), offset["unit"]
    return None


def today(premises: str) -> Days:
    """Premises → the date of today; two dates if they are ambiguous, none if they have no known form."""
    for pattern, rule in _FORMS:
        if found := pattern.search(premises):
            try:
                return rule(found, premises)
            except ValueError:
                return ()
    return ()


def _day(found: re.Match[str]) -> date:
    day = _calendar.read(found["date"])
    if day is None:
        raise ValueError(found["date"])
    return day


def _by(sign: int) -> Rule:
    """The date in the premises, shifted by the offset in the premises."""
    return lambda found, premises: shift(_day(found), sign * count_of(found["count"]), found["unit"])


def _days(count: int) -> Rule:
    return lambda found, premises: shift(_day(found), count, "day")


def _then(found: re.Match[str], premises: str) -> Days:
    days: Days = (_day(found),)
    for offset in re.finditer(_PLAIN_N, found["offsets"]):
        days = tuple(d for day in days for d in shift(day, count_of(offset["count"]), offset["unit"]))
    return days


def _birthday(found: re.Match[str], premises: str) -> Days:
    born = _calendar.read(found["born"]) or _named_days.read(found["born"])
    if born is None:
        raise ValueError(found["born"])
    return shift(born, int(found["years"]), "year")


def _new_year(found: re.Match[str], premises: str) -> Days:
    """A year begins at midnight, so hours before it give one day."""
    return shift(date(int(found["year"]), 1, 1), -count_of(found["count"]), found["unit"])[:1]


def _right_one(found: re.Match[str], premises: str) -> Days:
    """Of two opinions, the one that is said to be correct."""
    for opinion in re.finditer(rf"(?P<who>[A-Z]\w+) thinks today is {_D}", premises):
        if opinion["who"] == found["who"]:
            return (_day(opinion),)
    raise ValueError(premises)


def _day_first(found: re.Match[str], premises: str) -> Days:
    day, month, year = map(int, found.groups())
    return (date(year, month, day),)


def _monthly(found: re.Match[str], premises: str) -> Days:
    first = date(int(found["year"]), month_of(found["month"]), int(found["day"]))
    return shift(first, int(found["visits"]) - 1, "month")


def _used_up(found: re.Match[str], premises: str) -> Days:
    """One item per day: the last is used after n days, or after n - 1 if the first was used on the first day."""
    count = int(found["things"])
    return (*shift(_day(found), count, "day"), *shift(_day(found), count - 1, "day"))


def _work(found: re.Match[str], premises: str) -> Days:
    second = date(int(found["year"]), month_of(found["month"]), int(found["day"]))
    (first,) = shift(second, -1, "day")
    return shift(first, int(found["years"]), "year")


def _named(found: re.Match[str], premises: str) -> Days:
    day = _named_days.read(found["name"])
    return (day,) if day else ()


def _without_year(found: re.Match[str], premises: str) -> Days:
    """A day without a year, in the only year that the premises mention."""
    years = set(re.findall(r"(?<![0-9])[0-9]{4}(?![0-9])", premises))
    if len(years) != 1:
        raise ValueError(premises)
    month = int(found["number"]) if found["number"] else month_of(found["month"])
    return (date(int(years.pop()), month, int(found["day"] or found["day2"])),)


_OPINIONS = r"(?P<who>[A-Z]\w+) is (?:correct|right)\."
_BARE = rf"(?:(?P<number>[0-9]{{1,2}})/(?P<day>[0-9]{{1,2}})(?![0-9/])|(?P<month>{MONTH}) (?P<day2>[0-9]{{1,2}})(?!,? [0-9]{{4}})\b)"
_FORMS: tuple[tuple[re.Pattern[str], Rule], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE if pattern is not _OPINIONS else 0), rule)
    for pattern, rule in (
        (_OPINIONS, _right_one),
        (rf"today is in fact {_BARE}", _without_year),
        (r"day before the month.*today is ([0-9]{1,2})/([0-9]{1,2})/([0-9]{4})", _day_first),
        (rf"{_D} is like yesterday to \w+, but that is (?:actually|in fact) {_N} ago", _by(1)),
        (rf"day before yesterday was {_D}", _days(2)),
        (rf"day after tomorrow is {_D}", _days(-2)),
        (rf"\byesterday(?: was|,) {_D}", _days(1)),
        (rf"\btomorrow(?: is|,)? \(?(?:[A-Z][a-z]+, )?{_D}", _days(-1)),
        (rf"It was {_D} {_N} ago", _by(1)),
        (rf"{_D}, which is {_N} (?:away )?from now", _by(-1)),
        (rf"(?:scheduled|planned) (?:to be on|for) {_D}, but was delayed by (?P<offsets>.*) to today", _then),
        (rf"on {_D}\. (?P<offsets>(?:{_MUTE_N} later [^.]*\. )*{_MUTE_N}) have passed since then", _then),
        (rf"on {_D}\..* (?P<jubilee>silver|golden|diamond) wedding anniversary", lambda found, _: shift(_day(found), _JUBILEES[found["jubilee"].lower()], "year")),
        (rf"on {_D}\..* {_YEARS} anniversary", lambda found, _: shift(_day(found), int(found["years"]), "year")),
        (rf"born on (?P<born>.*?)\. Today is \w+ {_YEARS}-old birthday", _birthday),
        (rf"(?P<year>[0-9]{{4}}) is coming in {_N}", _new_year),
        (
            rf"on the (?P<day>[0-9]{{1,2}})(?:st|nd|rd|th) of each month starting from (?:the )?(?P<month>{MONTH}) of "
            rf"(?P<year>[0-9]{{4}})\..* (?P<visits>[0-9]{{1,3}})(?:st|nd|rd|th) visit",
            _monthly,
        ),
        (rf"On {_D},? \w+ bought (?P<things>[0-9]{{1,3}}) .* one per day\. Today \w+ ran out", _used_up),
        (
            rf"in (?P<year>[0-9]{{4}})\. Today is \w+ {_YEARS} work anniversary\..* on (?P<month>{MONTH}) "
            r"(?P<day>[0-9]{1,2}), \w+ second day",
            _work,
        ),
        (rf"\b(?:today is|this is|it is|today, ?|local time is [0-9:]+ ?[ap]m of) ?{_D}", _days(0)),
        (r"\b(?:today|this|celebrating)(?: is)? (?P<name>(?:the )?(?:US )?[A-Za-z][A-Za-z' ]* [0-9]{4})(?=[.,])", _named),
        (rf"\btoday is {_BARE}", _without_year),
    )
)  # fmt: skip
