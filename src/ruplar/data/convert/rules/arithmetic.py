"""Arithmetic in prose → chain: `she sold 48/2 = 24 clips` is a step, `5 times 3 is 15` too, units and currency left out.

A line is cut into marks once; from each `=` the expression is read leftwards and the number rightwards, so that the work
grows with the length of the text and nothing else.
"""

from __future__ import annotations

import re

from ruplar.domains._numbers import DASHES, NUMBER
from ruplar.domains.arithmetic import Config, Domain

_DOMAIN = Domain(Config())
_SIGNS = {"×": "*", "·": "*", "÷": "/", "times": "*", "plus": "+", "minus": "-", "of": "*"}
_OPERATORS = frozenset("+-*/^")
_SAYS = frozenset({"=", "is", "equals", "are", "makes"})
_UNIT_WORDS = 4
_LONGEST = 100
_MARK = re.compile(
    rf"(?P<mixed>(?<![\d.,])\d{{1,3}} \d{{1,2}}/\d{{1,2}}(?![\d.,/]))|(?P<number>{NUMBER})|(?P<percent>%|percent\b)"
    r"|(?P<verb>(?:multiplied|divided) by\b)|(?P<word>[^\W\d_]+(?:['’/-][^\W\d_]+)*)|[$€£]|\S",
    re.IGNORECASE,
)


def from_prose(question: str, reasoning: str) -> str | None:
    """Every equation of the reasoning in order, `<<48/2=24>> <<48+24=72>>`; None when it holds none.

    What is written with `=` is taken as it is, right or wrong, for the check to judge; `5 times 3 is 15` only when it holds,
    for `is` says many things.
    """
    steps = [step for line in reasoning.translate(DASHES).splitlines() for step in _steps(_marks(line))]
    return " ".join(f"<<{step}>>" for step in dict.fromkeys(steps)) or None


def _marks(line: str) -> list[str]:
    """Numbers, signs and words in order; currency left out, `x` between two values written `*`, `1 1/2` as `(1+1/2)`."""
    found = []
    for mark in _MARK.finditer(line):
        if mark["mixed"]:
            whole, part = mark["mixed"].split()
            found.append(f"({whole}+{part})")
        elif mark["number"]:
            found.append(mark["number"].replace(",", ""))
        elif mark["percent"]:
            found.append("%")
        elif mark["verb"]:
            found.append("*" if mark["verb"][0] in "mM" else "/")
        elif mark[0] not in "$€£":
            found.append(_SIGNS.get(mark[0].lower(), mark[0]))
    return [
        "*"
        if mark in ("x", "X") and at + 1 < len(found) and (_is_value(found[at + 1]) or found[at + 1] == "(")
        else mark
        for at, mark in enumerate(found)
    ]


def _steps(marks: list[str]) -> list[str]:
    out = []
    for at, mark in enumerate(marks):
        if mark.lower() not in _SAYS:
            continue
        left, right = _left(marks, at), _right(marks[at + 1 : at + 6])
        if left is None or right is None:
            continue
        step = f"{left}={right}"
        if mark == "=" or (_DOMAIN.unchecked(step) is None and _DOMAIN.check(step) is None):
            out.append(step)
    return out


def _right(marks: list[str]) -> str | None:
    """The number that follows an `=`; None when an expression does."""
    sign = "-" if marks[:1] == ["-"] else ""
    marks = marks[len(sign) :]
    if not marks or not _is_value(marks[0]):
        return None
    value, rest = marks[0], marks[1:]
    if rest[:1] == ["%"]:
        value, rest = value + "%", rest[1:]
    if len(rest) > 1 and rest[0] == "/" and _is_value(rest[1]):
        value, rest = f"{value}/{rest[1]}", rest[2:]
    # in `= 3 * 5 = 15` the number is only the beginning of what is stated
    return None if rest and rest[0] in _OPERATORS and len(rest) > 1 and _opens(rest[1]) else sign + value


def _left(marks: list[str], at: int) -> str | None:
    """The longest expression that ends before a place; None when it holds no operator, or is longer than any that is meant."""
    taken: list[str] = []
    depth = 0
    while len(taken) < _LONGEST:
        at = _over_units(marks, at)
        while at and marks[at - 1] == ")" and len(taken) < _LONGEST:
            at, depth = at - 1, depth + 1
            taken.append(")")
            at = _over_units(marks, at)
        if at and marks[at - 1] == "%":
            at -= 1
            taken.append("%")
        if not at or not _is_value(marks[at - 1]):
            break
        at -= 1
        taken.append(marks[at])
        while at and depth and marks[at - 1] == "(":
            at, depth = at - 1, depth - 1
            taken.append("(")
        if not at or marks[at - 1] not in _OPERATORS:
            break
        at -= 1
        taken.append(marks[at])
    text = "".join(reversed(taken)).lstrip("+*/^")
    return text if depth == 0 and len(taken) < _LONGEST and any(sign in text[1:] for sign in _OPERATORS) else None


def _over_units(marks: list[str], at: int) -> int:
    """The place before the words that follow a value: `60 minutes`, `40 on t-shirts`; `at` itself where none does."""
    back = at
    while back and at - back < _UNIT_WORDS and len(marks[back - 1]) > 1 and marks[back - 1][0].isalpha():
        back -= 1
    return back if back and (_is_value(marks[back - 1]) or marks[back - 1] in (")", "%")) else at


def _is_value(mark: str) -> bool:
    return mark[-1].isdigit() or (len(mark) > 1 and mark[0] == "(")


def _opens(mark: str) -> bool:
    return _is_value(mark) or mark in ("(", "-")
