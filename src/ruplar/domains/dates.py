r"""Dates: steps written `<<Jul 8, 1972 - 1 year = Jul 8, 1971>>`, answers that are days of the calendar.

A date is three symbols, month, day and year, however it is written: `07/08/1971` and `8 July 1971` are `Jul 8 1971`. Counts,
units (`days`, `year`), signs, `=` and other words are symbols as written; `of`, `the`, `in`, `then`, commas and points are
not symbols. The result is everything after the last `=`: a whole date, not only its year.

Steps are recomputed with the calendar: leap years, ends of months, weeks, hours, weekdays, and named days (`Thanksgiving
2001`). Every equation of a step is checked and must be understood completely; a day that does not exist is wrong. A chain is
also checked against its question if the question has a known form. Numbers with slashes are month first, as in the answers
of Date Understanding.
"""

import re
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from typing import ClassVar

from ruplar.domains import _calendar, _date_questions, _markup, _named_days
from ruplar.domains._numbers import DASHES
from ruplar.settings import Settings
from ruplar.types import Example

_SYMBOL = re.compile(rf"(?P<date>{_calendar.DATE})|[0-9]+(?:\.[0-9]+)?|[^\W0-9_]+(?:'[a-z]+)?|[^\s,.;]")
_FORM = frozenset({"of", "the", "in", "then"})
_OFFSET = re.compile(
    rf"[,;]?\s*(?:then\s*)?(?P<sign>[-+])\s*(?P<count>{_calendar.COUNT})\s*-?\s*(?P<unit>{_calendar.UNIT})\b",
    re.IGNORECASE,
)
_DATE = re.compile(_calendar.DATE)
_WEEKDAY = re.compile(rf"[ ,(]*({'|'.join(_calendar.WEEKDAYS)})\b\)?", re.IGNORECASE)
_SEPARATORS = " ,;."
"""Characters that may follow a day or an offset without a meaning."""


class Config(Settings):
    """No settings."""


@dataclass
class Domain:
    """Steps, symbols, results and answers of date arithmetic; see the module docstring."""

    config: Config

    EXAMPLE = ("<<Jul 9, 1972 - 1 day = Jul 8, 1972>> <<Jul 8, 1972 - 1 year = Jul 8, 1971>>", "07/08/1971")
    REFUSES_WRONG: ClassVar[bool] = True

    def split(self, chain: str) -> list[str]:
        """Raw chain → the text inside each `<<…>>`."""
        return _markup.steps(chain)

    def symbols(self, step: str) -> list[str]:
        """Step → its symbols in order: `8/3/1997 + 7 days = 8/10/1997` → `Aug 3 1997 + 7 days = Aug 10 1997`."""
        out: list[str] = []
        for found in _SYMBOL.finditer(step.translate(DASHES)):
            day = _calendar.of_match(found) if found["date"] else None
            if day is not None:
                out += [_calendar.MONTHS[day.month - 1], str(day.day), str(day.year)]
            elif found["date"]:  # not an existing day: its parts as written
                out += re.findall(r"[0-9]+|[^\W0-9_]+|/", found["date"])
            elif found[0].lower() not in _FORM:
                out.append(found[0])
        return out

    def result(self, step: str) -> list[str]:
        """Step → the symbols after the last `=`; [] if there is no `=`."""
        _, equals, right = step.rpartition("=")
        return self.symbols(right) if equals else []

    def check(self, step: str) -> str | None:
        """Recompute each equation of the step → `Jan 31, 2012 + 7 days is Feb 7, 2012, not Feb 6, 2012`, or None."""
        return next((fault for judged, fault in _verdicts(step) if judged and fault), None)

    def unchecked(self, step: str) -> str | None:
        """Return why an equation of the step cannot be checked; None if all could be checked, or one is wrong."""
        found = _verdicts(step)
        if not found:
            return "it has no result"
        if any(judged and fault for judged, fault in found):
            return None
        return next((why for judged, why in found if not judged), None)

    def check_chain(self, example: Example) -> list[str]:
        """Compare the marked answer with what the question asks for; [] if the question has no known form."""
        expected = _date_questions.expected(example.question)
        marked = _calendar.read(example.answer)
        if expected is None or marked is None or marked in expected.days:
            return []
        days = " or ".join(_calendar.show(day) for day in expected.days)
        today = " or ".join(_calendar.show(day) for day in expected.today)
        return [f"today is {today} by the question, so the answer is {days}, not {_calendar.show(marked)}"]

    def scenario(self, question: str) -> str:
        """Return the premises of a question: everything but its last sentence and the sentence that says which of two is right."""
        return _date_questions.scenario(question)

    def extract(self, text: str) -> str | None:
        """Return the marked answer in generated text, or the text if it is a date."""
        return _markup.extract(text, lambda answer: _calendar.read(answer) is not None)

    def same(self, found: str, marked: str) -> bool:
        """Return whether two answers are the same day (7/8/1971, Jul 8, 1971) or, if neither is a date, the same words."""
        ours, theirs = _calendar.read(found), _calendar.read(marked)
        if ours is None and theirs is None:
            return " ".join(found.split()).casefold() == " ".join(marked.split()).casefold()
        return ours == theirs


def _verdicts(step: str) -> list[tuple[bool, str]]:
    """Return (checked, message) for each equation of a step: the error, or why it was not checked; `(True, "")` is right."""
    sides = [" ".join(side.split()) for side in step.translate(DASHES).split("=")]
    # text after the day of a middle side belongs to the next equation (`= May 30, 2021, then +1 day = …`)
    return [_verdict(left, right, i == len(sides) - 2) for i, (left, right) in enumerate(pairwise(sides))]


def _verdict(left: str, right: str, last: bool) -> tuple[bool, str]:
    """Check one equation; after the day on the right of the `last` one, nothing may follow."""
    if wrong := _no_day(left) or _no_day(right):
        return True, wrong
    start, tail = _start(left)
    if start is None:
        return False, f"'{left}' does not start with a known day"
    wrong, tail = _weekday(start, tail)
    if wrong:
        return True, wrong
    try:
        days, rest = _apply_offsets(start, tail)
    except ValueError:
        return False, f"'{left}' is outside the years 1 to 9999"
    if rest:
        return False, f"'{rest}' cannot be evaluated"
    stated, tail = _start(right)
    if stated is None:
        return False, f"'{right}' is not a day"
    wrong, tail = _weekday(stated, tail)
    rest = tail.strip(_SEPARATORS) if last else ""
    moved = "+" in rest or "-" in rest  # then the result may be another day
    if stated not in days and not moved:
        return True, f"{left} is {_calendar.show(days[0])}, not {_calendar.show(stated)}"
    if rest and not wrong:
        return False, f"'{rest}' follows the result"
    return True, wrong


def _no_day(side: str) -> str:
    """Return the error of a side that begins with a date that does not exist; "" for any other."""
    found = _DATE.match(side)
    if found is None or _calendar.of_match(found) is not None:
        return ""
    return f"there is no {found[0]}" + (" (the month comes first)" if "/" in found[0] else "")


def _weekday(day: date, tail: str) -> tuple[str, str]:
    """A day and the text after it → the error of its weekday ("" if right or not given), and the rest of the text."""
    found = _WEEKDAY.match(tail)
    if found is None:
        return "", tail
    right = found[1].title() == _calendar.weekday(day)
    wrong = f"{_calendar.show(day)} is a {_calendar.weekday(day)}, not a {found[1].title()}"
    return "" if right else wrong, tail[found.end() :]


def _apply_offsets(start: date, tail: str) -> tuple[list[date], str]:
    """A day and the text after it → the possible days after all offsets, and the rest of the text."""
    days, at = [start], 0
    while offset := _OFFSET.match(tail, at):
        count = int(f"{offset['sign']}1") * _calendar.count_of(offset["count"])
        days = [d for day in days for d in _calendar.shift(day, count, offset["unit"])]
        at = offset.end()
    return days, tail[at:].strip(_SEPARATORS)


def _start(text: str) -> tuple[date | None, str]:
    """Return the day, as a date or a named day, that a side begins with, and the rest of the text."""
    if found := _DATE.match(text):
        return _calendar.of_match(found), text[found.end() :]
    offset = _OFFSET.search(text)
    words = text[: offset.start()] if offset else text
    return _named_days.read(words.strip(_SEPARATORS)), text[len(words) :]
