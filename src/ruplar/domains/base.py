"""What a domain must say: what a step, its symbols, its result and a right answer are."""

from __future__ import annotations

from typing import Any, Protocol

from ruplar.types import Example


class Domain(Protocol):
    """A field of reasoning. All methods are pure functions of text.

    `EXAMPLE` is a chain of the domain with its answer, used by the contract tests and by `ruplar list`.

    A domain may also define `marked(answer)`: a data set's marked answer → the form it is taught and compared in, say
    `12 apples` → `12`; without it answers stay as they are written. And `operations(step)`: a step → the smaller steps it is
    made of, `16-3-4=9` → `16-3=13`, `13-4=9`; without it a step is as small as it gets.
    """

    EXAMPLE: tuple[str, str]

    def split(self, chain: str) -> list[str]:
        """Raw chain → the text of each step in order, markup removed; [] when there is none."""

    def symbols(self, step: str) -> list[str]:
        """Step → its symbols in order and with repeats, the result's own included."""

    def result(self, step: str) -> list[str]:
        """Step → the symbols of its result, in order; [] when it states none."""

    def check(self, step: str) -> str | None:
        """What is wrong with the step when it is carried out again, e.g. `3+4 is 7, not 8`; None when right or not checkable."""

    def unchecked(self, step: str) -> str | None:
        """Why `check` has no verdict on the step, e.g. `'apples' is no number`; None when it carries the step out again."""

    def extract(self, text: str) -> str | None:
        """The answer in generated text, or None when there is none to be read. Never a guess."""

    def same(self, found: str, marked: str) -> bool:
        """Whether two answers are the same thing."""


class WholeChains(Protocol):
    """What a domain may say beyond single steps. Each is optional: a domain without it has no such view.

    Attributes:
        REFUSES_WRONG: Whether a chain that does not re-execute, or does not end in its marked answer, is a bad row of a
            training set, rather than only listed by `ruplar data check`.
    """

    REFUSES_WRONG: bool

    def check_chain(self, example: Example) -> list[str]:
        """What is wrong with a chain in view of its question and answer, a sentence each; single steps are `check`'s."""

    def unchecked_chain(self, example: Example) -> str | None:
        """Why no step of the chain can be judged, e.g. that its question cannot be read; None when `check_chain` judges it."""

    def scenario(self, question: str) -> str:
        """What a question tells before it asks: questions that tell the same must not be divided over two sets."""


def faults(domain: Any, example: Example) -> list[str]:
    """Everything wrong with an example: its steps carried out again, the chain as a whole, its end; [] when nothing is."""
    found = [f"{step}: {wrong}" for step in example.steps if (wrong := domain.check(step))]
    whole = getattr(domain, "check_chain", None)
    found += whole(example) if whole is not None else []
    if not found and example.steps and not ends_as_marked(domain, example):
        found.append(how_it_ends(domain, example))
    return found


def ends_as_marked(domain: Any, example: Example) -> bool:
    """Whether the last step's result is the marked answer; a chain without a step, or whose last states no result, does not."""
    last = domain.result(example.steps[-1]) if example.steps else []
    # symbols of one domain are written together, of another with spaces
    return bool(last) and any(domain.same(space.join(last), example.answer) for space in ("", " "))


def how_it_ends(domain: Any, example: Example) -> str:
    """`ends in 8, as marked`, `ends in 8, marked 9` or `ends in no result, marked 9`."""
    last = domain.result(example.steps[-1]) if example.steps else []
    marked = "as marked" if ends_as_marked(domain, example) else f"marked {example.answer}"
    return f"ends in {' '.join(last) or 'no result'}, {marked}"
