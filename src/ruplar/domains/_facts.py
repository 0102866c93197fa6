"""Text of simple logic → facts: `Tom is a terpus.`, `Every terpus is a brimpus.`; and facts → their consequences."""

import re
from collections.abc import Iterable
from typing import NamedTuple

_WORD = r"[A-Za-z][\w'-]*"
_FACT = re.compile(
    rf"(?P<every>(?:every|each|any)\s+)?(?P<subject>{_WORD})\s+is\s+(?:an?\s+)?(?P<concept>{_WORD})\s*\.?",
    re.IGNORECASE,
)
_ASK = re.compile(
    rf"Is\s+(?P<who>{_WORD})\s+(?:either\s+)?an?\s+(?P<one>{_WORD})\s+or\s+(?:an?\s+)?(?P<other>{_WORD})\s*\?",
    re.IGNORECASE,
)
_OPEN = re.compile(rf"What\s+is\s+(?P<who>{_WORD})\s*\?", re.IGNORECASE)


class Fact(NamedTuple):
    """One statement; `subject` is a concept if `every` is set, else a name."""

    subject: str
    concept: str
    every: bool

    def __str__(self) -> str:
        # ProsQA writes `a impus`, so the article is always `a`
        return f"{'Every ' if self.every else ''}{self.subject} is a {self.concept}"


class Query(NamedTuple):
    """What a question asks: `Is Tom a lempus or scrompus?`, `Is Tom either a lempus or a scrompus?`, or `What is Tom?`.

    If a question has several subjects, the answer is about the last one (`who`); `before` are the others.
    """

    who: str
    one: str = ""
    other: str = ""
    before: tuple[str, ...] = ()


def read(text: str) -> Fact | None:
    """One sentence → its fact; None if it is not a fact."""
    found = _FACT.fullmatch(text.strip())
    return Fact(found["subject"], found["concept"], bool(found["every"])) if found else None


def sentences(text: str) -> list[str]:
    """Text → its sentences, each with its punctuation mark."""
    return [s for s in re.split(r"(?<=[.?!])\s+", text.strip()) if s]


def parse_question(question: str) -> tuple[list[Fact], Query | None]:
    """Question → the facts it states, and what it asks; None if that has no known form."""
    found = [fact for sentence in sentences(question) if (fact := read(sentence))]
    if ask := _ASK.search(question):
        return found, Query(ask["who"], ask["one"], ask["other"])
    *before, who = [ask["who"] for ask in _OPEN.finditer(question)] or [""]
    return found, Query(who, before=tuple(before)) if who else None


def follows(who: str, facts: Iterable[Fact]) -> set[str]:
    """Return every concept that the facts imply for `who`."""
    by_subject: dict[str, list[str]] = {}
    for fact in facts:
        by_subject.setdefault(fact.subject, []).append(fact.concept)
    found: set[str] = set()
    waiting = list(by_subject.get(who, ()))
    while waiting:
        concept = waiting.pop()
        if concept not in found:
            found.add(concept)
            waiting += by_subject.get(concept, ())
    return found
