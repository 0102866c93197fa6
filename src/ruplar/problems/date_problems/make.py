"""Seed and count → date problems whose chains re-execute to their answers, the same ones on every machine.

Problem i under seed s is a function of (s, i, steps, split) alone. What a problem *tells*, in plain words (`told.plain`), decides the
part it belongs to: no two questions about one scenario are ever divided over training, validation and test, however its dates are
written and whoever it is told of. What Date Understanding tells is drawn again, so that no problem is one of the benchmark's.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any

from ruplar import plugins
from ruplar.domains._date_questions import expected, scenario
from ruplar.domains.base import faults
from ruplar.errors import UserError
from ruplar.problems.date_problems.openings import OPENINGS, WEIGHTS
from ruplar.problems.date_problems.tale import Redraw, Tale
from ruplar.problems.date_problems.told import is_told, plain
from ruplar.problems.seeding import Split, mix, part_of
from ruplar.types import Example

DOMAIN = "dates"
_SALT = 0xDA7E
_MOST_STEPS = 4
_DRAWN = tuple(name for name in OPENINGS for _ in range(WEIGHTS.get(name, 1)))
_BIG_BENCH = (
    *(("today", 0, "day"), ("tomorrow", 1, "day"), ("yesterday", -1, "day"), ("24 hours later", 1, "day")),
    *(("one week ago from today", -1, "week"), ("one week from today", 1, "week"), ("10 days ago", -10, "day")),
    *(("a month ago", -1, "month"), ("one year ago from today", -1, "year")),
)
"""The nine questions of Date Understanding, with their offsets."""
_MOST = {"day": 40, "week": 4, "month": 11, "year": 12}


def generate(
    count: int,
    seed: int,
    *,
    steps: tuple[int, int] = (1, _MOST_STEPS),
    start: int = 0,
    split: Split | None = None,
) -> Iterator[Example]:
    """Write `count` problems, from the `start`-th on.

    Args:
        count: How many.
        seed: Which sequence of problems; any whole number.
        steps: Fewest and most steps, both included; no problem has more than 4.
        start: Index of the first problem.
        split: Only problems whose scenario belongs to this part; any when None. See `part_of_scenario`.

    Yields:
        Examples with source `date-problems:SEED:INDEX`.

    Raises:
        UserError: No problem has so many steps.
    """
    if not 1 <= steps[0] <= steps[1] or steps[0] > _MOST_STEPS:
        raise UserError(f"steps: date problems have 1 to {_MOST_STEPS} steps, not {steps[0]} to {steps[1]}.")
    return (_problem(seed, index, steps, split) for index in range(start, start + count))


def part_of_scenario(question: str) -> Split:
    """The part a question belongs to, by what it tells."""
    return part_of(plain(scenario(question)))


def verify(example: Example) -> str | None:
    """What is wrong with a generated problem; None when nothing is.

    Checked: every step re-executes and starts where the one before ended; the question can be read and leads to the answer; the
    last result is the answer; Date Understanding does not tell it.
    """
    domain = _domain()
    if wrong := faults(domain, example):
        return wrong[0]
    if unread := [s for s in example.steps if domain.unchecked(s)]:
        return f"step {unread[0]!r} cannot be carried out"
    for before, after in zip(example.steps, example.steps[1:], strict=False):
        if not after.startswith(before.rpartition(" = ")[2]):
            return f"step {after!r} does not go on from {before!r}"
    if expected(example.question) is None:
        return "the question cannot be read back"
    if is_told(scenario(example.question)):
        return "Date Understanding tells it too"
    if not domain.same("".join(domain.result(example.steps[-1])), example.answer):
        return f"the answer is {example.answer}, but the chain ends in {example.steps[-1]!r}"
    return None


def _problem(seed: int, index: int, steps: tuple[int, int], split: Split | None) -> Example:
    rng = Random(mix(seed ^ _SALT, index))
    while True:
        tale = Tale(rng)
        try:
            day = OPENINGS[tale.pick(_DRAWN)](tale)
            told = " ".join(tale.said)
            when, offset, unit = _ask(tale)
            question = f"{told} What is the date {when} in MM/DD/YYYY?"
            if (split is not None and part_of_scenario(question) != split) or is_told(scenario(question)):
                continue
            answer = tale.move(day, offset, unit) if offset else day
        except Redraw:
            continue
        if not tale.steps:
            tale.state(f"{day.month}/{day.day}/{day.year}", day)
        if steps[0] <= len(tale.steps) <= steps[1]:
            break
    chain = " ".join(f"<<{s}>>" for s in tale.steps)
    marked = f"{answer.month:02d}/{answer.day:02d}/{answer.year}"
    return Example(question, tuple(tale.steps), marked, f"date-problems:{seed}:{index}", chain)


def _ask(tale: Tale) -> tuple[str, int, str]:
    """Which day is asked for: three in five of Date Understanding's own questions, else any offset."""
    if tale.rng.random() < 0.6:
        return tale.pick(_BIG_BENCH)
    unit = tale.pick(("day", "day", "week", "month", "year"))
    count = tale.between(2, _MOST[unit])
    if tale.rng.random() < 0.5:
        return f"{count} {unit}s ago", -count, unit
    return f"{count} {unit}s {tale.pick(('from today', 'later'))}", count, unit


@cache
def _domain() -> Any:
    return plugins.make("domains", DOMAIN)
