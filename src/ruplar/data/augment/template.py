"""What an example without its numbers is, and why an example may have no such form: the nouns of augmentation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ruplar.data.augment.mentions import Mention, Value, whole
from ruplar.data.augment.program import Program
from ruplar.types import Example

NOT_PLAIN = "a step is not plain arithmetic"
INEXACT = "a step is rounded or wrong"
NO_STEP = "it has no step"
NOT_LAST = "the last step is not the answer"
NO_NUMBER = "no number of the text can be drawn again"
UNKNOWN = "an operand comes from nowhere"
TIME = "a date or a time of day feeds the chain"
AMBIGUOUS = "an operand may come from two places"
RESTATED = "a number of the text follows from others"
UNWRITTEN = "a step is missing from the chain"
IDLE = "a number of the text is not used"
"""Why an example gives no template."""


SHARES: dict[str, Callable[[Value], Value]] = {
    "": lambda v: v,
    "%": lambda v: whole(Fraction(v) / 100),
    "100-": lambda v: 100 - v,
    "1-%": lambda v: whole(1 - Fraction(v) / 100),
    "1+%": lambda v: whole(1 + Fraction(v) / 100),
    "100+": lambda v: 100 + v,
}
"""What a chain may make of a number of the text without a step of its own."""


class Unbound(Exception):
    """The example gives no template; its argument is one of the reasons above."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where an operand comes from: exactly one of the three.

    Attributes:
        constant: A number that stays.
        variable: Which number of the text, by its place in `Template.variables`.
        share: What is made of it, a key of `SHARES`.
        step: Which earlier step's result.
    """

    constant: Value | None = None
    variable: int = -1
    share: str = ""
    step: int = -1


@dataclass(frozen=True, slots=True)
class Variable:
    """A number of the text that is drawn again; it may stand in several places."""

    value: Value
    percent: bool
    mentions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Template:
    """An example with its numbers taken out.

    Attributes:
        example: What it was made of.
        mentions: Every number of the question.
        variables: Those that can be drawn again.
        programs: The steps.
        sources: For each step, where its operands come from.
        results: What the steps come to in the example.
    """

    example: Example
    mentions: tuple[Mention, ...]
    variables: tuple[Variable, ...]
    programs: tuple[Program, ...]
    sources: tuple[tuple[Source, ...], ...]
    results: tuple[Value, ...]

    def run(self, values: Sequence[Value], sources: Sequence[Sequence[Source]] | None = None) -> list[Value | None]:
        """Carry all steps out on other numbers; None from the first that cannot be."""
        found: list[Value | None] = []
        for step, operands in zip(self.programs, sources or self.sources, strict=True):
            taken = [take(source, values, found) for source in operands]
            found.append(None if None in taken else step.run(taken))  # type: ignore[arg-type]
        return found


def take(source: Source, values: Sequence[Value], results: Sequence[Value | None]) -> Value | None:
    """What a source gives, with these numbers in the text and these results so far."""
    if source.constant is not None:
        return source.constant
    return results[source.step] if source.step >= 0 else SHARES[source.share](values[source.variable])


def shares_of(template: Template, variable: Variable) -> Iterator[str]:
    """What a step may make of a variable: every share of a percentage, dollars of cents."""
    if variable.percent:
        yield from SHARES
    else:
        yield ""
        if any(template.mentions[i].cents for i in variable.mentions):
            yield "%"
