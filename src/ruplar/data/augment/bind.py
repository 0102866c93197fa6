"""Example → its template: the source of every operand in the question or in an earlier step, or why it has none.

An operand is a number of the question (or a conversion of it, such as a percentage as a fraction), the result of an earlier
step, or a constant. If an operand has two possible sources, the numbers concerned are frozen, so that both give the same
value; if that does not help, the example is left out. So some templates resample fewer numbers than possible, but every
template is valid for all numbers.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction

from ruplar.data.augment import mentions, program
from ruplar.data.augment import template as templates
from ruplar.data.augment.mentions import Mention, Value, whole
from ruplar.data.augment.program import Program
from ruplar.data.augment.template import CONVERSIONS, NotAugmentable, OperandSource, Template, Variable, conversions_of
from ruplar.data.formats import NO_STEP
from ruplar.types import Example

_SMALL, _LISTED = 10, 6
_BARE = re.compile(r"=\s*[$€£]?\s*(\d[\d,]*\.?\d*|\.\d+)")


def bind(example: Example) -> Template:
    parsed = [program.parse(step) for step in example.steps]
    programs = tuple(step for step in parsed if step is not None)
    if len(programs) < len(parsed):
        raise NotAugmentable(templates.NOT_PLAIN)
    results = _results(programs)
    if not results:
        raise NotAugmentable(NO_STEP)
    if results[-1] != _answer(example):
        raise NotAugmentable(templates.NOT_LAST)
    found = tuple(mentions.find(example.question))
    constants = mentions.implied(example.question) | {m.value for m in found if m.kind == "fixed"}
    constants |= set(_averages(programs, results)) | _listed(found)
    needed = {program.value_of(literal) for step in programs for literal in step.literals}
    if (needed - set(results)) & set(_bare(example.chain)):
        raise NotAugmentable(templates.UNWRITTEN)
    frozen: set[Value] = set(constants)
    while True:
        template = Template(example, found, _variables(found, frozen), programs, (), results)
        lost = _unexplained(template, needed, constants)
        if lost:
            frozen |= _origins(template, lost, constants)
            constants |= lost
            continue
        if not template.variables:
            raise NotAugmentable(templates.NO_NUMBER)
        sources = templates.find_sources(template, constants)
        misused = templates.misused_percentages(template, sources)
        if not misused:
            break
        frozen |= misused
        constants |= misused
    used = sorted({source.variable for step in sources for source in step if source.variable >= 0})
    if not used:
        raise NotAugmentable(templates.NO_NUMBER)
    linked = {source.step for step in sources for source in step}
    if any(at not in linked for at in range(len(results) - 1)):
        raise NotAugmentable(templates.UNWRITTEN)
    bound = _drop_unused(template, used, sources)
    _check_fixed_numbers(bound)
    return bound


def _results(programs: Sequence[Program]) -> tuple[Value, ...]:
    found = []
    for step in programs:
        value = step.run([program.value_of(literal) for literal in step.literals])
        if value is None or value != program.value_of(step.result) or value <= 0:
            raise NotAugmentable(templates.INEXACT)
        found.append(value)
    return tuple(found)


def _bare(chain: str) -> Iterator[Value]:
    """Yield the results of equations in the prose of a chain, outside of its steps."""
    outside = re.sub(r"<<.*?>>\s*[$€£]?\s*[\d.,]*", " ", chain)
    for match in _BARE.finditer(outside):
        yield program.value_of(match[1].replace(",", "").rstrip("."))


def _answer(example: Example) -> Value | None:
    try:
        return whole(Fraction(example.answer.replace(",", "").replace("$", "")))
    except (ValueError, ZeroDivisionError):
        return None


def _averages(programs: Sequence[Program], results: Sequence[Value]) -> Iterator[Value]:
    """Yield the number of summands if their sum is then divided by it: a count, not a number of the question."""
    for step, result in zip(programs, results, strict=True):
        count = len(step.literals)
        adds = count > 1 and set(step.code) - set(range(count)) == {"+"}
        for later in programs:
            if adds and later.code == (0, 1, "/") and program.value_of(later.literals[0]) == result:
                yield count


def _variables(found: Sequence[Mention], frozen: set[Value]) -> tuple[Variable, ...]:
    groups: dict[tuple[Value, bool], list[int]] = {}
    for i, mention in enumerate(found):
        if mention.free and mention.value not in frozen:
            groups.setdefault((mention.value, mention.kind == "percent"), []).append(i)
    return tuple(Variable(value, percent, tuple(at)) for (value, percent), at in groups.items())


def _listed(found: Sequence[Mention]) -> set[Value]:
    """Return small numbers with several units: in `3 times as many` and `the three boys`, one may count listed items."""
    small = [m for m in found if m.free and m.value <= _LISTED]
    return {m.value for m in small if len({n.unit for n in small if n.value == m.value}) > 1}


def _unexplained(template: Template, needed: set[Value], constants: set[Value]) -> set[Value]:
    given = {CONVERSIONS[name](v.value) for v in template.variables for name in conversions_of(template, v)}
    return needed - given - set(template.results) - constants


def _origins(template: Template, lost: set[Value], constants: set[Value]) -> set[Value]:
    """Return the numbers from which the writer may have derived each unexplained operand; they must be frozen.

    An operand up to 10 that cannot be derived counts listed items (three names, two kinds), if no number of the question is
    unused.
    """
    values = [v.value for v in template.variables]
    found: set[Value] = set()
    for value in lost:
        if any(m.kind == "time" and m.value == value for m in template.mentions):
            raise NotAugmentable(templates.TIME)
        origins = {v for v in values if any(_derives(v, c, value) for c in {*constants, 7, 12, 24, 60, 100})}
        origins |= {v for a, b in itertools.combinations(values, 2) if _derives(a, b, value) for v in (a, b)}
        listed = isinstance(value, int) and 2 <= value <= _SMALL and _all_used(template)
        # a step that was not written: the value derives from a result and a number of the question
        unwritten = any(_derives(r, v.value, value) for r in template.results[:-1] for v in template.variables)
        if not origins and (unwritten or not listed):
            raise NotAugmentable(templates.UNKNOWN)
        if any(one.literals == (one.result,) and program.value_of(one.result) == value for one in template.programs):
            raise NotAugmentable(templates.UNKNOWN)  # <<6=6>>: solved in words
        found |= origins
    return found


def _derives(a: Value, b: Value, value: Value) -> bool:
    if value in (a + b, a * b, a - b, b - a):
        return True
    return a == value * b or b == value * a


def _all_used(template: Template) -> bool:
    needed = {program.value_of(literal) for step in template.programs for literal in step.literals}
    return all(any(CONVERSIONS[s](v.value) in needed for s in conversions_of(template, v)) for v in template.variables)


def _drop_unused(template: Template, used: Sequence[int], sources: tuple[tuple[OperandSource, ...], ...]) -> Template:
    place = {old: new for new, old in enumerate(used)}
    renumbered = tuple(
        tuple(OperandSource(s.constant, place[s.variable], s.conversion) if s.variable >= 0 else s for s in step)
        for step in sources
    )
    variables = tuple(template.variables[i] for i in used)
    return Template(template.example, template.mentions, variables, template.programs, renumbered, template.results)


def _check_fixed_numbers(template: Template) -> None:
    """Check that no fixed number of the question depends on the resampled ones."""
    drawn = [v.value for v in template.variables]
    bound = {i for v in template.variables for i in v.mentions}
    idle = [m for i, m in enumerate(template.mentions) if i not in bound and m.kind != "time" and m.value > 1]
    made = {op for a, b in itertools.combinations(drawn, 2) for op in (a + b, abs(a - b))}
    made |= {v + d for v in drawn for d in (1, -1, 2, -2)}
    needed = {program.value_of(literal) for step in template.programs for literal in step.literals}
    for mention in idle:
        names = CONVERSIONS if mention.kind == "percent" or mention.cents else ("",)
        if mention.free and not any(CONVERSIONS[name](mention.value) in needed for name in names):
            raise NotAugmentable(templates.IDLE)
        if mention.value not in needed and "ratio" in template.example.question:
            raise NotAugmentable(templates.IDLE)
        # if a step uses the number, it counts as restated only if it is too large for a coincidence
        sure = mention.value not in needed or mention.value >= _SMALL
        if sure and (mention.value in template.results or mention.value in made):
            raise NotAugmentable(templates.RESTATED)
    parts = [m.value for m in template.mentions if m.kind == "percent"]
    if len(parts) > 1 and sum(parts) == 100:
        raise NotAugmentable(templates.RESTATED)
    added = {frozenset(s.variable for s in step) for step in template.sources}
    for (i, a), (j, b), (k, c) in itertools.combinations(sorted(enumerate(drawn), key=lambda pair: pair[1]), 3):
        if (
            c >= _SMALL
            and a + b == c
            and frozenset((i, j)) not in added
            and not any(template.variables[n].percent for n in (i, j, k))
        ):
            raise NotAugmentable(templates.RESTATED)
