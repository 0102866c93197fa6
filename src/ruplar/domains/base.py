"""What a domain must say: what a step, its symbols, its result and a right answer are."""

from __future__ import annotations

from typing import Protocol


class Domain(Protocol):
    """A field of reasoning. All methods are pure functions of text.

    `EXAMPLE` is a chain of the domain with its answer, used by the contract tests and by `ruplar list`.
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

    def extract(self, text: str) -> str | None:
        """The answer in generated text, or None when there is none to be read. Never a guess."""

    def same(self, found: str, marked: str) -> bool:
        """Whether two answers are the same thing."""
