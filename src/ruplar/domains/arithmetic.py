r"""Arithmetic: steps written `<<3+4=7>>`, answers that are numbers.

Two rules define the symbols and the result of a step.

`exact` (the default) loses nothing. A number is one symbol with its sign and decimals (`-30`, `.5`, `1.20`), without
thousands separators, so that `1,200` and `1200` give the same tokens; operators, parentheses, `%`, `^`, `**` are symbols; a
word such as a unit is one symbol; spaces are not symbols. The result is everything after the last `=`: `3/4` is three
symbols, `25%` two, `12 apples` two; a step without `=` has no result.

`published` is the rule of the authors' code, including its errors: symbols are runs of digits, and each of `+ - * / =` and
`.`; the result is read at the last `=` only if `digits.digits` follows, otherwise it is the last run of digits in the step.
So `-30` becomes 30, `-1.5` 5, `.4` 4, `3/4` 4, `1,200` 200, `25%` 25.

Scoring is strict unless `lenient` is set: two answers are the same if they are the same rational number. Marked answers with
float noise are not rounded: where GSM-Hard marks 0.30000000000000004, 0.3 is wrong by the strict rule. But 26 of its answers are
smaller than 1e-4 in absolute value, so under the lenient rule 0 is right for them.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Literal

from pydantic import Field

from ruplar.domains import _expression, _markup
from ruplar.domains._numbers import decimals, literal, number, number_without_units, show, without_unit
from ruplar.settings import Settings

_DIGITS = re.compile(r"[0-9]+")
_PUBLISHED_SYMBOL = re.compile(r"[0-9]+|[-+*/=.]")
_PUBLISHED_DECIMAL = re.compile(r"\s*([0-9]+)\.([0-9]+)")
_TOLERANCE = Fraction(1, 10_000)


class Config(Settings):
    """Settings of the arithmetic domain."""

    rule: Literal["exact", "published"] = Field(
        "exact",
        description="How symbols and result of a step are read: `exact` loses nothing, `published` is the authors' code.",
    )
    lenient: bool = Field(
        False, description="Score as published: ignore units, accept 1/100 and 100 times the answer, tolerance 1e-4."
    )


@dataclass
class Domain:
    """Steps, symbols, results and answers of arithmetic; see the module docstring."""

    config: Config

    EXAMPLE = ("<<20*1.20=24>> <<30-24=6>>", "6")

    def split(self, chain: str) -> list[str]:
        """Raw chain → the text inside each `<<…>>`."""
        return _markup.steps(chain)

    def symbols(self, step: str) -> list[str]:
        """Step → its symbols in order, with repeats: `20*1.20=24` → `20 * 1.20 = 24`."""
        if self.config.rule == "published":
            return _PUBLISHED_SYMBOL.findall(step)
        return _expression.symbols(step)

    def result(self, step: str) -> list[str]:
        """Step → the symbols of its result; [] if it has none."""
        if self.config.rule == "published":
            return _published_result(step)
        found = _expression.symbols(step)
        if "=" not in found:
            return []
        last = len(found) - 1 - found[::-1].index("=")
        return found[last + 1 :]

    def operations(self, step: str) -> list[str]:
        """Step → one step per operation, in the order of evaluation: `16-3-4=9` → `16-3=13`, `13-4=9`.

        The last one has the result as the step states it. A step is returned unchanged if it has at most one operation, has no
        result or several, contains anything but numbers, parentheses and `+ - * /`, or has an intermediate value without a
        short decimal form.
        """
        left, _, stated = step.partition("=")
        try:
            done = _expression.operations(left)
        except (_expression.Unreadable, ZeroDivisionError):
            return [step]
        if len(done) < 2 or not stated or "=" in stated:
            return [step]
        found = [f"{show(a)}{sign}{show(b)}={show(value)}" for a, sign, b, value in done]
        if any("about" in part for part in found):
            return [step]
        return [*found[:-1], f"{found[-1].rpartition('=')[0]}={stated.strip()}"]

    def check(self, step: str) -> str | None:
        """Recompute the step in exact fractions → `3+4 is 7, not 8`, or None if it is right or cannot be checked.

        A result may be rounded or truncated at its own number of decimals: `10/3=3.33` is right, `10/3=3.4` is not. With
        several `=`, each is checked. A side with words or unknowns cannot be checked.
        """
        return next((fault for judged, fault in _verdicts(step) if judged and fault), None)

    def unchecked(self, step: str) -> str | None:
        """Return why none of the step's equations can be checked; None if `check` could check at least one."""
        found = _verdicts(step)
        if not found:
            return "it has no result"
        return None if any(judged for judged, _ in found) else found[0][1]

    def extract(self, text: str) -> str | None:
        """Return the marked answer in generated text, or the text if it is a number, with or without a percent sign."""
        return _markup.extract(text, lambda answer: number(answer.removesuffix("%")) is not None)

    def marked(self, answer: str) -> str:
        """Marked answer of a dataset → the same without a leading `=` or a unit: `= 12 apples` → `12`; else unchanged."""
        return without_unit(answer.removeprefix("=").lstrip())

    def same(self, found: str, marked: str) -> bool:
        """Return whether two answers are the same number or, if neither is a number, the same words.

        Strict: exact rational comparison; thousands separators, `$`, trailing zeros and spaces do not matter. Lenient: units
        are ignored, and the marked answer, its hundredth and its hundredfold are accepted, each within 1e-4.
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
    """The result by the published rule: `[int, ".", frac]` directly after the last `=`, else the last run of digits."""
    _, equals, right = step.rpartition("=")
    if equals and (decimal := _PUBLISHED_DECIMAL.match(right)):
        return [decimal[1], ".", decimal[2]]
    return _DIGITS.findall(step)[-1:]


def _verdicts(step: str) -> list[tuple[bool, str]]:
    """Return (checked, message) for each equation of a step: the error, or why it was not checked; `(True, "")` is right."""
    return [_verdict(left.strip(), right.strip()) for left, right in pairwise(step.split("="))]


def _verdict(left: str, right: str) -> tuple[bool, str]:
    try:
        value = _expression.evaluate(left)
    except _expression.Unreadable:
        return False, f"'{left}' cannot be evaluated"
    except ZeroDivisionError:
        return True, f"{left} divides by 0"
    try:
        is_right = _states(value, right)
    except (_expression.Unreadable, ZeroDivisionError):
        return False, f"'{right}' is not a value"
    if is_right:
        return True, ""
    if "%" in left and re.search(r"[-+]", left):
        # 50+20% may mean 60 or 50.2
        return False, f"'{left}' may mean a percentage of what precedes it"
    return True, f"{left} is {show(value)}, not {right}"


def _states(value: Fraction, right: str) -> bool:
    """Return whether the right side of an `=` is the value, exactly, or rounded or truncated if it is one number."""
    marks = [s for s in _expression.symbols(right) if s not in "$€£"]
    stated = literal(marks[0]) if marks and len(marks) <= 2 and marks[1:] in ([], ["%"]) else None
    if stated is None:
        return _expression.evaluate(right) == value
    # both 1/4=25% and 1/4*100=25% occur
    values = [value * 100, value] if marks[1:] else [value]
    return any(_rounds_to(v, stated, decimals(marks[0])) for v in values)


def _rounds_to(value: Fraction, stated: Fraction, places: int) -> bool:
    scale = 10**places
    cut = Fraction(int(value * scale), scale)
    return stated == cut or abs(stated - value) <= Fraction(1, 2 * scale)
