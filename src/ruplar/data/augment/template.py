"""Templates: examples with their numbers as variables, and the search for the source of every operand.

A template is accepted only if all possible assignments of sources give the same results. Assignments that leave a result
or a number of the question unused are considered only if there are no others.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from random import Random

from ruplar.data.augment import program
from ruplar.data.augment.mentions import Mention, Value, whole
from ruplar.data.augment.program import Program
from ruplar.types import Example

NOT_PLAIN = "a step is not plain arithmetic"
INEXACT = "a step is rounded or wrong"
NOT_LAST = "the last result is not the answer"
NO_NUMBER = "no number of the question can be resampled"
UNKNOWN = "an operand has no known source"
TIME = "the chain uses a date or a time of day"
AMBIGUOUS = "an operand has two possible sources"
RESTATED = "a number of the question follows from others"
UNWRITTEN = "a step is missing from the chain"
IDLE = "a number of the question is not used"
"""Why an example has no template; `NO_STEP` is another reason."""


CONVERSIONS: dict[str, Callable[[Value], Value]] = {
    "": lambda v: v,
    "%": lambda v: whole(Fraction(v) / 100),
    "100-": lambda v: 100 - v,
    "1-%": lambda v: whole(1 - Fraction(v) / 100),
    "1+%": lambda v: whole(1 + Fraction(v) / 100),
    "100+": lambda v: 100 + v,
}
"""What a chain may compute from a number of the question without a step of its own."""


class NotAugmentable(Exception):
    """The example has no template; the argument is one of the reasons above."""


_MAX_ASSIGNMENTS = 512


@dataclass(frozen=True, slots=True)
class OperandSource:
    """Where an operand comes from: a constant, a variable or a step."""

    constant: Value | None = None
    variable: int = -1
    conversion: str = ""
    step: int = -1


@dataclass(frozen=True, slots=True)
class Variable:
    """A number of the question that is resampled, with its mentions."""

    value: Value
    percent: bool
    mentions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Template:
    """An example with its numbers as variables."""

    example: Example
    mentions: tuple[Mention, ...]
    variables: tuple[Variable, ...]
    programs: tuple[Program, ...]
    sources: tuple[tuple[OperandSource, ...], ...]
    results: tuple[Value, ...]

    def run(
        self, values: Sequence[Value], sources: Sequence[Sequence[OperandSource]] | None = None
    ) -> list[Value | None]:
        """Evaluate all steps with other numbers; None from the first that cannot be evaluated."""
        found: list[Value | None] = []
        for step, step_sources in zip(self.programs, sources or self.sources, strict=True):
            operands = [operand_value(source, values, found) for source in step_sources]
            found.append(None if None in operands else step.run(operands))  # type: ignore[arg-type]
        return found


def operand_value(source: OperandSource, values: Sequence[Value], results: Sequence[Value | None]) -> Value | None:
    """Return the value of an operand, given the variables and the results so far."""
    if source.constant is not None:
        return source.constant
    return results[source.step] if source.step >= 0 else CONVERSIONS[source.conversion](values[source.variable])


def conversions_of(template: Template, variable: Variable) -> Iterator[str]:
    """Yield the conversions of a variable: all of them for a percentage, dollars for cents."""
    if variable.percent:
        yield from CONVERSIONS
    else:
        yield ""
        if any(template.mentions[i].cents for i in variable.mentions):
            yield "%"


def find_sources(template: Template, constants: set[Value]) -> tuple[tuple[OperandSource, ...], ...]:
    options = [
        [_options(template, program.value_of(literal), at, constants) for literal in step.literals]
        for at, step in enumerate(template.programs)
    ]
    flat = [choice for step in options for choice in step]
    if any(not choice for choice in flat):
        raise NotAugmentable(UNKNOWN)
    count = math.prod(len(choice) for choice in flat)
    if count > _MAX_ASSIGNMENTS:
        raise NotAugmentable(AMBIGUOUS)
    assignments = [_by_step(choice, template.programs) for choice in itertools.product(*flat)]
    if count > 1:
        complete = [assignment for assignment in assignments if _uses_all(assignment, template, flat)]
        assignments = complete or assignments
        _check_same(template, assignments)
    return assignments[0]


def _options(template: Template, value: Value, at: int, constants: set[Value]) -> list[OperandSource]:
    found = [OperandSource(step=i) for i in range(at) if template.results[i] == value]
    for i, variable in enumerate(template.variables):
        names = [name for name in conversions_of(template, variable) if CONVERSIONS[name](variable.value) == value]
        found += [OperandSource(variable=i, conversion=name) for name in names]
    if value in constants:
        found.append(OperandSource(constant=value))
    return found


def _by_step(sources: Sequence[OperandSource], programs: Sequence[Program]) -> tuple[tuple[OperandSource, ...], ...]:
    rest = iter(sources)
    return tuple(tuple(itertools.islice(rest, len(step.literals))) for step in programs)


def _uses_all(
    assignment: Sequence[Sequence[OperandSource]], template: Template, flat: Sequence[list[OperandSource]]
) -> bool:
    used = {source for step in assignment for source in step}
    steps = {source.step for source in used}
    variables = {source.variable for source in used}
    possible = {source.variable for choice in flat for source in choice}
    return possible <= variables | {-1} and all(i in steps for i in range(len(template.results) - 1))


def _check_same(template: Template, assignments: Sequence[tuple[tuple[OperandSource, ...], ...]]) -> None:
    rng = Random(0)
    for _ in range(3):
        values = [rng.randrange(3, 97) if v.percent else rng.randrange(10**3, 10**6) for v in template.variables]
        found = {tuple(template.run(values, assignment)) for assignment in assignments}
        if len(found) > 1:
            raise NotAugmentable(AMBIGUOUS)


def misused_percentages(template: Template, sources: Sequence[Sequence[OperandSource]]) -> set[Value]:
    """Return percentages that a step uses as plain numbers, as in 40/10 for 10 % of 40: valid for that number only."""
    found: set[Value] = set()
    for step in sources:
        hundred = any(source.constant in (100, Fraction(1, 100)) for source in step)
        for source in step:
            if source.variable >= 0 and template.variables[source.variable].percent and source.conversion == "":
                others = [o for o in step if o is not source and not hundred]
                if any(o.variable < 0 or not template.variables[o.variable].percent for o in others):
                    found.add(template.variables[source.variable].value)
    return found
