"""Random numbers → operands of the same sizes as in real chains.

Measured on the 22,143 steps of the 6,884 GSM8K training chains that have steps and are not in gsm8k-aug-valid. 18,797 steps
(85 %) are two numbers and a sign:

    sign   steps          digits of (left, right) operand, steps; dec: a decimal
    *      7,839  41.7 %  1,1 2127 · 2,1 1602 · 1,2 1258 · 2,2 598 · 3,1 357 · 2,dec 346 · 1,3 256 · 3,dec 211 · 1,dec 182 · 3,2 111
    +      4,110  21.9 %  2,2 1272 · 1,1 761 · 2,1 674 · 3,3 363 · 3,2 321 · 1,2 207 · 2,3 101 · 4,4 99 · 4,3 98
    -      3,654  19.4 %  2,2 1047 · 2,1 849 · 3,2 513 · 3,3 466 · 1,1 315 · 4,3 130 · 4,4 128
    /      3,194  17.0 %  2,1 1388 · 3,1 430 · 3,2 355 · 2,2 248 · 1,1 217 · 4,1 103 · 4,2 78 · 2,dec 69 · 4,3 53

Results have 1 digit in 19.1 % of these, 2 in 47.8 %, 3 in 20.8 %, 4 in 6.2 %, 5 or more in 2.8 %, decimals in 3.8 %. Of the other steps
n+n+n are 981, n/n*n (20/100*80) 549, n*n/n 373, n (4=4) 326, n+n+n+n 264, n*n*n 210, n-n-n 149. Pairs of digits that
are rarer than one step in two hundred of their sign are not drawn, except for sums and differences of four digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from random import Random
from typing import TypeVar

Value = int | Fraction
T = TypeVar("T")

DEC = 0
"""A decimal, where the others are numbers of digits."""

SIGNS = {"*": 7839, "+": 4110, "-": 3654, "/": 3194}
DIGITS: dict[str, dict[tuple[int, int], int]] = {
    "*": {
        (1, 1): 2127,
        (2, 1): 1602,
        (1, 2): 1258,
        (2, 2): 598,
        (3, 1): 357,
        (2, DEC): 346,
        (1, 3): 256,
        (3, DEC): 211,
    }
    | {(1, DEC): 182, (3, 2): 111},
    "+": {(2, 2): 1272, (1, 1): 761, (2, 1): 674, (3, 3): 363, (3, 2): 321, (1, 2): 207, (2, 3): 101, (4, 4): 99}
    | {(4, 3): 98},
    "-": {(2, 2): 1047, (2, 1): 849, (3, 2): 513, (3, 3): 466, (1, 1): 315, (4, 3): 130, (4, 4): 128},
    "/": {(2, 1): 1388, (3, 1): 430, (3, 2): 355, (2, 2): 248, (1, 1): 217, (4, 1): 103, (4, 2): 78, (2, DEC): 69}
    | {(4, 3): 53},
}
_DECIMALS = tuple(Fraction(n, 20) for n in range(1, 20)) + tuple(Fraction(n, 2) for n in (3, 5, 7, 9))
_DECIMALS += tuple(Fraction(n, 4) for n in (1, 3, 5))


def weighted(rng: Random, weights: dict[T, int]) -> T:
    """One key, drawn in proportion to its weight."""
    ends = list(accumulate(weights.values()))
    at = rng.random() * ends[-1]
    return next(key for key, end in zip(weights, ends, strict=True) if at < end)


def pick(rng: Random, options: Sequence[T]) -> T:
    """One of the options, each equally likely."""
    return options[int(rng.random() * len(options))]


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
    left, right = weighted(rng, DIGITS[sign])
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
    b = number(rng, right)
    least, most = max(1 if left == right else 2, -(-low // b)), high // b
    while most < least:
        b = number(rng, right)
        least, most = max(1 if left == right else 2, -(-low // b)), high // b
    return b * (least + int(rng.random() * (most - least + 1))), b


def written(value: Value) -> str:
    """A number as written in chains: `24`, `.25`, `1.5`; at most four decimals."""
    if isinstance(value, int) or value.denominator == 1:
        return str(int(value))
    for places in range(1, 5):
        scaled = value * 10**places
        if scaled.denominator == 1:
            digits = str(scaled.numerator).rjust(places + 1, "0")
            return f"{digits[:-places].removeprefix('0')}.{digits[-places:]}"
    raise ValueError(f"{value} has no short decimal")
