"""Chain → the same chain with the operands of sums and products in a canonical order.

    Diane bought twenty more apples than Cecile. If Cecile bought 15 apples, how many did they buy altogether?
    15+20=35, 15+35=50      →      20+15=35, 35+15=50

A chain may write `3*12` or `12*3`. In text either works, but a latent whose target is the first operand (`spans: plan`)
would have to predict both. In canonical order the first operand follows from the question and the earlier steps.

The order is: the previous step's result, other results in the order of their steps, the question's numbers in their order, then
all others (the 7 days of a week). Unchanged are steps with other operations, and steps with an operand that could come from both
the question and an earlier step, one in thirteen of GSM8K's sums and products. A reordered step is written without spaces.
"""

import re
from dataclasses import replace

from ruplar.data.augment import mentions, program
from ruplar.data.augment.mentions import Value
from ruplar.data.augment.template import CONVERSIONS
from ruplar.types import Example

_COMMUTE = ({"+"}, {"*"})
_RESULT = re.compile(r"=\s*(\d+\.\d+|\d+|\.\d+)\s*$")


def canonical_operands(example: Example) -> Example:
    """Example → the same with canonical operands, its `chain` then only the marked steps; itself if no operand moves."""
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
    # differs from the paper: D78. It trains on the operands as written
    return replace(example, steps=tuple(steps), chain=" ".join(f"<<{step}>>" for step in steps))


def _places(question: str) -> dict[Value, int]:
    """Each number in a question → its first position; the decimal forms of percentages and cents count too."""
    given = [m for m in mentions.find(question) if m.kind != "time" and not _in_fraction(question, m)]
    found: dict[Value, int] = {}
    for mention in given:
        found.setdefault(mention.value, mention.start)
    for mention in given:
        for name in CONVERSIONS if mention.unit == "%" else ("%",) if mention.cents else ():
            found.setdefault(CONVERSIONS[name](mention.value), mention.start)
    return found


def _in_fraction(question: str, mention: mentions.Mention) -> bool:
    return question[mention.end :].lstrip()[:1] == "/" or question[: mention.start].rstrip()[-1:] == "/"


def _ordered(step: str, places: dict[Value, int], results: dict[Value, int], at: int) -> str:
    """Return step number `at` in canonical order, given the positions of the question's numbers and the step of each result."""
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
