"""Seed and count → bare arithmetic in words and signs, one or two steps: trains number tokens on single operations.

Operators and operand sizes are those of the steps of GSM8K's training chains; the figures and the texts are in `drills.yaml`. Problem i under seed s depends on (s, i, steps, split) only, and no question is in two splits (`seeding.py`).
"""

from collections.abc import Iterator
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from random import Random

from ruplar.domains._numbers import decimal
from ruplar.errors import UserError
from ruplar.problems.data_files import load
from ruplar.problems.seeding import Split, T, mix, part_of, pick
from ruplar.types import Example

STEP_WEIGHTS = {1: 75, 2: 25}
"""How often a drill has this many steps, in hundredths."""
_KINDS = {"two": 78, "percent": 8, "part": 6, "sum": 5, "product": 1, "less": 2}
"""Kind of step → weight. Of the 22,143 steps measured 85 % are two numbers and a sign, 4.2 % a percentage as n/n*n or n*n/n and about
as many as a decimal, 6 % a longer sum, 0.9 % a longer product, 0.8 % a longer difference."""
_SALT = 0xD21

_TEXTS = load(Path(__file__).with_name("drills.yaml"))
SIGNS: dict[str, int] = _TEXTS["signs"]
_DIGITS = {sign: {tuple(sizes): n for *sizes, n in found} for sign, found in _TEXTS["digits"].items()}
DEC = 0
"""Size of a decimal; other sizes are numbers of digits."""
_DECIMALS = tuple(Fraction(n, 20) for n in range(1, 20)) + tuple(Fraction(n, 2) for n in (3, 5, 7, 9))
_DECIMALS += tuple(Fraction(n, 4) for n in (1, 3, 5))
_IN_WORDS = 5
"""The first so many of the questions also fit an expression in words."""

Value = int | Fraction


def generate(
    count: int, seed: int, *, steps: tuple[int, int] = (1, 2), start: int = 0, split: Split | None = None
) -> Iterator[Example]:
    """Write `count` drills, from the `start`-th on."""
    weights = {n: share for n, share in STEP_WEIGHTS.items() if steps[0] <= n <= steps[1]}
    if not weights:
        raise UserError(f"steps: drills have one or two steps, not {steps[0]} to {steps[1]}.")
    return (_drill(seed, index, weights, split) for index in range(start, start + count))


def _drill(seed: int, index: int, weights: dict[int, int], split: Split | None) -> Example:
    rng = Random(mix(seed ^ _SALT, index))
    while True:
        goal = weighted(rng, weights)
        question, steps = _one(rng) if goal == 1 else _two(rng)
        if split is None or part_of(question) == split:
            break
    answer = steps[-1].rpartition("=")[2]
    return Example(question, tuple(steps), answer, f"drills:{seed}:{index}", " ".join(f"<<{s}>>" for s in steps))


def _result(sign: str, a: Value, b: Value) -> Value:
    if sign == "/":
        return Fraction(a) / b
    return {"+": a + b, "-": a - b, "*": a * b}[sign]


def _step(*parts: Value | str, result: Value) -> str:
    left = "".join(part if isinstance(part, str) else written(part) for part in parts)
    return f"{left}={written(result)}"


def _one(rng: Random) -> tuple[str, list[str]]:
    kind = weighted(rng, _KINDS)
    if kind == "percent":
        return _percent(rng)
    if kind == "part":
        return _part(rng)
    if kind != "two":
        return _long(rng, {"sum": "+", "product": "*", "less": "-"}[kind])
    sign = weighted(rng, SIGNS)
    a, b = operands(rng, sign)
    steps = [_step(a, sign, b, result=_result(sign, a, b))]
    x, y = decimal(a), decimal(b)
    way = rng.random()
    if way < 0.55:
        return _as_question(rng, f"{x} {_sign(rng, sign)} {y}"), steps
    if way < 0.85:
        return _capital(
            pick(rng, _TEXTS["ask"][:_IN_WORDS]).format(x=pick(rng, _TEXTS["expressions"][sign]).format(a=x, b=y))
        ), steps
    return pick(rng, _TEXTS["requests"][sign]).format(a=x, b=y), steps


def _percent(rng: Random) -> tuple[str, list[str]]:
    """`15% of 240`, computed in one of the ways of real chains: 15/100*240, 240*15/100 or 240*.15."""
    p = 5 * (1 + int(rng.random() * 19)) if rng.random() < 0.85 else 1 + int(rng.random() * 99)
    a = number(rng, pick(rng, (2, 2, 3, 3, 3, 4)))
    if rng.random() < 0.85:
        # most percentages of real chains give a whole number
        unit = Fraction(100, p).numerator
        a = max(1, a // unit) * unit
    result, share = Fraction(a * p, 100), Fraction(p, 100)
    way = rng.random()
    step = (p, "/100*", a) if way < 0.35 else (a, "*", p, "/100") if way < 0.6 else (a, "*", share)
    text = pick(rng, _TEXTS["percentages"]).format(p=p, a=a)
    return _as_question(rng, text), [_step(*step, result=result)]


def _part(rng: Random) -> tuple[str, list[str]]:
    """`A quarter of 84`, `twice 36`."""
    text, top, bottom = pick(rng, _TEXTS["fractions"])
    a = bottom * number(rng, pick(rng, (1, 1, 2, 2)))
    if bottom == 1:
        step: tuple[Value | str, ...] = (a, "*", top)
    elif top == 1:
        step = (a, "/", bottom)
    else:
        step = pick(rng, ((a, "*", top, "/", bottom), (top, "/", bottom, "*", a)))
    return _as_question(rng, text.format(a=a)), [_step(*step, result=Fraction(a * top, bottom))]


def _long(rng: Random, sign: str) -> tuple[str, list[str]]:
    if sign == "*":
        values = [number(rng, 1), number(rng, 1), number(rng, pick(rng, (1, 1, 2)))]
    else:
        digits = pick(rng, (1, 2, 2, 3))
        values = [number(rng, digits) for _ in range(4 if sign == "+" and rng.random() < 0.25 else 3)]
    result = values[0]
    if sign == "-":
        result = values[0]
        values[0] += values[1] + values[2]
    else:
        for value in values[1:]:
            result = result + value if sign == "+" else result * value
    texts = [written(v) for v in values]
    return _as_question(rng, f" {_sign(rng, sign)} ".join(texts)), [f"{sign.join(texts)}={result}"]


def _two(rng: Random) -> tuple[str, list[str]]:
    """Two steps, the second on the first's result: `(37 + 48) / 5`."""
    while True:
        first, second = weighted(rng, SIGNS), weighted(rng, SIGNS)
        a, b = operands(rng, first)
        middle = _result(first, a, b)
        if middle != int(middle) or not 1 < middle < 10_000:
            continue
        middle = int(middle)
        c = _second(rng, second, middle)
        if c is None:
            continue
        inner = f"{decimal(a)} {_sign(rng, first)} {decimal(b)}"
        if second in "*/" and first in "+-" or second == "/" or rng.random() < 0.3:
            inner = f"({inner})"
        steps = [_step(a, first, b, result=middle), _step(middle, second, c, result=_result(second, middle, c))]
        return _as_question(rng, f"{inner} {_sign(rng, second)} {decimal(c)}"), steps


def _second(rng: Random, sign: str, value: int) -> int | None:
    if sign == "/":
        exact = [k for k in (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 25) if value % k == 0 and k < value]
        return pick(rng, exact) if exact else None
    if sign == "*":
        return number(rng, 1) if value < 1000 else None
    other = number(rng, max(1, len(str(value)) - (1 if rng.random() < 0.4 else 0)))
    return other if sign == "+" or other < value else None


def _sign(rng: Random, sign: str) -> str:
    return pick(rng, ("*", "*", "x", "×")) if sign == "*" else pick(rng, ("/", "/", "÷")) if sign == "/" else sign


def _as_question(rng: Random, text: str) -> str:
    return _capital(pick(rng, _TEXTS["ask"]).format(x=text))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def weighted(rng: Random, weights: dict[T, int]) -> T:
    """One key, drawn in proportion to its weight."""
    ends = list(accumulate(weights.values()))
    at = rng.random() * ends[-1]
    return next(key for key, end in zip(weights, ends, strict=True) if at < end)


def number(rng: Random, digits: int) -> int:
    """A number with this many digits; with two or more, low first digits are more frequent and a third are round, as in prices."""
    if digits == 1:
        return 2 + int(rng.random() * 8)
    low, high = 10 ** (digits - 1), 10**digits - 1
    value = min(high, int(low * 10 ** rng.random()))
    if rng.random() < 0.35:
        unit = 5 if digits == 2 else 10 ** (digits - 2)
        value = max(low, value - value % unit)
    return value


def operands(rng: Random, sign: str) -> tuple[Value, Value]:
    """Left and right operand of one step; its result is positive and, except for decimals, whole."""
    left, right = weighted(rng, _DIGITS[sign])
    if sign == "/":
        return _division(rng, left, right)
    a: Value = number(rng, left)
    b: Value = pick(rng, _DECIMALS) if right == DEC else number(rng, right)
    if sign == "-":
        a, b = (a, b) if a > b else (b, a) if b > a else (a + 1, b)
    return a, b


def _division(rng: Random, left: int, right: int) -> tuple[Value, Value]:
    """A dividend with this many digits and a divisor; about one in twenty gives a short decimal, as in real chains."""
    if right == DEC:
        part = pick(rng, _DECIMALS)
        return int(part * 20) * number(rng, 1), part
    if right == 1 and rng.random() < 0.06:
        return number(rng, left), pick(rng, (2, 4, 5, 8))
    low, high = (1, 9) if left == 1 else (10 ** (left - 1), 10**left - 1)
    while True:
        b = number(rng, right)
        least, most = max(1 if left == right else 2, -(-low // b)), high // b
        if least <= most:
            return b * (least + int(rng.random() * (most - least + 1))), b


def written(value: Value) -> str:
    """A number as written in chains: `24`, `.25`, `1.5`; at most four decimals."""
    text = decimal(value)
    if text is None:
        raise ValueError(f"{value} has no short decimal")
    return text.removeprefix("0") if "." in text else text
