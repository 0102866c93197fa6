"""Step → a program that can be evaluated exactly with other numbers and written in the same number format.

`16*.25=4` has the operands 16 and .25; with 20 and .5 it becomes `20*.5=10`. Integers stay `int`, so most steps need no
fractions.
"""

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import add, mul, sub
from typing import Any

from ruplar.data.augment.mentions import Value, whole
from ruplar.domains._numbers import decimal

_NUMBER = re.compile(r"\d+\.\d+|\d+|\.\d+")
_OTHER = re.compile(r"[^-+*/().\d]")
_SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


@dataclass(frozen=True, slots=True)
class Program:
    """One step: its operands as written, the text around each, its result, and its postfix code (operand numbers and signs)."""

    literals: tuple[str, ...]
    between: tuple[str, ...]
    result: str
    code: tuple[int | str, ...]

    def run(self, operands: Sequence[Value]) -> Value | None:
        """Evaluate the step; None on division by zero."""
        stack: list[Value] = []
        for mark in self.code:
            if isinstance(mark, int):
                stack.append(operands[mark])
                continue
            right, left = stack.pop(), stack.pop()
            if mark == "/" and not right:
                return None
            stack.append(_APPLY[mark](left, right))
        found = stack[0]
        return found if isinstance(found, int) else whole(found)

    def write(self, operands: Sequence[str], result: str) -> str:
        """Return the step with other numbers."""
        parts = [piece for pair in zip(self.between, operands, strict=False) for piece in pair]
        return "".join((*parts, self.between[-1], result))


def _over(left: Value, right: Value) -> Value:
    if isinstance(left, int) and isinstance(right, int) and not left % right:
        return left // right
    return Fraction(left) / right


_APPLY: dict[str, Callable[[Any, Any], Value]] = {"+": add, "-": sub, "*": mul, "/": _over}


def parse(step: str) -> Program | None:
    """Step → its program; None if it is anything but `+ - * / ( )` on unsigned numbers with one number as its result."""
    left, equals, result = step.replace(" ", "").partition("=")
    if not equals or not _NUMBER.fullmatch(result):
        return None
    if _OTHER.search(left):
        return None
    literals = tuple(_NUMBER.findall(left))
    names = iter(range(len(literals)))
    try:
        tree = ast.parse(_NUMBER.sub(lambda found: f" v{next(names)} ", left).strip(), mode="eval")
        code = _postfix(tree.body)
    except (SyntaxError, RecursionError, MemoryError):
        return None
    if code is None:
        return None
    *between, last = _NUMBER.split(left)
    return Program(literals, (*between, f"{last}="), result, code)


def _postfix(node: ast.expr) -> tuple[int | str, ...] | None:
    """Parsed expression of `v0`, `v1`, … → postfix code; None if it has anything but `+ - * /`."""
    if isinstance(node, ast.Name):
        return (int(node.id[1:]),)
    if not isinstance(node, ast.BinOp) or type(node.op) not in _SIGNS:
        return None
    left, right = _postfix(node.left), _postfix(node.right)
    return None if left is None or right is None else (*left, *right, _SIGNS[type(node.op)])


def value_of(literal: str) -> Value:
    """A number as written in a step → its value."""
    return int(literal) if literal.isdigit() else whole(Fraction(literal))


def write(value: Value, like: str, places: int | None = None) -> str | None:
    """Value → text in the format of another number; None if it has no short exact decimal.

    `like` ".50" gives ".75", "144.00" gives "96.00", "2.5" gives "3"; trailing zeros set the number of decimals.
    """
    like = like.replace(",", "")
    point = like.find(".")
    had = len(like) - point - 1 if point >= 0 else 0
    if places is None:
        places = had if had and like.endswith("0") else 0
    text = decimal(value, places)
    return text[1:] if text and text.startswith("0.") and like.startswith(".") else text
