"""Ways to say which day it is today: each writes its sentences and steps into a tale and returns the day.

Adding a function here adds a way; `domains/_date_questions.py` reads them back, and a test holds the two together.
"""

from __future__ import annotations

from datetime import date

from ruplar.domains._calendar import MONTHS, last_day, shift, show
from ruplar.problems.date_problems.tale import FULL_MONTHS, Tale, amount, ordinal

_DUTIES = ("booked a flight", "scheduled 3 appointments", "planned a party", "bought a ticket", "rented a car")
_MEALS = ("ate 2 pizzas and 5 wings", "read 40 pages", "ran 6 miles", "watched 2 films", "planted 12 trees")
_EVENTS = ("concert", "meeting", "race", "exam", "match", "wedding")
_BREAKS = ("quit {his} job", "moved to Rome", "sold {his} car", "left for Peru", "began to learn French")
_NEXT = (
    "{he} found a new house",
    "{he} bought a boat",
    "{he} adopted a dog",
    "{he} joined a band",
    "{he} wrote a book",
)
_GOODS = ("eggs", "apples", "cookies", "pills")
_PLACES = ("bookstore", "museum", "library", "dentist")
_NTH = (
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
    "eleventh",
    "twelfth",
)


def plain(tale: Tale) -> date:
    """The date itself."""
    day = tale.day()
    told = tale.pick(
        (
            "today is {d}.",
            "it is {d} today.",
            "today, {d}, is a day that we will never forget.",
            "the current local time is 3:02 pm of {d}.",
            "today is {d}. {name}'s appointment will be 3 days later.",
        )
    )
    tale.say(told, d=tale.write(day))
    return day


def around(tale: Tale) -> date:
    """Yesterday, tomorrow, and the days beyond them."""
    told = tale.day()
    count, sentence = tale.pick(
        (
            (1, "yesterday was {d}."),
            (1, f"yesterday, {{d}}, {{name}} {tale.pick(_MEALS)}."),
            (-1, "tomorrow is {d}."),
            (-1, f"{{name}} {tale.pick(_DUTIES)} for tomorrow, {{d}}."),
            (2, "the day before yesterday was {d}."),
            (-2, "the day after tomorrow is {d}."),
        )
    )
    tale.say(sentence, d=tale.write(told))
    return tale.move(told, count, "day")


def ago(tale: Tale) -> date:
    """A date that was so long ago."""
    told, (count, unit) = tale.day(), _offset(tale)
    tale.say("it was {d} {n} ago.", d=tale.write(told), n=amount(count, unit))
    return tale.move(told, count, unit)


def deadline(tale: Tale) -> date:
    """A date that is so far away."""
    told, (count, unit) = tale.day(), _offset(tale)
    what = tale.pick(("the deadline", "the exam", "{name}'s birthday"))
    tale.say(what + " is {d}, which is {n} away from now.", d=tale.write(told), n=amount(count, unit))
    return tale.move(told, -count, unit)


def delayed(tale: Tale) -> date:
    """Something put off, once or twice, until today."""
    told, (count, unit) = tale.day(), _offset(tale)
    words = {"what": tale.pick(_EVENTS), "d": tale.write(told), "n": amount(count, unit)}
    day = tale.move(told, count, unit)
    if tale.rng.random() < 0.5:
        tale.say("the {what} was scheduled to be on {d}, but was delayed by {n} to today.", **words)
        return day
    again, unit = _offset(tale)
    told_as = "the {what} was scheduled to be on {d}, but was delayed by {n}, and then by {m} to today."
    tale.say(told_as, **words, m=amount(again, unit))
    return tale.move(day, again, unit)


def passed(tale: Tale) -> date:
    """Something done on a day, what came later, and how long ago that was."""
    day = tale.day()
    tale.say("{name} " + tale.pick(_BREAKS) + " on {d}.", d=tale.write(day))
    for what in tale.rng.sample(_NEXT, tale.pick((0, 0, 1, 1, 2))):
        count, unit = _offset(tale)
        tale.say("{n} later " + what + ".", n=amount(count, unit))
        day = tale.move(day, count, unit)
    count = tale.between(2, 60)
    tale.say("{n} days have passed since then.", n=count)
    return tale.move(day, count, "day")


def anniversary(tale: Tale) -> date:
    """Years since a wedding or a birth."""
    told = tale.day()
    kind, years = tale.rng.random(), tale.between(1, 30)
    if kind < 0.3:
        word, years = tale.pick((("silver", 25), ("golden", 50)))
        tale.say("{name} and {other} married on {d}.", d=tale.write(told))
        tale.say("today is their {word} wedding anniversary.", word=word)
    elif kind < 0.6:
        tale.say("{name} and {other} married on {d}.", d=tale.write(told))
        tale.say("it is their {n}-year anniversary today.", n=years)
    else:
        tale.say("{name} was born on {d}.", d=tale.write(told))
        tale.say("today is {his} {n}-year-old birthday.", n=years)
    return tale.move(told, years, "year")


def named(tale: Tale) -> date:
    """A day that has a name, or is counted from the start of a year or a month."""
    some = tale.day()
    year, month, number = some.year, some.month, tale.between(1, 12)
    short = f"{MONTHS[month - 1]} {year}"
    words, day = tale.pick(
        (
            (f"first day of {year}", date(year, 1, 1)),
            (f"last day of {year}", date(year, 12, 31)),
            (f"last day of {short}", last_day(year, month)),
            (f"first day of {short}", date(year, month, 1)),
            (f"{_NTH[number - 1]} day of the {_NTH[month - 1]} month of {year}", date(year, month, number)),
            (f"Christmas Eve of {year}", date(year, 12, 24)),
            (f"last day of the first quarter of {year}", date(year, 3, 31)),
        )
    )
    the = "" if words.startswith("C") else "the "
    tale.say(
        tale.pick(("today is {the}{w}.", "this is {the}{w}.", "{name} is celebrating {the}{w}.")), the=the, w=words
    )
    return tale.state(words, day)


def opinions(tale: Tale) -> date:
    """Two opinions, of which one is right."""
    first = tale.day()
    second = shift(first, tale.between(1, 3), "day")[0]
    told = "{name} thinks today is {a}, but {other} thinks today is {b}."
    tale.say(told, a=tale.write(first), b=tale.write(second))
    right, day = tale.pick((("{name}", first), ("{other}", second)))
    tale.say(right + " is correct.")
    return day


def mistaken(tale: Tale) -> date:
    """A wrong opinion, mended by so many days."""
    told, count = tale.day(), tale.between(1, 6)
    day = shift(told, count, "day")[0]
    if day.year != told.year:  # the mended date is told without its year
        told, day = told.replace(month=3, day=10), told.replace(month=3, day=10 + count)
    tale.say(
        "{name} thought today is {d}, but today is in fact {m}, which is {n} later.",
        d=tale.write(told), m=show(day).partition(",")[0], n=amount(count, "day"),
    )  # fmt: skip
    return tale.move(told, count, "day")


def new_year(tale: Tale) -> date:
    """Hours before a year begins."""
    year, hours = tale.day().year, tale.pick((24, 48, 72, 96))
    tale.say("{y} is coming in {n} hours.", y=year, n=hours)
    return tale.move(date(year, 1, 1), -hours, "hour")


def used_up(tale: Tale) -> date:
    """One a day until none is left."""
    told, count, what = tale.day(), tale.between(5, 60), tale.pick(_GOODS)
    tale.say("on {d} {name} bought {n} {what}.", d=tale.write(told), n=count, what=what)
    tale.say("{he} ate one per day.")
    tale.say("today {he} ran out of {what}.", what=what)
    return tale.move(told, count, "day")


def monthly(tale: Tale) -> date:
    """The same day of each month, so many times."""
    first = tale.day().replace(day=tale.between(1, 28))
    visits, place = tale.between(2, 12), tale.pick(_PLACES)
    told = "{name} visits the {place} on the {day} of each month starting from the {month} of {year}."
    words = {"day": ordinal(first.day), "month": FULL_MONTHS[first.month - 1], "year": first.year}
    tale.say(told, place=place, **words)
    tale.say("it is {his} {n} visit to the {place} today.", n=ordinal(visits), place=place)
    return tale.move(first, visits - 1, "month")


def _offset(tale: Tale) -> tuple[int, str]:
    """How long: days most often."""
    unit = tale.pick(("day", "day", "day", "week", "month", "year"))
    return tale.between(1, {"day": 40, "week": 4, "month": 11, "year": 12}[unit]), unit


OPENINGS = {
    f.__name__: f
    for f in (
        plain, around, ago, deadline, delayed, passed, anniversary, named, opinions, mistaken, new_year, used_up, monthly
    )
}  # fmt: skip
"""Name → way."""

WEIGHTS = {"plain": 1, "around": 2, "ago": 2, "deadline": 2, "delayed": 3, "passed": 4, "anniversary": 2}
"""How often a way is drawn; 1 where it is not named."""
