"""Step → its symbols, and symbols → exact value: the `exact` rule of arithmetic.

Every character that is not a space belongs to exactly one symbol, except thousands separators and a full stop after a
number. So no parenthesis, sign or unit is lost.
"""

import ast
import operator
import re
from collections.abc import Callable, Iterator
from fractions import Fraction

from ruplar.domains._numbers import DASHES, NUMBER, literal

_SIGNS = str.maketrans({"×": "*", "✕": "*", "·": "*", "⋅": "*", "÷": "/", "∕": "/", "⁄": "/"})
_SYMBOL = re.compile(rf"(?P<number>{NUMBER})(?:\.(?![0-9.]))?|[^\W0-9_]+|\*\*|//|<=|>=|!=|\S")
_OPENS = frozenset({"+", "-", "*", "/", "**", "//", "^", "=", "(", "[", "{", "<", ">", "<=", ">=", "!=", ","})
_CURRENCY = frozenset("$€£")
_PLAIN = frozenset("+-*/()")

_PYTHON = {mark: mark for mark in ("+", "-", "*", "/", "//", "%", "**", "(", ")")} | {"^": "**"}
_OPERATORS: dict[type[ast.operator], tuple[str, Callable[[Fraction, Fraction], Fraction | int]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv),
    ast.FloorDiv: ("//", operator.floordiv),
    ast.Mod: ("%", operator.mod),
}
_MOST_SYMBOLS, _MOST_BITS = 200, 4096
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
    """Expression → exact value, with the usual precedence; raises `Unreadable`, or ZeroDivisionError.

    Currency signs are ignored. `%` is percent, or the remainder if a value follows (`7%3`).
    """
    return _Evaluation(text).value


def operations(text: str) -> list[tuple[Fraction, str, Fraction, Fraction]]:
    """Expression of `+ - * /` → its operations in the order of evaluation: left, sign, right, value.

    Raises `Unreadable` also if it contains more than numbers, parentheses and these four operators.
    """
    found = _Evaluation(text)
    if any(not _is_number(s) and s not in _PLAIN for s in found.marks):
        raise Unreadable(text)
    return found.done


class _Evaluation:
    """The value of an expression, by Python's parser, and its operations in order."""

    def __init__(self, text: str):
        self.marks = [s for s in symbols(text) if s not in _CURRENCY]
        self.done: list[tuple[Fraction, str, Fraction, Fraction]] = []
        if not self.marks or len(self.marks) > _MOST_SYMBOLS:
            raise Unreadable(text)
        try:
            tree = ast.parse(" ".join(self._python()), mode="eval")
        except (SyntaxError, RecursionError, MemoryError):
            raise Unreadable(text) from None
        self.value = self._value(tree.body)

    def _python(self) -> Iterator[str]:
        """Yield the symbols as Python: a number is `v` and its position, a percent sign an index, which binds tightest."""
        for at, (mark, following) in enumerate(zip(self.marks, [*self.marks[1:], " "], strict=True)):
            if _is_number(mark):
                yield f"v{at}"
            elif mark == "%" and following != "(" and not _is_number(following):
                if following == "%":
                    raise Unreadable("%%")
                yield "[0]"
            elif mark in _PYTHON:
                yield _PYTHON[mark]
            else:
                raise Unreadable(mark)

    def _value(self, node: ast.expr) -> Fraction:
        if isinstance(node, ast.Name):
            read = literal(self.marks[int(node.id[1:])])
            if read is None:
                raise Unreadable(node.id)
            return read
        if isinstance(node, ast.UnaryOp):
            return self._value(node.operand) * (-1 if isinstance(node.op, ast.USub) else 1)
        if isinstance(node, ast.Subscript):
            return self._value(node.value) / 100
        if not isinstance(node, ast.BinOp):
            raise Unreadable("no expression")
        left, right = self._value(node.left), self._value(node.right)
        if isinstance(node.op, ast.Pow):
            return self._power(node.left, left, right)
        sign, operate = _OPERATORS[type(node.op)]
        value = Fraction(operate(left, right))
        if value.numerator.bit_length() + value.denominator.bit_length() > _MOST_BITS:
            raise Unreadable("too large")
        self.done.append((left, sign, right, value))
        return value

    def _power(self, node: ast.expr, base: Fraction, exponent: Fraction) -> Fraction:
        # -2^2 may mean 4 or -4, so it is not judged
        ambiguous = isinstance(node, ast.Name) and base < 0
        bits = max(base.numerator.bit_length(), base.denominator.bit_length())
        if ambiguous or exponent.denominator != 1 or bits * abs(exponent) > _MOST_BITS:
            raise Unreadable("power")
        return base ** int(exponent)
