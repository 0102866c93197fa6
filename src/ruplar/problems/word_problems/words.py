"""Word lists of the word problems, loaded from `words.yaml`: names, things, and the numbers that words denote."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ruplar.problems.data_files import frozen, load

FOLDER = Path(__file__).parent


class Person(NamedTuple):
    """A name and the pronouns that go with it."""

    name: str
    he: str
    him: str
    his: str


class Holder(NamedTuple):
    """Something that holds things: its singular, its plural, and the preposition before it."""

    one: str
    many: str
    put: str


def people(women: Iterable[str], men: Iterable[str]) -> tuple[Person, ...]:
    """Names → persons with their pronouns, the women first."""
    return (*(Person(n, "she", "her", "her") for n in women), *(Person(n, "he", "him", "his") for n in men))


WORDS: dict[str, Any] = frozen(load(FOLDER / "words.yaml"))
"""List name → words. Templates draw from these with `pick(name)`."""

PEOPLE = people(WORDS["women"], WORDS["men"])
"""The names are few on purpose: each is one token of the embedded tokenizer, and a tiny model sees it often."""

DISTRACTORS: tuple[str, ...] = WORDS["distractors"]
"""Sentences with a number that has nothing to do with the question; `{a}` is the main person."""

DIGIT_WORDS: tuple[str, ...] = WORDS["digits"]

HOLDERS = tuple(Holder(*one) for one in WORDS["holders"])


def listing(items: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
