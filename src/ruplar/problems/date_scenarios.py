"""Random numbers → the scenario of a date problem: sentences that say which day it is today, and the steps to that day.

`OPENINGS` are the ways to say it; each adds its sentences and steps to a scenario and returns the day. The texts are in
`date_scenarios.yaml`. `domains/_date_questions.py` parses the sentences, and a test keeps the two consistent.
"""

from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any

from ruplar.domains._calendar import MONTHS, last_day, shift, show
from ruplar.problems.data_files import frozen, load
from ruplar.problems.seeding import Draws, Redraw

TEXTS: dict[str, Any] = frozen(load(Path(__file__).with_name("date_scenarios.yaml")))
FULL_MONTHS: tuple[str, ...] = TEXTS["months"]
FIRST_YEAR, LAST_YEAR = 1900, 2030
"""Years a scenario begins in; those of BIG-bench begin in 1899 to 2021."""
EARLIEST, LATEST = 1880, 2099
"""Years of all dates of a problem: each is one token of the dates tokenizer."""
LONGEST = {"day": 40, "week": 4, "month": 11, "year": 12}
"""Unit → the longest offset in that unit."""


class Scenario(Draws):
    """One scenario being written."""

    def __init__(self, rng: Random):
        super().__init__(rng)
        self.sentences: list[str] = []
        self.steps: list[str] = []
        women = rng.random() < 0.5
        one, other = ("women", "men") if women else ("men", "women")
        self.name, self.other = self.pick(TEXTS[one]), self.pick(TEXTS[other])
        self.he, self.his = ("she", "her") if women else ("he", "his")

    def day(self) -> date:
        """Any day a scenario may begin with; one in five is near the end of a month, where most mistakes are made."""
        start = date(FIRST_YEAR, 1, 1)
        day = start + timedelta(days=self.between(0, (date(LAST_YEAR, 12, 31) - start).days))
        if self.rng.random() < 0.2:
            day = shift(day.replace(day=1), self.between(-4, 3), "day")[0]
        return day if day.year >= FIRST_YEAR else start

    def write(self, day: date) -> str:
        """A date in one of the formats of the questions."""
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
        """Add a sentence; `{name}`, `{other}`, `{he}`, `{his}` and the given words are filled in, the first letter is capitalized."""
        text = sentence.format(name=self.name, other=self.other, he=self.he, his=self.his, **words)
        self.sentences.append(text[0].upper() + text[1:])

    def move(self, day: date, count: int, unit: str) -> date:
        """Add an offset to a day as a step; weeks become days, as in the chains of Date Understanding."""
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
        """Add a step that resolves a description of a day: `last day of Jan 2012 = Jan 31, 2012`."""
        self.steps.append(f"{written} = {show(day)}")
        return day


def amount(count: int, unit: str) -> str:
    """`1 day`, `7 days`."""
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"


def ordinal(number: int) -> str:
    """`1st`, `2nd`, `11th`, `23rd`."""
    ends = {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ends.get(number % 10, 'th')}"


def plain(scene: Scenario) -> date:
    """The date itself."""
    day = scene.day()
    text = scene.pick(TEXTS["plain"])
    scene.say(text, d=scene.write(day))
    return day


def around(scene: Scenario) -> date:
    """Yesterday, tomorrow, and the days next to them."""
    start = scene.day()
    words = {"activity": scene.pick(TEXTS["activities"]), "duty": scene.pick(TEXTS["duties"])}
    count, text = scene.pick(TEXTS["around"])
    scene.say(text, d=scene.write(start), **words)
    return scene.move(start, count, "day")


def ago(scene: Scenario) -> date:
    """A date some time ago."""
    start, (count, unit) = scene.day(), _offset(scene)
    scene.say(TEXTS["ago"], d=scene.write(start), n=amount(count, unit))
    return scene.move(start, count, unit)


def deadline(scene: Scenario) -> date:
    """A date some time ahead."""
    start, (count, unit) = scene.day(), _offset(scene)
    text = scene.pick(TEXTS["deadline"])
    scene.say(text, d=scene.write(start), n=amount(count, unit))
    return scene.move(start, -count, unit)


def delayed(scene: Scenario) -> date:
    """An event that was delayed, once or twice, until today."""
    start, (count, unit) = scene.day(), _offset(scene)
    words = {"what": scene.pick(TEXTS["events"]), "d": scene.write(start), "n": amount(count, unit)}
    day = scene.move(start, count, unit)
    once, twice = TEXTS["delayed"]
    if scene.rng.random() < 0.5:
        scene.say(once, **words)
        return day
    again, unit = _offset(scene)
    scene.say(twice, **words, m=amount(again, unit))
    return scene.move(day, again, unit)


def passed(scene: Scenario) -> date:
    """Something done on a day, what came later, and how long ago that was."""
    day = scene.day()
    scene.say("{name} " + scene.pick(TEXTS["changes"]) + " on {d}.", d=scene.write(day))
    for what in scene.rng.sample(TEXTS["next_changes"], scene.pick((0, 0, 1, 1, 2))):
        count, unit = _offset(scene)
        scene.say("{n} later " + what + ".", n=amount(count, unit))
        day = scene.move(day, count, unit)
    count = scene.between(2, 60)
    scene.say(TEXTS["passed"], n=count)
    return scene.move(day, count, "day")


def anniversary(scene: Scenario) -> date:
    """Years since a wedding or a birth."""
    start, texts = scene.day(), TEXTS["anniversary"]
    kind, years, word = scene.rng.random(), scene.between(1, 30), ""
    if kind < 0.3:
        word, years = scene.pick((("silver", 25), ("golden", 50)))
    scene.say(texts["married" if kind < 0.6 else "born"], d=scene.write(start))
    text = "named" if kind < 0.3 else "numbered" if kind < 0.6 else "birthday"
    scene.say(texts[text], n=years, word=word)
    return scene.move(start, years, "year")


def named(scene: Scenario) -> date:
    """A day that has a name, or is counted from the start of a year or a month."""
    some = scene.day()
    year, month, number = some.year, some.month, scene.between(1, 12)
    short, nth = f"{MONTHS[month - 1]} {year}", TEXTS["ordinals"]
    words, day = scene.pick(
        (
            (f"first day of {year}", date(year, 1, 1)),
            (f"last day of {year}", date(year, 12, 31)),
            (f"last day of {short}", last_day(year, month)),
            (f"first day of {short}", date(year, month, 1)),
            (f"{nth[number - 1]} day of the {nth[month - 1]} month of {year}", date(year, month, number)),
            (f"Christmas Eve of {year}", date(year, 12, 24)),
            (f"last day of the first quarter of {year}", date(year, 3, 31)),
        )
    )
    scene.say(scene.pick(TEXTS["named"]), the="" if words.startswith("C") else "the ", words=words)
    return scene.state(words, day)


def opinions(scene: Scenario) -> date:
    """Two opinions, of which one is right."""
    first = scene.day()
    second = shift(first, scene.between(1, 3), "day")[0]
    scene.say(TEXTS["opinions"], first=scene.write(first), second=scene.write(second))
    right, day = scene.pick((("{name}", first), ("{other}", second)))
    scene.say(right + " is correct.")
    return day


def mistaken(scene: Scenario) -> date:
    """A wrong date, corrected by a number of days."""
    start, count = scene.day(), scene.between(1, 6)
    day = shift(start, count, "day")[0]
    if day.year != start.year:  # the corrected date is written without its year
        start, day = start.replace(month=3, day=10), start.replace(month=3, day=10 + count)
    corrected = show(day).partition(",")[0]
    scene.say(TEXTS["mistaken"], d=scene.write(start), m=corrected, n=amount(count, "day"))
    return scene.move(start, count, "day")


def new_year(scene: Scenario) -> date:
    """Hours before a year begins."""
    year, hours = scene.day().year, scene.pick((24, 48, 72, 96))
    scene.say(TEXTS["new_year"], year=year, n=hours)
    return scene.move(date(year, 1, 1), -hours, "hour")


def used_up(scene: Scenario) -> date:
    """One item is used per day until none is left."""
    start, count, what = scene.day(), scene.between(5, 60), scene.pick(TEXTS["goods"])
    written = scene.write(start)
    for text in TEXTS["used_up"]:
        scene.say(text, d=written, n=count, what=what)
    return scene.move(start, count, "day")


def monthly(scene: Scenario) -> date:
    """The same day of each month, several times."""
    first = scene.day().replace(day=scene.between(1, 28))
    visits, place = scene.between(2, 12), scene.pick(TEXTS["places"])
    words = {"day": ordinal(first.day), "month": FULL_MONTHS[first.month - 1], "year": first.year, "place": place}
    for text in TEXTS["monthly"]:
        scene.say(text, n=ordinal(visits), **words)
    return scene.move(first, visits - 1, "month")


def _offset(scene: Scenario) -> tuple[int, str]:
    unit = scene.pick(("day", "day", "day", "week", "month", "year"))
    return scene.between(1, LONGEST[unit]), unit


OPENINGS: dict[str, Callable[[Scenario], date]] = {
    way.__name__: way
    for way in (
        plain, around, ago, deadline, delayed, passed, anniversary, named, opinions, mistaken, new_year, used_up, monthly,
    )
}  # fmt: skip
"""Name → a way to say which day it is; to add one, add a function and its texts."""

WEIGHTS = {"plain": 1, "around": 2, "ago": 2, "deadline": 2, "delayed": 3, "passed": 4, "anniversary": 2}
"""How often a way is drawn; 1 where it is not listed."""
