"""The interface of a domain: steps, their symbols and results, and answers."""

from typing import Any, Protocol

from ruplar.types import Example, Score


class Domain(Protocol):
    """A field of reasoning. All methods are pure functions of text.

    `EXAMPLE` is a chain of the domain and its answer, shown in error messages and used by the contract tests.

    Optional members: `marked(answer)` converts the marked answer of a dataset to the form it is trained and compared in, e.g.
    `12 apples` → `12`. `operations(step)` splits a step into one step per operation, e.g. `16-3-4=9` → `16-3=13`, `13-4=9`.
    `check_chain(example)` returns the errors of a chain given its question and answer; single steps are left to `check`.
    `unchecked_chain(example)` returns why `check_chain` cannot judge it, or None. `scenario(question)` returns the premises of a
    question: questions with the same premises must be in the same split. With `REFUSES_WRONG`, a chain with a wrong step, or
    one that does not end in its marked answer, is a bad row of a training set.
    """

    EXAMPLE: tuple[str, str]

    def split(self, chain: str) -> list[str]:
        """Raw chain → the text of each step in order, without markup; [] if there is none."""

    def symbols(self, step: str) -> list[str]:
        """Step → its symbols in order, with repeats, including those of the result."""

    def result(self, step: str) -> list[str]:
        """Step → the symbols of its result, in order; [] if it has none."""

    def check(self, step: str) -> str | None:
        """Recompute the step → its error, e.g. `3+4 is 7, not 8`; None if it is right or cannot be checked."""

    def unchecked(self, step: str) -> str | None:
        """Return why `check` cannot judge the step, e.g. `'apples' cannot be evaluated`; None if it can."""

    def extract(self, text: str) -> str | None:
        """Return the answer in generated text, or None; nothing is guessed."""

    def same(self, found: str, marked: str) -> bool:
        """Return whether two answers are the same."""


def grade(text: str, marked: str, domain: Domain) -> Score:
    """Grade one answer; one that cannot be parsed is wrong, and `found` is None."""
    found = domain.extract(text)
    return Score(found is not None and domain.same(found, marked), found)


def faults(domain: Any, example: Example) -> list[str]:
    """Return all errors of an example: in its steps, in the chain as a whole, and in its last result."""
    found = [f"{step}: {wrong}" for step in example.steps if (wrong := domain.check(step))]
    check_chain = getattr(domain, "check_chain", None)
    found += check_chain(example) if check_chain is not None else []
    if not found and example.steps and not ends_as_marked(domain, example):
        found.append(how_it_ends(domain, example))
    return found


def ends_as_marked(domain: Any, example: Example) -> bool:
    """Return whether the result of the last step is the marked answer; False without a step or a result."""
    last = domain.result(example.steps[-1]) if example.steps else []
    # some domains join symbols without spaces, some with spaces
    return bool(last) and any(domain.same(space.join(last), example.answer) for space in ("", " "))


def how_it_ends(domain: Any, example: Example) -> str:
    """`ends in 8, as marked`, `ends in 8, but the answer is 9` or `ends in no result, but the answer is 9`."""
    last = domain.result(example.steps[-1]) if example.steps else []
    marked = "as marked" if ends_as_marked(domain, example) else f"but the answer is {example.answer}"
    return f"ends in {' '.join(last) or 'no result'}, {marked}"
