r"""Arithmetic: steps written `<<3+4=7>>`, answers that are numbers.

Two rules say what a step's symbols and its result are.

`exact` (the default) keeps everything a step says. A number is one symbol, sign, point and decimals included
(`-30`, `.5`, `1.20`), its thousands separators removed so that `1,200` and `1200` give the same tokens; operators,
parentheses, `%`, `^`, `**` are symbols; a word such as a unit is one symbol; spaces are none. The result is what stands
after the last `=`: `3/4` is three symbols, `25%` two, `12 apples` two; a step without `=` states none.

`published` is the rule of the authors' code, faults included: symbols are digit runs, each of `+ - * / =` and `.`;
the result is read at the last `=` only if it starts `digits.digits`, otherwise it is the last digit run of the
step. So `-30` becomes 30, `-1.5` 5, `.4` 4, `3/4` 4, `1,200` 200, `25%` 25.

Grading is strict unless `lenient` is set: two answers agree when they are the same rational number, written in decimals
or as a fraction. Marked answers that carry float noise stay as they are written: where GSM-Hard marks
0.30000000000000004, an answer of 0.3 is wrong by the strict rule and right by the lenient one. Beware of the lenient
rule there too: 26 of its answers are below 1e-4 in size, so 0 passes for them.

A marked answer that is a number with its unit (`12 apples`) is read as the number; one that is no number (`twelve`) is
compared word for word, and the reader says how many there are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Literal

from pydantic import Field

from ruplar.domains import _expression
from ruplar.domains._answer_text import after_hashes, boxed
from ruplar.domains._numbers import decimals, literal, number, number_without_units, show, without_unit
from ruplar.settings import Settings

_STEP = re.compile(r"<<(?!<)(.*?)>>", re.DOTALL)
_DIGITS = re.compile(r"[0-9]+")
_PUBLISHED_SYMBOL = re.compile(r"[0-9]+|[-+*/=.]")
_PUBLISHED_DECIMAL = re.compile(r"\s*([0-9]+)\.([0-9]+)")
_TOLERANCE = Fraction(1, 10_000)


class Config(Settings):
    """Settings of the arithmetic domain."""

    rule: Literal["exact", "published"] = Field(
        "exact", description="How a step's symbols and result are read: every sign and decimal kept, or as published."
    )
    lenient: bool = Field(
        False, description="Grade as published: units dropped, 1/100 and 100 times the answer accepted, 1e-4 off too."
    )


@dataclass
class Domain:
    """What a step, its symbols, its result and a right answer are in arithmetic. See the module's docstring."""

    config: Config

    EXAMPLE = ("<<20*1.20=24>> <<30-24=6>>", "6")

    def split(self, chain: str) -> list[str]:
        """Raw chain → the text inside each `<<…>>`, up to the first `>>`; a single `>` inside is kept. Blank ones are none."""
        return [step for found in _STEP.findall(chain) if (step := found.strip())]

    def symbols(self, step: str) -> list[str]:
        """Step → its symbols in order and with repeats, by the rule set: `20*1.20=24` → `20 * 1.20 = 24`."""
        if self.config.rule == "published":
            return _PUBLISHED_SYMBOL.findall(step)
        return _expression.symbols(step)

    def result(self, step: str) -> list[str]:
        """Step → the symbols of its result, by the rule set; [] when it states none."""
        if self.config.rule == "published":
            return _published_result(step)
        found = _expression.symbols(step)
        if "=" not in found:
            return []
        last = len(found) - 1 - found[::-1].index("=")
        return found[last + 1 :]

    def operations(self, step: str) -> list[str]:
        """Step → a step for each of its operations, in the order they are carried out: `16-3-4=9` → `16-3=13`, `13-4=9`.

        The last has the result as the step states it. One that cannot be taken apart is returned as it is: it has one operation
        or none, states no result or several, holds more than numbers, parentheses and `+ - * /`, or comes by a value
        that no short decimal writes.
        """
        left, _, stated = step.partition("=")
        try:
            done = _expression.carried_out(left)
        except (_expression.Unreadable, ZeroDivisionError):
            return [step]
        if len(done) < 2 or not stated or "=" in stated:
            return [step]
        found = [f"{show(a)}{sign}{show(b)}={show(value)}" for a, sign, b, value in done]
        if any("about" in part for part in found):
            return [step]
        return [*found[:-1], f"{found[-1].rpartition('=')[0]}={stated.strip()}"]

    def check(self, step: str) -> str | None:
        """Carry the step out again in exact fractions → `3+4 is 7, not 8`, or None when right or not checkable.

        A stated number may be the value rounded or cut off at its own decimals, so `10/3=3.33` is right and
        `10/3=3.4` is not. Of several `=` each is checked. Words and unknowns make a side not checkable.
        """
        return next((fault for judged, fault in _verdicts(step) if judged and fault), None)

    def unchecked(self, step: str) -> str | None:
        """Why none of the step's equations can be carried out again; None when `check` has judged at least one."""
        found = _verdicts(step)
        if not found:
            return "it states no result"
        return None if any(judged for judged, _ in found) else found[0][1]

    def extract(self, text: str) -> str | None:
        r"""The answer in generated text as it is written, or None. Never a guess.

        What the last `\boxed{…}` holds; without a box what follows the last `####`; without either the whole text, if it
        is nothing but a number (a currency or percent sign allowed). An empty or unclosed box is None.
        """
        if r"\boxed{" in text:
            return boxed(text) or None
        if "####" in text:
            return after_hashes(text) or None
        text = text.strip()
        return text if number(text.removesuffix("%")) is not None else None

    def marked(self, answer: str) -> str:
        """A data set's marked answer less the unit behind its number: `12 apples` → `12`; all else as it is written."""
        return without_unit(answer)

    def same(self, found: str, marked: str) -> bool:
        """Whether two answers are the same number; two that are no numbers, whether they are the same words.

        Strict: exact rational comparison after removing thousands separators, `$`, trailing zeros and spaces. Lenient: units
        are dropped and the marked answer, its hundredth and its hundredfold are accepted, each within 1e-4.
        """
        read = number_without_units if self.config.lenient else number
        ours, theirs = read(found), read(marked)
        if ours is None and theirs is None:
            return " ".join(found.split()).casefold() == " ".join(marked.split()).casefold()
        if ours is None or theirs is None:
            return False
        if self.config.lenient:
            return any(abs(ours - target) <= _TOLERANCE for target in (theirs, theirs / 100, theirs * 100))
        return ours == theirs


def _published_result(step: str) -> list[str]:
    """The published rule's result: `[int, ".", frac]` right behind the last `=`, otherwise the step's last digit run."""
    _, equals, right = step.rpartition("=")
    if equals and (decimal := _PUBLISHED_DECIMAL.match(right)):
        return [decimal[1], ".", decimal[2]]
    return _DIGITS.findall(step)[-1:]


def _verdicts(step: str) -> list[tuple[bool, str]]:
    """Each equation of a step → whether it was carried out, and its fault or why it was not; `(True, "")` is right."""
    return [_verdict(left.strip(), right.strip()) for left, right in pairwise(step.split("="))]


def _verdict(left: str, right: str) -> tuple[bool, str]:
    try:
        value = _expression.evaluate(left)
    except _expression.Unreadable:
        return False, f"'{left}' cannot be carried out"
    except ZeroDivisionError:
        return True, f"{left} divides by 0"
    try:
        right_way = _states(value, right)
    except (_expression.Unreadable, ZeroDivisionError):
        return False, f"'{right}' states no value"
    if right_way:
        return True, ""
    if "%" in left and re.search(r"[-+]", left):
        # 50+20% is 60 to a shopkeeper and 50.2 to us
        return False, f"'{left}' may take the percentage of what stands before it"
    return True, f"{left} is {show(value)}, not {right}"


def _states(value: Fraction, right: str) -> bool:
    """Whether the right side of an `=` states the value: exactly, or rounded or cut off if it is a single number.

    Raises:
        Unreadable: The right side is no expression.
    """
    marks = [s for s in _expression.symbols(right) if s not in "$€£"]
    stated = literal(marks[0]) if marks and len(marks) <= 2 and marks[1:] in ([], ["%"]) else None
    if stated is None:
        return _expression.evaluate(right) == value
    # 1/4=25% and 1/4*100=25% are both written
    values = [value * 100, value] if marks[1:] else [value]
    return any(_rounds_to(v, stated, decimals(marks[0])) for v in values)


def _rounds_to(value: Fraction, stated: Fraction, places: int) -> bool:
    scale = 10**places
    cut = Fraction(int(value * scale), scale)
    return stated == cut or abs(stated - value) <= Fraction(1, 2 * scale)
