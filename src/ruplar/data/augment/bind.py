"""Example → its template: which numbers of the text feed which operands of which steps, or why that cannot be told.

An operand is a number of the text (as it stands, or the share a percentage makes), the result of an earlier step, or a
constant. Where two readings are possible, the numbers between which they differ stay as they are, so that both come to
the same; where even that does not help, the example is left out. So a template may say less than it could, but what it says
holds whatever numbers are drawn.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction

from ruplar.data.augment import facts, mentions, program, reading
from ruplar.data.augment.mentions import Mention, Value, whole
from ruplar.data.augment.program import Program
from ruplar.data.augment.template import (
    IDLE,
    INEXACT,
    NO_NUMBER,
    NO_STEP,
    NOT_LAST,
    NOT_PLAIN,
    RESTATED,
    SHARES,
    TIME,
    UNKNOWN,
    UNWRITTEN,
    Source,
    Template,
    Unbound,
    Variable,
    shares_of,
)
from ruplar.types import Example

_SMALL, _LISTED = 10, 6
_BARE = re.compile(r"=\s*[$€£]?\s*(\d[\d,]*\.?\d*|\.\d+)")


def bind(example: Example) -> Template:
    """Example → template.

    Raises:
        Unbound: It has none, for one of the reasons above.
    """
    programs = tuple(_programs(example))
    results = _results(programs)
    if not results:
        raise Unbound(NO_STEP)
    if results[-1] != _answer(example):
        raise Unbound(NOT_LAST)
    found = tuple(mentions.find(example.question))
    constants = facts.implied(example.question) | {m.value for m in found if m.kind == "fixed"}
    constants |= set(_averages(programs, results)) | _listed(found)
    needed = {program.value_of(literal) for step in programs for literal in step.literals}
    if (needed - set(results)) & set(_bare(example.chain)):
        raise Unbound(UNWRITTEN)
    frozen: set[Value] = set(constants)
    while True:
        template = Template(example, found, _variables(found, frozen), programs, (), results)
        lost = _unexplained(template, needed, constants)
        if lost:
            frozen |= _makers(template, lost, constants)
            constants |= lost
            continue
        if not template.variables:
            raise Unbound(NO_NUMBER)
        sources = reading.read(template, constants)
        misused = reading.misused(template, sources)
        if not misused:
            break
        frozen |= misused
        constants |= misused
    used = sorted({source.variable for step in sources for source in step if source.variable >= 0})
    if not used:
        raise Unbound(NO_NUMBER)
    linked = {source.step for step in sources for source in step}
    if any(at not in linked for at in range(len(results) - 1)):
        raise Unbound(UNWRITTEN)
    bound = _keep(template, used, sources)
    _check_free(bound)
    return bound


def _programs(example: Example) -> Iterator[Program]:
    for step in example.steps:
        parsed = program.parse(step)
        if parsed is None:
            raise Unbound(NOT_PLAIN)
        yield parsed


def _results(programs: Sequence[Program]) -> tuple[Value, ...]:
    found = []
    for step in programs:
        value = step.run([program.value_of(literal) for literal in step.literals])
        if value is None or value != program.value_of(step.result) or value <= 0:
            raise Unbound(INEXACT)
        found.append(value)
    return tuple(found)


def _bare(chain: str) -> Iterator[Value]:
    """Results of equations that stand in a chain's prose and in none of its steps."""
    outside = re.sub(r"<<.*?>>\s*[$€£]?\s*[\d.,]*", " ", chain)
    for match in _BARE.finditer(outside):
        yield program.value_of(match[1].replace(",", "").rstrip("."))


def _answer(example: Example) -> Value | None:
    try:
        return whole(Fraction(example.answer.replace(",", "").replace("$", "")))
    except (ValueError, ZeroDivisionError):
        return None


def _averages(programs: Sequence[Program], results: Sequence[Value]) -> Iterator[Value]:
    """How many were added up, where their sum is then divided by just that: a count of lines, not a number of the text."""
    for step, result in zip(programs, results, strict=True):
        count = len(step.literals)
        adds = count > 1 and set(step.code) - set(range(count)) == {"+"}
        for later in programs:
            if adds and later.code == (0, 1, "/") and program.value_of(later.literals[0]) == result:
                yield count


def _variables(found: Sequence[Mention], frozen: set[Value]) -> tuple[Variable, ...]:
    """Free mentions by value, percentages apart; those that could be taken for a constant stay as they are."""
    groups: dict[tuple[Value, bool], list[int]] = {}
    for i, mention in enumerate(found):
        if mention.free and mention.value not in frozen:
            groups.setdefault((mention.value, mention.kind == "percent"), []).append(i)
    return tuple(Variable(value, percent, tuple(at)) for (value, percent), at in groups.items())


def _listed(found: Sequence[Mention]) -> set[Value]:
    """Small numbers said of several things: of `3 times as many` and `the three boys` one may count what the text lists."""
    small = [m for m in found if m.free and m.value <= _LISTED]
    return {m.value for m in small if len({n.unit for n in small if n.value == m.value}) > 1}


def _unexplained(template: Template, needed: set[Value], constants: set[Value]) -> set[Value]:
    """Operands that are neither in the text nor a result nor a known constant."""
    given = {SHARES[share](v.value) for v in template.variables for share in shares_of(template, v)}
    return needed - given - set(template.results) - constants


def _makers(template: Template, lost: set[Value], constants: set[Value]) -> set[Value]:
    """The numbers of the text that could have made each lost operand in the writer's head: they must stay.

    A number up to 10 that none of them makes counts what the text lists (three names, two kinds), if the text leaves no
    number unused.

    Raises:
        Unbound: An operand cannot be explained.
    """
    values = [v.value for v in template.variables]
    found: set[Value] = set()
    for value in lost:
        if any(m.kind == "time" and m.value == value for m in template.mentions):
            raise Unbound(TIME)
        makers = {v for v in values if any(_makes(v, c, value) for c in {*constants, 7, 12, 24, 60, 100})}
        makers |= {v for a, b in itertools.combinations(values, 2) if _makes(a, b, value) for v in (a, b)}
        listed = isinstance(value, int) and 2 <= value <= _SMALL and _all_used(template)
        if not makers and not (listed and not _from_result(template, value)):
            raise Unbound(UNKNOWN)
        if any(
            step.literals == (step.result,) and program.value_of(step.result) == value for step in template.programs
        ):
            raise Unbound(UNKNOWN)  # <<6=6>>: solved in words
        found |= makers
    return found


def _makes(a: Value, b: Value, value: Value) -> bool:
    if value in (a + b, a * b, a - b, b - a):
        return True
    return a == value * b or b == value * a


def _all_used(template: Template) -> bool:
    needed = {program.value_of(literal) for step in template.programs for literal in step.literals}
    return all(any(SHARES[s](v.value) in needed for s in shares_of(template, v)) for v in template.variables)


def _from_result(template: Template, value: Value) -> bool:
    """Whether a result and a number of the text make the value: a step that was not written down."""
    return any(_makes(r, v.value, value) for r in template.results[:-1] for v in template.variables)


def _keep(template: Template, used: Sequence[int], sources: tuple[tuple[Source, ...], ...]) -> Template:
    """The template with only the variables that feed a step, numbered anew."""
    place = {old: new for new, old in enumerate(used)}
    renumbered = tuple(
        tuple(Source(s.constant, place[s.variable], s.share) if s.variable >= 0 else s for s in step)
        for step in sources
    )
    variables = tuple(template.variables[i] for i in used)
    return Template(template.example, template.mentions, variables, template.programs, renumbered, template.results)


def _check_free(template: Template) -> None:
    """A number of the text that follows from those drawn again would contradict them.

    Raises:
        Unbound: There is one.
    """
    drawn = [v.value for v in template.variables]
    bound = {i for v in template.variables for i in v.mentions}
    idle = [m for i, m in enumerate(template.mentions) if i not in bound and m.kind != "time" and m.value > 1]
    made = {op for a, b in itertools.combinations(drawn, 2) for op in (a + b, abs(a - b))}
    made |= {v + d for v in drawn for d in (1, -1, 2, -2)}
    needed = {program.value_of(literal) for step in template.programs for literal in step.literals}
    for mention in idle:
        shares = SHARES if mention.kind == "percent" or mention.cents else ("",)
        if mention.free and not any(SHARES[share](mention.value) in needed for share in shares):
            raise Unbound(IDLE)
        if mention.value not in needed and "ratio" in template.example.question:
            raise Unbound(IDLE)
        # a number that a step uses is no restatement unless it is large enough not to be a coincidence
        sure = mention.value not in needed or mention.value >= _SMALL
        if sure and (mention.value in template.results or mention.value in made):
            raise Unbound(RESTATED)
    parts = [m.value for m in template.mentions if m.kind == "percent"]
    if len(parts) > 1 and sum(parts) == 100:
        raise Unbound(RESTATED)
    added = {frozenset(s.variable for s in step) for step in template.sources}
    for (i, a), (j, b), (k, c) in itertools.combinations(sorted(enumerate(drawn), key=lambda pair: pair[1]), 3):
        if c >= _SMALL and a + b == c and frozenset((i, j)) not in added and not {i, j, k} & _percents(template):
            raise Unbound(RESTATED)


def _percents(template: Template) -> set[int]:
    return {i for i, v in enumerate(template.variables) if v.percent}
