"""Template, seed and attempt → an augmented problem, or None if the numbers drawn are not plausible.

A number is replaced by one of similar size and roundness that is plausible with its unit:
3 → 2..9      14 → 5..35      45 → 20, 25 .. 110      $2.50 → $1.00, $1.50 .. $6.00      30% → 5, 10 .. 95 %

An attempt is a pure function of (seed, row, attempt number), so any variant can be recreated on its own.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from random import Random

from ruplar.data.augment import program
from ruplar.data.augment.mentions import SPELLED, Mention, Value, article, whole
from ruplar.data.augment.template import Template, operand_value
from ruplar.problems.seeding import mix
from ruplar.types import Example

FACTOR = 5
"""Results may be at most this many times larger or smaller than in the example."""
_MOST = 10**9
_REDRAWN = (0.9, 0.7, 0.5)
"""Probability of resampling a number, for attempts in turn: if few combinations are integers, some numbers must stay."""

Numbers = tuple[Value, ...]

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

    def _over(self, numerator: int) -> Value:
        return numerator if self.parts == 1 else whole(Fraction(numerator, self.parts))


def range_of(value: Value, percent: bool, places: Sequence[Mention]) -> Range:
    """A number and its mentions → its range."""
    most = min(mention.most for mention in places)
    spelled = any(mention.kind == "word" for mention in places)
    if isinstance(value, int) and (percent or spelled):
        grid = _words(value) if spelled else _percents(value)
        within = range(grid.start, min(grid.stop, most + 1), grid.step)
        return Range(value, within or range(value, value + 1), 1, False)
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
    return range(5, 96, 5) if value % 5 == 0 else range(max(2, value // 2), min(98, 2 * value + 2) + 1)


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


@dataclass(frozen=True, slots=True)
class VariantPlan:
    """A template and everything its attempts need, computed once.

    Attributes:
        idle: Numbers of the question that are not resampled.
        order: Pairs of indices into (variables, idle numbers): the first must stay below the second, so that what was cheaper
            stays cheaper.
        bounds: Minimum and maximum of each step's result.
        places: Maximum number of decimals of each step's result; 0 for integers.
        below_100: Whether the percentages must sum to less than 100, as in the example.
        at_most: Maximum of the answer: 100 if the question is about a percentage.
    """

    template: Template
    row: int
    ranges: tuple[Range, ...]
    idle: Numbers
    order: tuple[tuple[int, int], ...]
    bounds: tuple[tuple[Value, Value], ...]
    places: tuple[int, ...]
    percents: tuple[int, ...]
    below_100: bool
    at_most: int


def make_plan(template: Template, row: int) -> VariantPlan:
    t = template
    percents = tuple(i for i, v in enumerate(t.variables) if v.percent)
    bound = {i for v in t.variables for i in v.mentions}
    idle = [m for i, m in enumerate(t.mentions) if i not in bound and m.kind != "time"]
    last_sentence = t.example.question.rpartition(". ")[2].casefold()
    return VariantPlan(
        t,
        row,
        tuple(range_of(v.value, v.percent, [t.mentions[i] for i in v.mentions]) for v in t.variables),
        tuple(m.value for m in idle),
        tuple(_order([(v.value, {t.mentions[i].unit for i in v.mentions}) for v in t.variables], idle)),
        tuple(_bounds(result) for result in t.results),
        tuple(_places(result) for result in t.results),
        percents,
        len(percents) > 1 and sum(t.variables[i].value for i in percents) < 100,
        100 if "percent" in last_sentence and t.results[-1] <= 100 else _MOST,
    )


def attempt(plan: VariantPlan, seed: int, number: int, large: float = 0.0) -> Numbers | None:
    """Return the numbers of one attempt, or None if they are not plausible or those of the example."""
    rng = Random(mix(mix(seed, plan.row), number))
    chance = _REDRAWN[number % len(_REDRAWN)]
    old = [v.value for v in plan.template.variables]
    values = [r.draw(rng) if rng.random() < chance else value for r, value in zip(plan.ranges, old, strict=True)]
    huge = large > 0 and rng.random() < large
    if huge:
        able = [i for i, r in enumerate(plan.ranges) if r.can_be_large]
        if not able:
            return None
        size = rng.random()  # log-uniform, of four to seven digits
        values[able[int(rng.random() * len(able))]] = int(LEAST_LARGE * (MOST_LARGE / LEAST_LARGE) ** size)
    numbers = [*values, *plan.idle]
    if values == old or not (huge or all(numbers[i] < numbers[j] for i, j in plan.order)):
        return None
    if plan.below_100 and sum(values[i] for i in plan.percents) >= 100:
        return None
    return tuple(values) if _results(plan, values, huge) else None


def is_large(plan: VariantPlan, values: Sequence[Value]) -> bool:
    """Return whether one of the numbers is a large one."""
    return any(value * r.parts > r.grid[-1] and value != r.value for r, value in zip(plan.ranges, values, strict=True))


def write(plan: VariantPlan, values: Sequence[Value]) -> Example | None:
    """Numbers → the problem; None if a number cannot be written in the format of the original."""
    t = plan.template
    question = _question(t, values)
    results = _results(plan, values, True)
    if question is None or results is None:
        return None
    steps, stated = [], ""
    for step, sources, result in zip(t.programs, t.sources, results, strict=True):
        operands = [operand_value(source, values, results) for source in sources]
        texts = [program.write(v, like) for v, like in zip(operands, step.literals, strict=True) if v is not None]
        stated = program.write(result, step.result) or ""
        if None in texts or not stated:
            return None
        steps.append(step.write(texts, stated))  # type: ignore[arg-type]
    answer = program.write(results[-1], t.example.answer) or stated
    return Example(question, tuple(steps), answer, t.example.source, " ".join(f"<<{step}>>" for step in steps))


def _order(variables: Sequence[tuple[Value, set[str]]], idle: Sequence[Mention]) -> Iterator[tuple[int, int]]:
    """Yield pairs of numbers with a common unit, the smaller one first; at least one of them is a variable."""
    numbers = [*variables, *((m.value, {m.unit}) for m in idle)]
    for i, j in itertools.combinations(range(len(numbers)), 2):
        (a, units), (b, others) = numbers[i], numbers[j]
        if i < len(variables) and a != b and (units & others) - {""}:
            yield (i, j) if a < b else (j, i)


def _bounds(result: Value) -> tuple[Value, Value]:
    if result < 1:
        return Fraction(result) / FACTOR, Fraction(99, 100)
    return max(math.ceil(result / FACTOR), 2 if result >= 2 else 1), max(result * FACTOR, 12)


def _places(result: Value) -> int:
    needed = (n for n in range(1, 5) if (result * 10**n).denominator == 1)
    return 0 if isinstance(result, int) else max(2, next(needed, 4))


def _results(plan: VariantPlan, values: Sequence[Value], huge: bool) -> list[Value] | None:
    """Return the results of the steps; None if one has more decimals than in the example, or is out of bounds."""
    results: list[Value] = []
    t = plan.template
    for at, (step, sources) in enumerate(zip(t.programs, t.sources, strict=True)):
        found = step.run([operand_value(source, values, results) for source in sources])  # type: ignore[misc]
        if found is None or found <= 0:
            return None
        places = plan.places[at]
        if isinstance(found, Fraction) and (not places or (found * 10**places).denominator != 1):
            return None
        low, high = plan.bounds[at]
        if not (low <= found <= high) and not (huge and low >= 1 and 1 <= found <= _MOST):
            return None
        results.append(found)
    return results if results[-1] <= plan.at_most else None


def _question(template: Template, values: Sequence[Value]) -> str | None:
    text, at, parts = template.example.question, 0, []
    drawn = zip(template.variables, values, strict=True)
    pairs = [(template.mentions[i], value) for variable, value in drawn for i in variable.mentions]
    for mention, value in sorted(pairs, key=lambda pair: pair[0].start):
        written = _mention(mention, value)
        if written is None:
            return None
        parts += [text[at : mention.start], written]
        at = mention.end
    return "".join((*parts, text[at:]))


def _mention(mention: Mention, value: Value) -> str | None:
    """Write a number in the format of a mention; None if it does not fit there."""
    if value == 1 and mention.unit != "$":
        return None  # avoids "1 hours"
    if mention.text[0].isalpha():
        word = SPELLED.get(value) if isinstance(value, int) else None
        written = word.capitalize() if word and mention.text[0].isupper() else word
    else:
        money = mention.unit == "$" and isinstance(value, Fraction)
        decimals = len(mention.text.partition(".")[2])
        written = program.write(value, mention.text, max(decimals, 2) if money or decimals > 1 else None)
        if written is not None and value >= 1000 and ("," in mention.text or mention.value < 1000 and value >= 10_000):
            whole_part, point, rest = written.partition(".")
            written = f"{int(whole_part):,}{point}{rest}"
    if written is None or (mention.article and article(written) != mention.article):
        return None
    return written
