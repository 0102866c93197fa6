"""Name of a day → date: `the last day of Jan 2012`, `Thanksgiving 2001`, `the first Monday of 2019`, `Palindrome date in 2020`."""

import re
from collections.abc import Callable
from datetime import date, timedelta

from ruplar.domains._calendar import MONTH, WEEKDAYS, last_day, month_of

ORDINALS = (
    *("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh"),
    *("twelfth", "last"),
)
_NTH = rf"(?P<nth>{'|'.join(ORDINALS)})"
_YEAR = r"(?P<year>[0-9]{4})"
_LINK = r"(?: (?:of|in|day|date)(?: the)?)*"


def read(text: str) -> date | None:
    """Return the day with this name; None if the name is unknown or the day does not exist."""
    text = " ".join(text.split()).removesuffix(".")
    for pattern, rule in _RULES:
        if found := pattern.fullmatch(text):
            try:
                return rule(found)
            except ValueError:  # the 31st day of a month of 30
                return None
    return None


def nth(weekday: str, number: int, start: date, end: date) -> date:
    """The n-th such weekday from `start` to `end`, 0-based; -1 for the last."""
    first = start + timedelta(days=(WEEKDAYS.index(weekday.title()) - start.weekday()) % 7)
    days = [first + timedelta(days=7 * i) for i in range((end - first).days // 7 + 1)]
    try:
        return days[number]
    except IndexError:
        raise ValueError(f"{start} to {end} has no such {weekday}") from None


def _number(word: str) -> int:
    return -1 if word.lower() == "last" else ORDINALS.index(word.lower())


def _of_span(found: re.Match[str], start: date, end: date) -> date:
    number = _number(found["nth"])
    day = end if number == -1 else start + timedelta(days=number)
    if day > end:
        raise ValueError(f"{start} to {end} has no such day")
    return day


def _of_year(found: re.Match[str]) -> date:
    year = int(found["year"])
    return _of_span(found, date(year, 1, 1), date(year, 12, 31))


def _of_month(found: re.Match[str]) -> date:
    year, name = int(found["year"]), found["month"]
    month = _number(found["which"]) % 12 + 1 if name is None else month_of(name)
    return _of_span(found, date(year, month, 1), last_day(year, month))


def _of_quarter(found: re.Match[str]) -> date:
    year, quarter = int(found["year"]), _number(found["which"]) % 4
    return _of_span(found, date(year, 3 * quarter + 1, 1), last_day(year, 3 * quarter + 3))


def _weekday(found: re.Match[str]) -> date:
    year, name = int(found["year"]), found["month"]
    start, end = date(year, 1, 1), date(year, 12, 31)
    if name is not None:
        start, end = date(year, month_of(name), 1), last_day(year, month_of(name))
    return nth(found["weekday"], _number(found["nth"]), start, end)


def _thanksgiving(found: re.Match[str]) -> date:
    year = int(found["year"])
    return nth("Thursday", 3, date(year, 11, 1), date(year, 11, 30))


def _palindrome(found: re.Match[str]) -> date:
    """MMDDYYYY is a palindrome if MMDD is YYYY reversed, so a year has at most one such day."""
    turned = found["year"][::-1]
    return date(int(found["year"]), int(turned[:2]), int(turned[2:]))


def _holiday(month: int, day: int) -> Callable[[re.Match[str]], date]:
    return lambda found: date(int(found["year"]), month, day)


_RULES = tuple(
    (re.compile(rf"(?:the )?{pattern}", re.IGNORECASE), rule)
    for pattern, rule in (
        (rf"{_NTH} day of (?:the year )?{_YEAR}", _of_year),
        (rf"{_NTH} day of (?:the )?(?:(?P<month>{MONTH})|(?P<which>{'|'.join(ORDINALS)}) month),?(?: of| in)? {_YEAR}", _of_month),
        (rf"{_NTH} day of (?:the )?(?P<which>first|second|third|fourth|last) quarter(?: of)? {_YEAR}", _of_quarter),
        (rf"{_NTH} (?P<weekday>{'|'.join(WEEKDAYS)}) (?:of|in) (?:(?P<month>{MONTH}),? (?:of )?)?{_YEAR}", _weekday),
        (rf"(?:US )?Thanksgiving{_LINK},? {_YEAR}", _thanksgiving),
        (rf"palindrome{_LINK} {_YEAR}", _palindrome),
        (rf"Christmas Eve{_LINK},? {_YEAR}", _holiday(12, 24)),
        (rf"Christmas(?: Day)?{_LINK},? {_YEAR}", _holiday(12, 25)),
        (rf"New Year's Eve{_LINK},? {_YEAR}", _holiday(12, 31)),
        (rf"New Year's Day{_LINK},? {_YEAR}", _holiday(1, 1)),
        (rf"Valentine's Day{_LINK},? {_YEAR}", _holiday(2, 14)),
        (rf"Halloween{_LINK},? {_YEAR}", _holiday(10, 31)),
    )
)  # fmt: skip
