r"""Logic: deductions from one concept to the next, as in ProsQA: `Every terpus is a brimpus`.

A step is one fact used: its inputs are what stands before `is`, its result is the concept concluded. `Every`, `is` and the article
are the form of every step and no symbols of it; so the symbols of `Every terpus is a brimpus.` are `terpus brimpus`, and the
result is `brimpus`. Steps stand in `<<…>>`, or are the sentences of a chain without such marks.

A step alone is right when it is a fact; whether it may be used is a matter of the whole chain: `check_chain` draws the graph of
the question's facts and follows the chain along it; a chain whose question cannot be read is not taken for right. Two answers are
the same when they conclude the same of the same; a bare concept stands for the statement that concludes it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from ruplar.domains import _facts
from ruplar.domains._answer_text import after_hashes, boxed
from ruplar.settings import Settings
from ruplar.types import Example

_STEP = re.compile(r"<<(?!<)(.*?)>>", re.DOTALL)
_SYMBOL = re.compile(r"[^\W_][\w'-]*|[^\s.,;]")
_FORM = frozenset({"every", "each", "any", "is", "a", "an"})


class Config(Settings):
    """Nothing to set."""


@dataclass
class Domain:
    """What a step, its symbols, its result and a right answer are in logic. See the module's docstring."""

    config: Config

    EXAMPLE = (
        "<<Tom is a terpus.>> <<Every terpus is a brimpus.>> <<Every brimpus is a lempus.>>",
        "Tom is a lempus.",
    )
    REFUSES_WRONG: ClassVar[bool] = True

    def split(self, chain: str) -> list[str]:
        """Raw chain → its steps: the text inside each `<<…>>`, or its sentences where there is none."""
        if "<<" in chain:
            return [step for found in _STEP.findall(chain) if (step := found.strip())]
        return [sentence for sentence in _facts.sentences(chain) if _facts.read(sentence)]

    def symbols(self, step: str) -> list[str]:
        """Step → its content words in order, the concluded concept last: `Every terpus is a brimpus.` → `terpus brimpus`."""
        return [word for word in _SYMBOL.findall(step) if word.lower() not in _FORM]

    def result(self, step: str) -> list[str]:
        """Step → the concept it concludes; [] when it is no fact."""
        fact = _facts.read(step)
        return [fact.concept] if fact else []

    def check(self, step: str) -> str | None:
        """A fact that says nothing (`Every terpus is a terpus.`) is wrong; all else is a matter of the whole chain."""
        fact = _facts.read(step)
        return f"{fact} says nothing" if fact and fact.subject == fact.concept else None

    def unchecked(self, step: str) -> str | None:
        """Why the step cannot be judged; None when it is a fact."""
        return None if _facts.read(step) else f"'{step}' is no fact such as 'Every terpus is a brimpus.'"

    def unchecked_chain(self, example: Example) -> str | None:
        """Why no chain can be followed along the question; None when one can: it tells facts, and who and what it asks is read."""
        facts, asked = _facts.told(example.question)
        if asked is None:
            last = (_facts.sentences(example.question) or [""])[-1]
            return f"the chain cannot be followed: '{last}' is no question such as 'Is Tom a lempus or a scrompus?' or 'What is Tom?'"
        return None if facts else "the chain cannot be followed: the question tells no fact"

    def check_chain(self, example: Example) -> list[str]:
        """Follow the chain along the facts of its question; what is wrong, a sentence each. One that cannot be followed is not right."""
        facts, asked = _facts.told(example.question)
        unread = self.unchecked_chain(example)
        found = [unread] if unread else []
        if asked is None:
            return found
        found += _subject_faults(example.answer, asked)
        if unread:
            return found
        steps = [fact for step in example.steps if (fact := _facts.read(step))]
        if len(steps) != len(example.steps):  # `unchecked` tells which
            return found + _answer_faults(example.answer, [], facts, asked)
        return found + _path_faults(steps, facts, asked) + _answer_faults(example.answer, steps, facts, asked)

    def scenario(self, question: str) -> str:
        """What a question tells before it asks: its facts, whatever their order."""
        facts, _ = _facts.told(question)
        return " ".join(sorted(f"{fact}." for fact in facts)) or question

    def extract(self, text: str) -> str | None:
        r"""The answer in generated text: the last `\boxed{…}`, what follows the last `####`, or the text if it is just a statement."""
        if r"\boxed{" in text:
            return boxed(text) or None
        if "####" in text:
            return after_hashes(text) or None
        text = text.strip()
        return text if _facts.read(text) is not None else None

    def same(self, found: str, marked: str) -> bool:
        """Whether two answers conclude the same concept of the same subject; a subject left out is the other's."""
        (our_subject, ours), (their_subject, theirs) = _concluded(found), _concluded(marked)
        return ours == theirs and (our_subject == their_subject or not our_subject or not their_subject)


def _concluded(text: str) -> tuple[str, str]:
    """A statement, or a bare concept → its subject, "" without one, and its concept; other words are all concept."""
    fact = _facts.read(text)
    if fact is not None:
        return f"every {fact.subject}" if fact.every else fact.subject, fact.concept
    return "", " ".join(text.split()).removesuffix(".")


def _subject_faults(answer: str, asked: _facts.Asked) -> list[str]:
    """What is wrong with whom the answer is about; a bare concept is about who is asked about."""
    subject, _ = _concluded(answer)
    return [f"the answer is about {subject}, but {asked.who} is asked about"] if subject not in ("", asked.who) else []


def _path_faults(steps: list[_facts.Fact], facts: list[_facts.Fact], asked: _facts.Asked) -> list[str]:
    """What is wrong with where the chain begins and how it goes on."""
    found = [f"'{fact}' is not told by the question" for fact in steps if fact not in facts]
    first, *others = *asked.before, asked.who
    if steps and steps[0].subject != first:
        found.append(f"the chain begins with {steps[0].subject}, but {first} is asked about")
    for before, after in pairwise(steps):
        if after.subject == before.concept:
            continue
        if others and after.subject == others[0]:  # the next one's way begins
            others.pop(0)
        else:
            found.append(f"'{after}' does not go on from {before.concept}")
    return found + [f"the chain says nothing of {name}" for name in others]


def _answer_faults(answer: str, steps: list[_facts.Fact], facts: list[_facts.Fact], asked: _facts.Asked) -> list[str]:
    """What is wrong with the answer and where the chain ends."""
    concept = _concluded(answer)[1]
    if asked.one and concept not in (asked.one, asked.other):
        return [f"the answer is {concept}, but the question asks for {asked.one} or {asked.other}"]
    found = []
    if steps and steps[-1].concept != concept:
        found.append(f"the chain ends in {steps[-1].concept}, but the answer is {concept}")
    true = _facts.follows(asked.who, facts)
    if concept not in true:
        found.append(f"that {asked.who} is a {concept} does not follow from the question")
    if not asked.one:
        return found + [f"the chain does not end in {concept}: '{fact}'" for fact in facts if fact.subject == concept]
    other = asked.other if concept == asked.one else asked.one
    if other in true:
        found.append(f"that {asked.who} is a {other} follows as well")
    return found
