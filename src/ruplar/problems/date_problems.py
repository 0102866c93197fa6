"""Seed and count → problems about dates with `<<…>>` chains that re-execute: the training data of the dates domain.

A problem is a scenario that says which day it is today, in one of the ways of `date_scenarios.py`, and a question about a day near it.
Problem i under seed s depends on (s, i, steps, split) only, and is the same on every machine. The scenario in normalized form
determines the split: all questions about one scenario are in the same split, however its dates are written and whatever names it has. A
scenario of the benchmark Date Understanding is redrawn, so no problem is one of the benchmark's.
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
from ruplar.problems.date_benchmark_overlap import in_benchmark, normalize
from ruplar.problems.date_scenarios import LONGEST, OPENINGS, WEIGHTS, Redraw, Scenario
from ruplar.problems.seeding import Split, mix, part_of
from ruplar.types import Example

__all__ = ["DOMAIN", "OPENINGS", "REVISION", "generate", "part_of_scenario", "verify"]

DOMAIN = "dates"
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


def generate(
    count: int,
    seed: int,
    *,
    steps: tuple[int, int] = (1, _MOST_STEPS),
    start: int = 0,
    split: Split | None = None,
) -> Iterator[Example]:
    """Write `count` problems, from the `start`-th on."""
    if not 1 <= steps[0] <= steps[1] or steps[0] > _MOST_STEPS:
        raise UserError(f"steps: date problems have 1 to {_MOST_STEPS} steps, not {steps[0]} to {steps[1]}.")
    return (_problem(seed, index, steps, split) for index in range(start, start + count))


def part_of_scenario(question: str) -> Split:
    """The split a question belongs to, by its scenario."""
    return part_of(normalize(scenario(question)))


def verify(example: Example) -> str | None:
    """What is wrong with a generated problem; None when nothing is.

    Checked: every step re-executes and starts with the result of the one before; the question can be parsed and leads to the
    answer; the last result is the answer; the scenario is not one of Date Understanding.
    """
    domain = _domain()
    if wrong := faults(domain, example):
        return wrong[0]
    if unread := [s for s in example.steps if domain.unchecked(s)]:
        return f"step {unread[0]!r} cannot be executed"
    for before, after in zip(example.steps, example.steps[1:], strict=False):
        if not after.startswith(before.rpartition(" = ")[2]):
            return f"step {after!r} does not continue {before!r}"
    if expected(example.question) is None:
        return "the question cannot be parsed"
    if in_benchmark(scenario(example.question)):
        return "the scenario is one of Date Understanding"
    if not domain.same("".join(domain.result(example.steps[-1])), example.answer):
        return f"the answer is {example.answer}, but the chain ends in {example.steps[-1]!r}"
    return None


def _problem(seed: int, index: int, steps: tuple[int, int], split: Split | None) -> Example:
    rng = Random(mix(seed ^ _SALT, index))
    while True:
        scene = Scenario(rng)
        try:
            day = OPENINGS[scene.pick(_DRAWN)](scene)
            text = " ".join(scene.sentences)
            when, offset, unit = _ask(scene)
            question = f"{text} What is the date {when} in MM/DD/YYYY?"
            if (split is not None and part_of_scenario(question) != split) or in_benchmark(scenario(question)):
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


@cache
def _domain() -> Any:
    return plugins.make("domains", DOMAIN)
