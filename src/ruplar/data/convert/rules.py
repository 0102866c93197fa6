"""Question and prose → chain by the rule of a domain, without a language model; and the check that every chain must pass.

The packaged domains `arithmetic` and `dates` have a rule here; a domain of your own may define
`from_prose(question, reasoning)` in its module.

Arithmetic: `she sold 48/2 = 24 clips` is a step, and so is `5 times 3 is 15`; units and currency are left out. From each `=`
the expression is read leftwards and the number rightwards, so the time is linear in the length of the text. Dates: which day it is today by the premises, then the offset that the question asks for.
"""

import re
from collections.abc import Callable
from textwrap import shorten
from typing import Any

from ruplar import plugins
from ruplar.data.formats import NO_STEP
from ruplar.domains import _calendar, _date_questions, base
from ruplar.domains._numbers import DASHES, NUMBER
from ruplar.domains.arithmetic import Config, Domain
from ruplar.errors import UserError
from ruplar.types import Example

Entry = dict[str, Any]
"""What finishes a row: its `chain`, or the `reason` and `detail` of its rejection; and the `reply` it was read from."""

Rule = Callable[[str, str], str | None]
"""Question and reasoning → chain, or None if the rule does not know the form."""

_ARITHMETIC = Domain(Config())
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


def arithmetic(question: str, reasoning: str) -> str | None:
    """Return every equation of the reasoning in order, `<<48/2=24>> <<48+24=72>>`; None if there is none.

    An equation with `=` is used right or wrong, and verified later; `5 times 3 is 15` is used only if it is right, because
    `is` has many meanings.
    """
    steps = [step for line in reasoning.translate(DASHES).splitlines() for step in _steps(_marks(line))]
    return " ".join(f"<<{step}>>" for step in dict.fromkeys(steps)) or None


def _marks(line: str) -> list[str]:
    """Line → numbers, signs and words in order; without currency, `x` between two values as `*`, `1 1/2` as `(1+1/2)`."""
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
        if mark == "=" or (_ARITHMETIC.unchecked(step) is None and _ARITHMETIC.check(step) is None):
            out.append(step)
    return out


def _right(marks: list[str]) -> str | None:
    """Return the number after an `=`; None if an expression follows."""
    sign = "-" if marks[:1] == ["-"] else ""
    marks = marks[len(sign) :]
    if not marks or not _is_value(marks[0]):
        return None
    value, rest = marks[0], marks[1:]
    if rest[:1] == ["%"]:
        value, rest = value + "%", rest[1:]
    if len(rest) > 1 and rest[0] == "/" and _is_value(rest[1]):
        value, rest = f"{value}/{rest[1]}", rest[2:]
    # in `= 3 * 5 = 15` the number is the start of an expression
    starts = len(rest) > 1 and rest[0] in _OPERATORS and (_is_value(rest[1]) or rest[1] in "(-")
    return None if starts else sign + value


def _left(marks: list[str], at: int) -> str | None:
    """Return the longest expression that ends before a position; None if it has no operator or is too long."""
    found_marks: list[str] = []
    depth = 0
    while len(found_marks) < _LONGEST:
        at = _over_units(marks, at)
        while at and marks[at - 1] == ")" and len(found_marks) < _LONGEST:
            at, depth = at - 1, depth + 1
            found_marks.append(")")
            at = _over_units(marks, at)
        if at and marks[at - 1] == "%":
            at -= 1
            found_marks.append("%")
        if not at or not _is_value(marks[at - 1]):
            break
        at -= 1
        found_marks.append(marks[at])
        while at and depth and marks[at - 1] == "(":
            at, depth = at - 1, depth - 1
            found_marks.append("(")
        if not at or marks[at - 1] not in _OPERATORS:
            break
        at -= 1
        found_marks.append(marks[at])
    text = "".join(reversed(found_marks)).lstrip("+*/^")
    whole = depth == 0 and len(found_marks) < _LONGEST
    return text if whole and any(sign in text[1:] for sign in _OPERATORS) else None


def _over_units(marks: list[str], at: int) -> int:
    """Return the position before the words that follow a value (`60 minutes`, `40 on t-shirts`); `at` if there are none."""
    back = at
    while back and at - back < _UNIT_WORDS and len(marks[back - 1]) > 1 and marks[back - 1][0].isalpha():
        back -= 1
    return back if back and (_is_value(marks[back - 1]) or marks[back - 1] in (")", "%")) else at


def _is_value(mark: str) -> bool:
    return mark[-1].isdigit() or (len(mark) > 1 and mark[0] == "(")


def dates(question: str, reasoning: str) -> str | None:
    """Return `<<Jul 8, 1972 - 1 year = Jul 8, 1971>>`; None if the question has no known form, or today is ambiguous."""
    premises, asks = _date_questions.divide(question)
    days, offset = _date_questions.today(premises), _date_questions.offset_asked_for(asks)
    if len(days) != 1 or offset is None:
        return None
    [today], (count, unit) = days, offset
    if not count:
        return f"<<{_calendar.show(today)} = {today:%m/%d/%Y}>>" if today.year >= 1000 else None
    try:
        reached = _calendar.shift(today, count, unit)
    except ValueError:
        return None
    if len(reached) != 1:
        return None
    unit = unit.removesuffix("s") + ("s" if abs(count) != 1 else "")
    offset_text = f"{'+' if count > 0 else '-'} {abs(count)} {unit}"
    return f"<<{_calendar.show(today)} {offset_text} = {_calendar.show(reached[0])}>>"


RULES: dict[str, Rule] = {"arithmetic": arithmetic, "dates": dates}
"""Packaged domain → its rule."""


def rule_of(domain: str) -> Rule:
    if domain in RULES:
        return RULES[domain]
    own = getattr(plugins.load("domains", domain), "from_prose", None)
    if own is None:
        raise UserError(
            f"--by rules: domain '{domain}' has no rule. Packaged rules: {', '.join(RULES)}; a domain of your own may "
            "define from_prose(question, reasoning). Or use --by llm."
        )
    return own


UNCHECKED = "a step cannot be checked"
WRONG_STEP = "a step is wrong"
WRONG_END = "the last result is not the marked answer"
MISMATCH = "the chain does not match its question"


class Rejected(Exception):
    """A rejected row: `reason` is the kind of fault, `detail` says what is wrong with this row."""

    def __init__(self, reason: str, detail: str):
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail


def verify(chain: str, question: str, answer: str, domain: base.Domain) -> str:
    """Check a chain and return it in plain form: only its `<<…>>` if it has any; raise `Rejected` if it does not hold."""
    steps = domain.split(chain)
    if not steps:
        raise Rejected(NO_STEP, f"none in '{shorten(chain, 80)}'")
    for number, step in enumerate(steps, start=1):
        if wrong := domain.check(step):
            raise Rejected(WRONG_STEP, f"step {number}: {wrong}")
        if why := domain.unchecked(step):
            raise Rejected(UNCHECKED, f"step {number}, '{shorten(step, 80)}': {why}")
        if not domain.result(step):
            raise Rejected(UNCHECKED, f"step {number}, '{shorten(step, 80)}', has no result")
    plain = " ".join(f"<<{step}>>" for step in steps) if "<<" in chain else chain.strip()
    example = Example(question, tuple(steps), getattr(domain, "marked", str)(answer), chain=plain)
    if not base.ends_as_marked(domain, example):
        raise Rejected(WRONG_END, base.how_it_ends(domain, example))
    check_chain: Any = getattr(domain, "check_chain", None)
    for fault in check_chain(example) if check_chain else ():
        raise Rejected(MISMATCH, fault)
    return plain
