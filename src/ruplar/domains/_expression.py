"""Step → its symbols, and symbols → exact value: the `exact` rule of arithmetic.

Every character that is not a space belongs to exactly one symbol, except thousands separators and a full stop after a
number. So no parenthesis, sign or unit is lost.
"""

from __future__ import annotations

import re
from fractions import Fraction

from ruplar.domains._numbers import DASHES, NUMBER, literal

_SIGNS = str.maketrans({"×": "*", "✕": "*", "·": "*", "⋅": "*", "÷": "/", "∕": "/", "⁄": "/"})
_SYMBOL = re.compile(rf"(?P<number>{NUMBER})(?:\.(?![0-9.]))?|[^\W0-9_]+|\*\*|//|<=|>=|!=|\S")
_OPENS = frozenset({"+", "-", "*", "/", "**", "//", "^", "=", "(", "[", "{", "<", ">", "<=", ">=", "!=", ","})
_CURRENCY = frozenset("$€£")
_PLAIN = frozenset("+-*/()")

_MOST_SYMBOLS, _DEEPEST, _MOST_BITS = 200, 40, 4096
"""Limits of what is evaluated: far beyond any real step, so that hostile text cannot cause much work."""


class Unreadable(Exception):
    """The symbols are not an expression that can be evaluated (words, two adjacent numbers, beyond the limits)."""


def _is_number(symbol: str) -> bool:
    return symbol[-1] in "0123456789"


def symbols(text: str) -> list[str]:
    """Step → symbols in order: `20 × (-1,200.5)` → `20 * ( -1200.5 )`.

    A number is one symbol as written, without thousands separators. A minus before a number is its sign if a value must
    follow: at the start, and after an operator, `=`, comma or opening bracket. `×`, `·`, `÷`, other dashes, and an `x`
    between two values become `* / -`. A word is one symbol, and so is every other character.
    """
    found = [m["number"] or m[0] for m in _SYMBOL.finditer(text.translate(_SIGNS).translate(DASHES))]
    found = [s.replace(",", "") if _is_number(s) else s for s in found]
    out: list[str] = []
    for i, symbol in enumerate(found):
        following = found[i + 1] if i + 1 < len(found) else ""
        if symbol in ("x", "X") and _is_times(out, following):
            symbol = "*"
        elif _is_number(symbol) and out and out[-1] == "-" and (len(out) == 1 or out[-2] in _OPENS):
            symbol = out.pop() + symbol
        out.append(symbol)
    return out


def _is_times(before: list[str], following: str) -> bool:
    """Return whether an `x` is between two values: `3 x 4`, `(1+2)x$5`, but not `2x+1`."""
    left = bool(before) and (_is_number(before[-1]) or before[-1] in {")", "%"})
    return left and bool(following) and (_is_number(following) or following in {"(", "-", *_CURRENCY})


def evaluate(text: str) -> Fraction:
    """Expression → exact value, with the usual precedence.

    Currency signs are ignored. `%` is percent, or the remainder if a value follows (`7%3`).
    """
    return _read(text)[0]


def operations(text: str) -> list[tuple[Fraction, str, Fraction, Fraction]]:
    """Expression of `+ - * /` → its operations in the order of evaluation: left, sign, right, value."""
    _, reader = _read(text)
    if any(not _is_number(s) and s not in _PLAIN for s in reader.marks):
        raise Unreadable(text)
    return reader.done


def _read(text: str) -> tuple[Fraction, _Reader]:
    """Return the value of an expression, and the reader with its operations."""
    marks = [s for s in symbols(text) if s not in _CURRENCY]
    if not marks or len(marks) > _MOST_SYMBOLS:
        raise Unreadable(text)
    reader = _Reader(marks)
    value = reader.sum()
    if reader.mark:
        raise Unreadable(text)
    return value, reader


def _bounded(value: Fraction) -> Fraction:
    if value.numerator.bit_length() + value.denominator.bit_length() > _MOST_BITS:
        raise Unreadable("too large")
    return value


class _Reader:
    """Recursive descent over symbols: sum → product → signed → power → atom."""

    def __init__(self, marks: list[str]):
        self.marks, self.at, self.depth = marks, 0, 0
        self.done: list[tuple[Fraction, str, Fraction, Fraction]] = []

    @property
    def mark(self) -> str:
        return self.marks[self.at] if self.at < len(self.marks) else ""

    @property
    def value_follows(self) -> bool:
        following = self.marks[self.at + 1] if self.at + 1 < len(self.marks) else ""
        return following == "(" or (bool(following) and _is_number(following))

    def take(self) -> str:
        self.at += 1
        return self.marks[self.at - 1]

    def sum(self) -> Fraction:
        value = self.product()
        while self.mark in ("+", "-"):
            operator, left, right = self.take(), value, self.product()
            value = _bounded(left + right if operator == "+" else left - right)
            self.done.append((left, operator, right, value))
        return value

    def product(self) -> Fraction:
        value = self.signed()
        while self.mark in ("*", "/", "//") or (self.mark == "%" and self.value_follows):
            operator, left, right = self.take(), value, self.signed()
            if operator == "*":
                value = _bounded(left * right)
            elif operator == "/":
                value = _bounded(left / right)
            else:
                value = Fraction(left // right) if operator == "//" else left % right
            self.done.append((left, operator, right, value))
        return value

    def signed(self) -> Fraction:
        sign = 1
        while self.mark in ("+", "-"):
            sign = -sign if self.take() == "-" else sign
        return sign * self.power()

    def power(self) -> Fraction:
        # -2^2 may mean 4 or -4, so it is not judged
        ambiguous = self.mark.startswith("-")
        base = self.atom()
        if self.mark not in ("^", "**"):
            return base
        self.take()
        self.depth += 1
        if ambiguous or self.depth > _DEEPEST:
            raise Unreadable("power")
        exponent = self.signed()
        self.depth -= 1
        bits = max(base.numerator.bit_length(), base.denominator.bit_length())
        if exponent.denominator != 1 or bits * abs(exponent) > _MOST_BITS:
            raise Unreadable("power")
        return base ** int(exponent)

    def atom(self) -> Fraction:
        if self.mark == "(":
            self.take()
            self.depth += 1
            if self.depth > _DEEPEST:
                raise Unreadable("too deep")
            value = self.sum()
            self.depth -= 1
            if self.mark != ")":
                raise Unreadable("open parenthesis")
            self.take()
        else:
            read = literal(self.mark)
            if read is None:
                raise Unreadable(self.mark)
            value = read
            self.take()
        if self.mark == "%" and not self.value_follows:
            self.take()
            value = value / 100
        return value
