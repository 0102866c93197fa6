"""Random numbers → one story about dates: what was said so far, which day it is, and the steps that lead there."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from random import Random
from typing import TypeVar

from ruplar.domains._calendar import MONTHS, shift, show

T = TypeVar("T")

FIRST_YEAR, LAST_YEAR = 1900, 2030
"""Years a story begins in; BIG-bench's stories begin in 1899 to 2021."""
EARLIEST, LATEST = 1880, 2099
"""Years any date of a problem lies in: each is one token of the dates tokenizer."""

WOMEN = ("Jane", "Mia", "Anna", "Emma", "Rosa", "Lucy", "Nora", "Alice", "Ruth", "Clara")
MEN = ("John", "Tom", "Ben", "Leo", "Omar", "Paul", "Hugo", "Ravi", "Eric", "Liam")
FULL_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October"),
    *("November", "December"),
)


class Redraw(Exception):
    """The numbers drawn make no problem (a year out of bounds); draw again."""


class Tale:
    """One story in the making.

    Attributes:
        rng: The only source of chance.
        said: Sentences so far.
        steps: Steps so far.
    """

    def __init__(self, rng: Random):
        self.rng, self.said, self.steps = rng, [], []  # type: Random, list[str], list[str]
        women = rng.random() < 0.5
        self.name, self.other = self.pick(WOMEN if women else MEN), self.pick(MEN if women else WOMEN)
        self.he, self.his = ("she", "her") if women else ("he", "his")

    def pick(self, some: Sequence[T]) -> T:
        """One of them."""
        return some[int(self.rng.random() * len(some))]

    def between(self, low: int, high: int) -> int:
        """A whole number, both ends included."""
        return low + int(self.rng.random() * (high - low + 1))

    def day(self) -> date:
        """Any day a story may begin with; one in five stands near the end of a month, where most mistakes are made."""
        start = date(FIRST_YEAR, 1, 1)
        day = start + timedelta(days=self.between(0, (date(LAST_YEAR, 12, 31) - start).days))
        if self.rng.random() < 0.2:
            day = shift(day.replace(day=1), self.between(-4, 3), "day")[0]
        return day if day.year >= FIRST_YEAR else start

    def write(self, day: date) -> str:
        """A date in one of the ways questions write it."""
        way = self.rng.random()
        if way < 0.45:
            return show(day)
        if way < 0.75:
            return f"{day.month}/{day.day}/{day.year}"
        if way < 0.85:
            return f"{day.month:02d}/{day.day:02d}/{day.year}"
        if way < 0.95:
            return f"{FULL_MONTHS[day.month - 1]} {day.day}, {day.year}"
        return f"{MONTHS[day.month - 1]} {ordinal(day.day)}, {day.year}"

    def say(self, sentence: str, **words: object) -> None:
        """Add a sentence; `{name}`, `{other}`, `{he}`, `{his}` and the words given are filled in, the first letter is raised."""
        text = sentence.format(name=self.name, other=self.other, he=self.he, his=self.his, **words)
        self.said.append(text[0].upper() + text[1:])

    def move(self, day: date, count: int, unit: str) -> date:
        """The day an offset leads to, written down as a step; weeks become days, as in Date Understanding's chains."""
        if unit == "week":
            count, unit = 7 * count, "day"
        try:
            (found,) = shift(day, count, unit)
        except ValueError as error:
            raise Redraw from error
        if not EARLIEST <= found.year <= LATEST:
            raise Redraw
        sign = "-" if count < 0 else "+"
        self.steps.append(f"{show(day)} {sign} {amount(abs(count), unit)} = {show(found)}")
        return found

    def state(self, written: str, day: date) -> date:
        """A day put into words, written down as a step: `last day of Jan 2012 = Jan 31, 2012`."""
        self.steps.append(f"{written} = {show(day)}")
        return day


def amount(count: int, unit: str) -> str:
    """`1 day`, `7 days`."""
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"


def ordinal(number: int) -> str:
    """`1st`, `2nd`, `11th`, `23rd`."""
    ends = {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ends.get(number % 10, 'th')}"
