"""Number of a question → the numbers that can replace it: of similar size and roundness, and plausible with its unit.

3 → 2..9      14 → 5..35      45 → 20, 25 .. 110      $2.50 → $1.00, $1.50 .. $6.00      30% → 5, 10 .. 95 %
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from random import Random

from ruplar.data.augment.mentions import SPELLED, Mention, Value, whole

LEAST_LARGE, MOST_LARGE = 1_000, 5_000_000
"""Range of large numbers."""

_LOW, _HIGH = Fraction(2, 5), Fraction(5, 2)
_SCALES = tuple(Fraction(a, b) for a, b in ((1, 2), (2, 1), (3, 2), (2, 3), (3, 1), (1, 3), (5, 2), (4, 3), (5, 4)))
_FINE = tuple(Fraction(1, parts) for parts in (2, 4, 5, 10, 20, 100, 1000))


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers that can replace a number: `grid` divided by `parts`."""

    value: Value
    grid: range
    parts: int
    can_be_large: bool

    def draw(self, rng: Random) -> Value:
        """Return one of them; in a quarter of the draws, a simple multiple of the original, which keeps its divisors."""
        if rng.random() < 0.25:
            scaled = self.value * _SCALES[int(rng.random() * len(_SCALES))] * self.parts
            if scaled.denominator == 1 and int(scaled) in self.grid:
                return self._over(int(scaled))
        return self._over(self.grid[int(rng.random() * len(self.grid))])

    def draw_large(self, rng: Random) -> Value:
        """Return a number of four to seven digits, log-uniform."""
        return int(LEAST_LARGE * (MOST_LARGE / LEAST_LARGE) ** rng.random())

    def _over(self, numerator: int) -> Value:
        return numerator if self.parts == 1 else whole(Fraction(numerator, self.parts))


def range_of(value: Value, percent: bool, places: Sequence[Mention]) -> Range:
    """A number and its mentions → its range."""
    most = min(mention.most for mention in places)
    spelled = any(mention.kind == "word" for mention in places)
    if isinstance(value, int) and (percent or spelled):
        grid = _words(value) if spelled else _percents(value)
        return Range(
            value, range(grid.start, min(grid.stop, most + 1), grid.step) or range(value, value + 1), 1, False
        )
    step = _step(value)
    low = max(step, 2 if isinstance(value, int) else step, _LOW * value)
    high: Value = min(max(_HIGH * value, Fraction(value + 4 if isinstance(value, int) else 0)), Fraction(most))
    parts = step.denominator
    unit = int(step * parts)
    first = -int(-low * parts // unit) * unit
    # a number beyond its plausible maximum is not resampled
    grid = range(first, int(high * parts) + 1, unit) or range(int(value * parts), int(value * parts) + 1)
    return Range(value, grid, parts, most >= 10**9 and value >= 5 and len(places) == 1 and not places[0].cents)


def _percents(value: int) -> range:
    if value % 5 == 0:
        return range(5, 96, 5)
    return range(max(2, value // 2), min(98, 2 * value + 2) + 1)


def _words(value: int) -> range:
    """Replacements for spelled numbers: small for small, tens for tens."""
    if value > 20:
        return range(20, 91, 10) if value % 10 == 0 else range(21, 100)
    return range(2, 7 if value <= 3 else 13) if value <= 12 else range(11, 21)


def _step(value: Value) -> Fraction:
    """Return the step size that matches the roundness of a number: 10 for 300, 5 for 45, 1/4 for 2.75."""
    if isinstance(value, Fraction):
        return next((step for step in _FINE if (value / step).denominator == 1), Fraction(1, 10_000))
    if value < 20:
        return Fraction(1)
    for unit in (1_000_000, 100_000, 10_000, 1_000, 100, 10, 5):
        if value % unit == 0:
            return Fraction(unit // 10 if unit >= 100 and value >= 100 else 5)
    return Fraction(1)


def spelled(value: Value, like: str) -> str | None:
    """Return a number as a word, capitalised like the original; None from 100."""
    word = SPELLED.get(value) if isinstance(value, int) else None
    return word.capitalize() if word and like[0].isupper() else word
