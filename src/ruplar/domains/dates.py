r"""Dates: steps written `<<Jul 8, 1972 - 1 year = Jul 8, 1971>>`, answers that are days of the calendar.

A date is three symbols, month, day and year, however it is written: `07/08/1971` and `8 July 1971` are `Jul 8 1971`, so that a
prior never mistakes a day for a month. Counts, units (`days`, `year`), signs, `=` and other words are symbols as they stand; `of`,
`the`, `in`, `then`, and commas and points that only part them, are none. The result is what stands after the last `=`: a whole date, not its year.

Steps are carried out again by the calendar: leap years, ends of months, weeks, hours, weekdays, and days that have a name
(`Thanksgiving 2001`). Every equation of a step is, and none may leave words over; a day that does not exist is wrong. A chain is
also held against its question, where the question says by one of the known ways which day it is today and which day is asked for.
Numbers with slashes are read month first, as the answers of Date Understanding are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from typing import ClassVar

from ruplar.domains import _calendar, _date_questions, _named_days
from ruplar.domains._answer_text import after_hashes, boxed
from ruplar.domains._numbers import DASHES
from ruplar.settings import Settings
from ruplar.types import Example

_STEP = re.compile(r"<<(?!<)(.*?)>>", re.DOTALL)
_SYMBOL = re.compile(rf"(?P<date>{_calendar.DATE})|[0-9]+(?:\.[0-9]+)?|[^\W0-9_]+(?:'[a-z]+)?|[^\s,.;]")
_FORM = frozenset({"of", "the", "in", "then"})
_OFFSET = re.compile(
    rf"[,;]?\s*(?:then\s*)?(?P<sign>[-+])\s*(?P<count>{_calendar.COUNT})\s*-?\s*(?P<unit>{_calendar.UNIT})\b",
    re.IGNORECASE,
)
_DATE = re.compile(_calendar.DATE)
_WEEKDAY = re.compile(rf"[ ,(]*({'|'.join(_calendar.WEEKDAYS)})\b\)?", re.IGNORECASE)
_PARTING = " ,;."
"""What may stand behind a day or an offset and says nothing."""


class Config(Settings):
    """Nothing to set."""


@dataclass
class Domain:
    """What a step, its symbols, its result and a right answer are among dates. See the module's docstring."""

    config: Config

    EXAMPLE = ("<<Jul 9, 1972 - 1 day = Jul 8, 1972>> <<Jul 8, 1972 - 1 year = Jul 8, 1971>>", "07/08/1971")
    REFUSES_WRONG: ClassVar[bool] = True

    def split(self, chain: str) -> list[str]:
        """Raw chain → the text inside each `<<…>>`; blank ones are none."""
        return [step for found in _STEP.findall(chain) if (step := found.strip())]

    def symbols(self, step: str) -> list[str]:
        """Step → its symbols in order: `8/3/1997 + 7 days = 8/10/1997` → `Aug 3 1997 + 7 days = Aug 10 1997`."""
        out: list[str] = []
        for found in _SYMBOL.finditer(step.translate(DASHES)):
            day = _calendar.of_match(found) if found["date"] else None
            if day is not None:
                out += [_calendar.MONTHS[day.month - 1], str(day.day), str(day.year)]
            elif found["date"]:  # no day that exists: its pieces as they stand
                out += re.findall(r"[0-9]+|[^\W0-9_]+|/", found["date"])
            elif found[0].lower() not in _FORM:
                out.append(found[0])
        return out

    def result(self, step: str) -> list[str]:
        """Step → the symbols of the date it states, behind the last `=`; [] when it states none."""
        _, equals, right = step.rpartition("=")
        return self.symbols(right) if equals else []

    def check(self, step: str) -> str | None:
        """Carry the step out again → `Jan 31, 2012 + 7 days is Feb 7, 2012, not Feb 6, 2012`, or None. Of several `=` each."""
        return next((fault for judged, fault in _verdicts(step) if judged and fault), None)

    def unchecked(self, step: str) -> str | None:
        """Why an equation of the step cannot be carried out again; None when `check` has judged every one, or found one wrong."""
        found = _verdicts(step)
        if not found:
            return "it states no result"
        if any(judged and fault for judged, fault in found):
            return None
        return next((why for judged, why in found if not judged), None)

    def check_chain(self, example: Example) -> list[str]:
        """What the question says of today and asks for, against the marked answer; [] where it cannot be read."""
        expected = _date_questions.expected(example.question)
        marked = _calendar.read(example.answer)
        if expected is None or marked is None or marked in expected.days:
            return []
        days = " or ".join(_calendar.show(day) for day in expected.days)
        today = " or ".join(_calendar.show(day) for day in expected.today)
        return [f"today is {today} by the question, so the answer is {days}, not {_calendar.show(marked)}"]

    def scenario(self, question: str) -> str:
        """What a question tells before it asks: all of it up to its last sentence, but for which of two is right."""
        return _date_questions.scenario(question)

    def extract(self, text: str) -> str | None:
        r"""The answer in generated text: the last `\boxed{…}`, what follows the last `####`, or the text if it is just a date."""
        if r"\boxed{" in text:
            return boxed(text) or None
        if "####" in text:
            return after_hashes(text) or None
        text = text.strip()
        return text if _calendar.read(text) is not None else None

    def same(self, found: str, marked: str) -> bool:
        """Whether two answers are the same day: 7/8/1971 is 07/08/1971 is Jul 8, 1971. Two that are none: the same words."""
        ours, theirs = _calendar.read(found), _calendar.read(marked)
        if ours is None and theirs is None:
            return " ".join(found.split()).casefold() == " ".join(marked.split()).casefold()
        return ours == theirs


def _verdicts(step: str) -> list[tuple[bool, str]]:
    """Each equation of a step → whether it was carried out, and its fault or why it was not; `(True, "")` is right."""
    sides = [side.strip() for side in step.translate(DASHES).split("=")]
    # what follows the day of a middle side is the beginning of the next equation (`= May 30, 2021, then +1 day = …`)
    return [_verdict(left, right, i == len(sides) - 2) for i, (left, right) in enumerate(pairwise(sides))]


def _verdict(left: str, right: str, last: bool) -> tuple[bool, str]:
    """One equation, carried out; of the `last` nothing may be left over behind the day it states."""
    if wrong := _no_day(left) or _no_day(right):
        return True, wrong
    start, tail = _start(left)
    if start is None:
        return False, f"'{left}' names no day we know"
    wrong, tail = _weekday(start, tail)
    if wrong:
        return True, wrong
    try:
        days, rest = _carried_out(start, tail)
    except ValueError:
        return False, f"'{left}' leaves the calendar"
    if rest:
        return False, f"'{rest}' cannot be carried out"
    stated, tail = _start(right)
    if stated is None:
        return False, f"'{right}' states no day"
    wrong, tail = _weekday(stated, tail)
    rest = tail.strip(_PARTING) if last else ""
    moved = "+" in rest or "-" in rest  # then the day it states may be another
    if stated not in days and not moved:
        return True, f"{left} is {_calendar.show(days[0])}, not {_calendar.show(stated)}"
    if rest and not wrong:
        return False, f"'{rest}' stands behind the day it states"
    return True, wrong


def _no_day(side: str) -> str:
    """What is wrong with a side that begins with a date which no calendar has; "" with any other."""
    found = _DATE.match(side)
    if found is None or _calendar.of_match(found) is not None:
        return ""
    return f"there is no {found[0]}" + (" (the month stands first)" if "/" in found[0] else "")


def _weekday(day: date, tail: str) -> tuple[str, str]:
    """A day and what follows it → what is wrong with the weekday it is given, "" with none or the right one, and the rest."""
    found = _WEEKDAY.match(tail)
    if found is None:
        return "", tail
    right = found[1].title() == _calendar.weekday(day)
    wrong = f"{_calendar.show(day)} is a {_calendar.weekday(day)}, not a {found[1].title()}"
    return "" if right else wrong, tail[found.end() :]


def _carried_out(start: date, tail: str) -> tuple[list[date], str]:
    """A day and the offsets written behind it → the days it may lead to, and what is no offset."""
    days, at = [start], 0
    while offset := _OFFSET.match(tail, at):
        count = int(f"{offset['sign']}1") * _calendar.count_of(offset["count"])
        days = [d for day in days for d in _calendar.shift(day, count, offset["unit"])]
        at = offset.end()
    return days, tail[at:].strip(_PARTING)


def _start(text: str) -> tuple[date | None, str]:
    """The day that one side of an `=` begins with, as a date or by its name, and what follows it."""
    if found := _DATE.match(text):
        return _calendar.of_match(found), text[found.end() :]
    offset = _OFFSET.search(text)
    words = text[: offset.start()] if offset else text
    return _named_days.read(words.strip(_PARTING)), text[len(words) :]
