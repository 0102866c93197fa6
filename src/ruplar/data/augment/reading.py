"""Template → where every operand comes from, if all readings that are possible come to the same.

Readings that leave a result or a number of the text unused are not considered where others do not.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from random import Random

from ruplar.data.augment import program
from ruplar.data.augment.mentions import Value
from ruplar.data.augment.program import Program
from ruplar.data.augment.template import AMBIGUOUS, SHARES, UNKNOWN, Source, Template, Unbound, shares_of

_MOST_READINGS = 512


def read(template: Template, constants: set[Value]) -> tuple[tuple[Source, ...], ...]:
    """Every operand's source.

    Raises:
        Unbound: Two readings come to different results on other numbers.
    """
    options = [
        [_options(template, program.value_of(literal), at, constants) for literal in step.literals]
        for at, step in enumerate(template.programs)
    ]
    flat = [choice for step in options for choice in step]
    if any(not choice for choice in flat):
        raise Unbound(UNKNOWN)
    count = 1
    for choice in flat:
        count *= len(choice)
    if count > _MOST_READINGS:
        raise Unbound(AMBIGUOUS)
    readings = [_fold(reading, template.programs) for reading in itertools.product(*flat)]
    if count > 1:
        fair = [reading for reading in readings if _uses_all(reading, template, flat)]
        readings = fair or readings
        _check_same(template, readings)
    return readings[0]


def _options(template: Template, value: Value, at: int, constants: set[Value]) -> list[Source]:
    found = [Source(step=i) for i in range(at) if template.results[i] == value]
    for i, variable in enumerate(template.variables):
        shares = [share for share in shares_of(template, variable) if SHARES[share](variable.value) == value]
        found += [Source(variable=i, share=share) for share in shares]
    if value in constants:
        found.append(Source(constant=value))
    return found


def _fold(reading: Sequence[Source], programs: Sequence[Program]) -> tuple[tuple[Source, ...], ...]:
    rest = iter(reading)
    return tuple(tuple(itertools.islice(rest, len(step.literals))) for step in programs)


def _uses_all(reading: Sequence[Sequence[Source]], template: Template, flat: Sequence[list[Source]]) -> bool:
    """Whether no result and no number that could be meant is left unused."""
    used = {source for step in reading for source in step}
    steps = {source.step for source in used}
    variables = {source.variable for source in used}
    possible = {source.variable for choice in flat for source in choice}
    return possible <= variables | {-1} and all(i in steps for i in range(len(template.results) - 1))


def _check_same(template: Template, readings: Sequence[tuple[tuple[Source, ...], ...]]) -> None:
    rng = Random(0)
    for _ in range(3):
        values = [rng.randrange(3, 97) if v.percent else rng.randrange(10**3, 10**6) for v in template.variables]
        found = {tuple(template.run(values, reading)) for reading in readings}
        if len(found) > 1:
            raise Unbound(AMBIGUOUS)


def misused(template: Template, sources: Sequence[Sequence[Source]]) -> set[Value]:
    """Percentages that a step takes as plain numbers, as in 40/10 for 10 % of 40: right for that one alone, so they stay."""
    found: set[Value] = set()
    for step in sources:
        hundred = any(source.constant in (100, Fraction(1, 100)) for source in step)
        for source in step:
            if source.variable >= 0 and template.variables[source.variable].percent and source.share == "":
                others = [o for o in step if o is not source and not hundred]
                if any(o.variable < 0 or not template.variables[o.variable].percent for o in others):
                    found.add(template.variables[source.variable].value)
    return found
