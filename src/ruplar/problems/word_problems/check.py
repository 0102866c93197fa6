"""Example → what is wrong with it, or None: re-executes every step and checks where each operand comes from."""

from __future__ import annotations

import re
from fractions import Fraction

from ruplar.problems.word_problems.families import FAMILIES
from ruplar.problems.word_problems.story import LARGEST
from ruplar.problems.word_problems.words import IMPLIED
from ruplar.types import Example

_STEP = re.compile(r"(\d+)([-+*/])(\d+)(?:([-+*/])(\d+))?=(\d+)")
_TOKENS = re.compile(r"\d+|[A-Za-z]+|%")


def verify(example: Example) -> str | None:
    """What is wrong with a generated problem, in one sentence; None when nothing is.

    Checked: every step is exact and its result a whole number of at most 999; every operand is written in the question,
    implied by a word of it, or the result of an earlier step; every result but the last is used; the chain, the steps and
    the answer agree.
    """
    if not example.steps:
        return "it has no step"
    known = written(example.question)
    if any(number > LARGEST for number in known):
        return f"the question has a number above {LARGEST}"
    used: set[int] = set()
    results: list[int] = []
    for step in example.steps:
        match = _STEP.fullmatch(step)
        if not match:
            return f"step {step!r} is not of the form a+b=c or a*b/c=d"
        operands = [int(o) for o in match.group(1, 3, 5) if o is not None]
        result = int(match[6])
        if _execute(match) != result:
            return f"step {step!r} is {_execute(match)}, not {result}"
        if not 0 <= result <= LARGEST:
            return f"the result of {step!r} is above {LARGEST}"
        for operand in operands:
            if operand not in known and operand not in results:
                return f"{operand} in step {step!r} is neither in the question nor an earlier result"
        used.update(operands)
        results.append(result)
    for result in results[:-1]:
        if result not in used:
            return f"the result {result} is never used"
    if example.answer != str(results[-1]):
        return f"the answer is {example.answer}, but the chain ends in {results[-1]}"
    if example.chain != " ".join(f"<<{s}>>" for s in example.steps):
        return "the chain does not spell out the steps"
    return None


def written(question: str) -> set[int]:
    """The numbers of a question, in digits or as a word such as `twice` or `week`."""
    found: set[int] = set()
    for token in _TOKENS.findall(question):
        found.update((int(token),) if token.isdigit() else _IMPLIED.get(token.lower(), ()))
    return found


_IMPLIED: dict[str, tuple[int, ...]] = dict(IMPLIED)
for _family in FAMILIES.values():
    _IMPLIED.update(_family.constants)


def _execute(match: re.Match[str]) -> Fraction | None:
    """The exact value of the left side, from left to right; None if it divides by zero."""
    value = Fraction(int(match[1]))
    for sign, operand in ((match[2], match[3]), (match[4], match[5])):
        if sign is None:
            break
        n = int(operand)
        if sign == "/" and n == 0:
            return None
        value = {"+": value + n, "-": value - n, "*": value * n}[sign] if sign != "/" else value / n
    return value
