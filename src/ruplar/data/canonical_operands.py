"""Chain → the same with the operands of sums and products in one order: the last result, other results, the question's.

    Diane bought twenty more apples than Cecile. If Cecile bought 15 apples, how many did they buy altogether?
    15+20=35, 15+35=50      →      20+15=35, 35+15=50

Whoever writes a chain may write `3*12` or `12*3`. Text can do either and go on from there; a latent that favours an
operation's first number (`spans: plan`) has to favour both. In one order there is one first number, and it can be told from
the question and what was worked out before.

What the step before came to stands first, since that is what a chain has at hand; then other results, in the order of their
steps; then the question's numbers, in its order; then those that come from neither (a week's 7 days). These stay as they are
written: steps that do anything but add, or anything but multiply; numbers of one place among each other (two that come from
neither); and a step with a number that may come from the question and from an earlier step alike, which is one in thirteen of
GSM8K's sums and products. A step that changes is written without spaces.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ruplar.data.augment import mentions, program
from ruplar.data.augment.mentions import Value
from ruplar.data.augment.template import SHARES
from ruplar.types import Example

_COMMUTE = ({"+"}, {"*"})
_RESULT = re.compile(r"=\s*(\d+\.\d+|\d+|\.\d+)\s*$")


def canonical_operands(example: Example) -> Example:
    """Example → the same with its operands in order, its `chain` the marked steps alone; itself where nothing moves."""
    places = _places(example.question)
    results: dict[Value, int] = {}
    steps = []
    for at, step in enumerate(example.steps):
        steps.append(_ordered(step, places, results, at))
        found = _RESULT.search(step)
        if found is not None:
            results[program.value_of(found[1])] = at
    if tuple(steps) == example.steps:
        return example
    # differs from the paper: D78. Its chains are as they were written
    return replace(example, steps=tuple(steps), chain=" ".join(f"<<{step}>>" for step in steps))


def _places(question: str) -> dict[Value, int]:
    """Every number a question gives → where it gives it first; then what a percentage, or cents, may be written as."""
    given = [m for m in mentions.find(question) if m.kind != "time" and not _in_fraction(question, m)]
    found: dict[Value, int] = {}
    for mention in given:
        found.setdefault(mention.value, mention.start)
    for mention in given:
        for share in SHARES if mention.unit == "%" else ("%",) if mention.cents else ():
            found.setdefault(SHARES[share](mention.value), mention.start)
    return found


def _in_fraction(question: str, mention: mentions.Mention) -> bool:
    return question[mention.end :].lstrip()[:1] == "/" or question[: mention.start].rstrip()[-1:] == "/"


def _ordered(step: str, places: dict[Value, int], results: dict[Value, int], at: int) -> str:
    """Step number `at`, given where the question's numbers stand and which step each result so far is of."""
    parsed = program.parse(step)
    if parsed is None or {mark for mark in parsed.code if isinstance(mark, str)} not in _COMMUTE:
        return step
    values = [program.value_of(literal) for literal in parsed.literals]
    if any(value in places and value in results for value in values):
        return step

    def rank(operand: int) -> tuple[int, int]:
        value = values[operand]
        if value in results:
            return int(results[value] < at - 1), results[value]
        return (2, places[value]) if value in places else (3, 0)

    order = sorted(range(len(values)), key=rank)
    if order == list(range(len(values))):
        return step
    return parsed.write([parsed.literals[i] for i in order], parsed.result)
