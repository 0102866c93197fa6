"""Seed and count → problems about dates with `<<…>>` chains that re-execute: the training data of the dates domain.

A problem is a scenario that says which day it is today, in one of the ways of `date_scenarios.py`, and a question about a day near it.
Problem i under seed s depends on (s, i, steps, split) only, and is the same on every machine. The scenario in normalized form
determines the split: all questions about one scenario are in the same split, however its dates are written and whatever names it has. A
scenario of the benchmark Date Understanding is redrawn, so no problem is one of the benchmark's. Two scenarios are the same when
they differ only in how a date or a count is written (`11/12/2019`, `Nov 12, 2019`; `one day`, `1 day`), in the names, in which of
two opinions is right, in case, or in punctuation.
"""

import re
from collections.abc import Iterator
from random import Random

from ruplar.domains import _calendar
from ruplar.domains._date_questions import scenario, unjudged
from ruplar.errors import UserError
from ruplar.fingerprints import digest
from ruplar.problems.date_scenarios import LONGEST, OPENINGS, TEXTS, WEIGHTS, Scenario
from ruplar.problems.seeding import Redraw, Split, mix, part_of
from ruplar.types import Example

REVISION = 3
"""Raise it when the problems of a seed change. 2: no scenario of Date Understanding. 3: a scenario has one split however it is written."""
_SALT = 0xDA7E
_MOST_STEPS = 4
_DRAWN = tuple(name for name in OPENINGS for _ in range(WEIGHTS.get(name, 1)))
_BIG_BENCH = (
    *(("today", 0, "day"), ("tomorrow", 1, "day"), ("yesterday", -1, "day"), ("24 hours later", 1, "day")),
    *(("one week ago from today", -1, "week"), ("one week from today", 1, "week"), ("10 days ago", -10, "day")),
    *(("a month ago", -1, "month"), ("one year ago from today", -1, "year")),
)
"""The nine questions of Date Understanding, with their offsets."""
DATE_UNDERSTANDING: frozenset[str] = frozenset(TEXTS["benchmark_hashes"])
"""The hash of each scenario of Date Understanding, of its training and its test file, in normalized form."""

_DATE = re.compile(_calendar.DATE)
_COUNT = re.compile(rf"\b{_calendar.COUNT}(?= {_calendar.UNIT}\b)", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+")
_NAMES = frozenset((*TEXTS["women"], *TEXTS["men"]))
_PRONOUNS = {"she": "he", "her": "his"}


def generate(
    count: int, seed: int, *, steps: tuple[int, int] = (1, _MOST_STEPS), start: int = 0, split: Split | None = None
) -> Iterator[Example]:
    """Write `count` problems, from the `start`-th on."""
    if not 1 <= steps[0] <= steps[1] or steps[0] > _MOST_STEPS:
        raise UserError(f"steps: date problems have 1 to {_MOST_STEPS} steps, not {steps[0]} to {steps[1]}.")
    return (_problem(seed, index, steps, split) for index in range(start, start + count))


def in_benchmark(scenario: str) -> bool:
    """Whether a scenario is one of the benchmark Date Understanding, of which the package has only hashes."""
    return hash_of(scenario) in DATE_UNDERSTANDING


def hash_of(scenario: str) -> str:
    """A scenario → the hash of its normalized form, 16 hexadecimal digits."""
    return digest(normalize(scenario)).hex()[:16]


def normalize(scenario: str) -> str:
    """A scenario → its words: `Tomorrow is Nov 12, 2019.` → `Tomorrow is 20191112`; names become `who0`, `who1` in order."""
    text = unjudged(scenario)
    text = _DATE.sub(lambda found: f"{day:%Y%m%d}" if (day := _calendar.of_match(found)) else found[0], text)
    text = _COUNT.sub(lambda found: str(_calendar.count_of(found[0])), text)
    people: dict[str, str] = {}
    words = []
    for word in _WORD.findall(text):
        if word in _NAMES:
            word = people.setdefault(word, f"who{len(people)}")
        words.append(_PRONOUNS.get(word.lower(), word))
    return " ".join(words)


def _problem(seed: int, index: int, steps: tuple[int, int], split: Split | None) -> Example:
    rng = Random(mix(seed ^ _SALT, index))
    while True:
        scene = Scenario(rng)
        try:
            day = OPENINGS[scene.pick(_DRAWN)](scene)
            text = " ".join(scene.sentences)
            when, offset, unit = _ask(scene)
            question = f"{text} What is the date {when} in MM/DD/YYYY?"
            premises = scenario(question)
            if (split is not None and part_of(normalize(premises)) != split) or in_benchmark(premises):
                continue
            answer = scene.move(day, offset, unit) if offset else day
        except Redraw:
            continue
        if not scene.steps:
            scene.state(f"{day.month}/{day.day}/{day.year}", day)
        if steps[0] <= len(scene.steps) <= steps[1]:
            break
    chain = " ".join(f"<<{s}>>" for s in scene.steps)
    marked = f"{answer.month:02d}/{answer.day:02d}/{answer.year}"
    return Example(question, tuple(scene.steps), marked, f"date-problems:{seed}:{index}", chain)


def _ask(scene: Scenario) -> tuple[str, int, str]:
    """The day to ask for: in three of five problems a question of Date Understanding, otherwise any offset."""
    if scene.rng.random() < 0.6:
        return scene.pick(_BIG_BENCH)
    unit = scene.pick(("day", "day", "week", "month", "year"))
    count = scene.between(2, LONGEST[unit])
    if scene.rng.random() < 0.5:
        return f"{count} {unit}s ago", -count, unit
    return f"{count} {unit}s {scene.pick(('from today', 'later'))}", count, unit
