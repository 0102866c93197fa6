r"""Logic: deductions from one concept to the next, as in ProsQA: `Every terpus is a brimpus`.

A step is one fact; its result is the concept it concludes. `Every`, `is` and the article occur in every step and are not
symbols, so the symbols of `Every terpus is a brimpus.` are `terpus brimpus`, and its result is `brimpus`. Steps are inside
`<<…>>`, or are the sentences of a chain without these marks.

Whether a step may be used depends on the whole chain: `check_chain` follows the chain along the facts of the question. A
chain whose question cannot be parsed is not accepted as right. Two answers are the same if they conclude the same concept
about the same subject; a bare concept is short for the statement that concludes it.
"""

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from ruplar.domains import _facts, _markup
from ruplar.settings import Settings
from ruplar.types import Example

_SYMBOL = re.compile(r"[^\W_][\w'-]*|[^\s.,;]")
_FORM = frozenset({"every", "each", "any", "is", "a", "an"})


class Config(Settings):
    """No settings."""


@dataclass
class Domain:
    """Steps, symbols, results and answers of logic; see the module docstring."""

    config: Config

    EXAMPLE = (
        "<<Tom is a terpus.>> <<Every terpus is a brimpus.>> <<Every brimpus is a lempus.>>",
        "Tom is a lempus.",
    )
    REFUSES_WRONG: ClassVar[bool] = True

    def split(self, chain: str) -> list[str]:
        """Raw chain → the text inside each `<<…>>`, or its sentences if there is none."""
        if "<<" in chain:
            return _markup.steps(chain)
        return [sentence for sentence in _facts.sentences(chain) if _facts.read(sentence)]

    def symbols(self, step: str) -> list[str]:
        """Step → its content words in order, the concluded concept last: `Every terpus is a brimpus.` → `terpus brimpus`."""
        return [word for word in _SYMBOL.findall(step) if word.lower() not in _FORM]

    def result(self, step: str) -> list[str]:
        """Step → the concept it concludes; [] if it is not a fact."""
        fact = _facts.read(step)
        return [fact.concept] if fact else []

    def check(self, step: str) -> str | None:
        """Return an error for a tautology (`Every terpus is a terpus.`); the rest is left to `check_chain`."""
        fact = _facts.read(step)
        return f"{fact} is a tautology" if fact and fact.subject == fact.concept else None

    def unchecked(self, step: str) -> str | None:
        """Return why the step cannot be judged; None if it is a fact."""
        return None if _facts.read(step) else f"'{step}' is not a fact such as 'Every terpus is a brimpus.'"

    def unchecked_chain(self, example: Example) -> str | None:
        """Return why chains cannot be checked against the question: it has no known form, or no facts; None if they can."""
        facts, query = _facts.parse_question(example.question)
        if query is None:
            last = (_facts.sentences(example.question) or [""])[-1]
            return f"the chain cannot be checked: '{last}' is not a question such as 'Is Tom a lempus or a scrompus?' or 'What is Tom?'"
        return None if facts else "the chain cannot be checked: the question has no facts"

    def check_chain(self, example: Example) -> list[str]:
        """Follow the chain along the facts of its question → its errors, one sentence each; also if it cannot be followed."""
        facts, query = _facts.parse_question(example.question)
        unread = self.unchecked_chain(example)
        found = [unread] if unread else []
        if query is None:
            return found
        subject, _ = _concluded(example.answer)
        if subject not in ("", query.who):  # a bare concept refers to the question's subject
            found.append(f"the answer is about {subject}, but the question is about {query.who}")
        if unread:
            return found
        steps = [fact for step in example.steps if (fact := _facts.read(step))]
        if len(steps) != len(example.steps):  # `unchecked` reports which
            return found + _answer_faults(example.answer, [], facts, query)
        return found + _path_faults(steps, facts, query) + _answer_faults(example.answer, steps, facts, query)

    def scenario(self, question: str) -> str:
        """Return the premises of a question: its facts, sorted."""
        facts, _ = _facts.parse_question(question)
        return " ".join(sorted(f"{fact}." for fact in facts)) or question

    def extract(self, text: str) -> str | None:
        """Return the marked answer in generated text, or the text if it is a fact."""
        return _markup.extract(text, lambda answer: _facts.read(answer) is not None)

    def same(self, found: str, marked: str) -> bool:
        """Return whether two answers conclude the same concept about the same subject; a missing subject matches any."""
        (our_subject, ours), (their_subject, theirs) = _concluded(found), _concluded(marked)
        return ours == theirs and (our_subject == their_subject or not our_subject or not their_subject)


def _concluded(text: str) -> tuple[str, str]:
    """Statement or bare concept → (subject, concept); the subject is "" if there is none."""
    fact = _facts.read(text)
    if fact is not None:
        return f"every {fact.subject}" if fact.every else fact.subject, fact.concept
    return "", " ".join(text.split()).removesuffix(".")


def _path_faults(steps: list[_facts.Fact], facts: list[_facts.Fact], query: _facts.Query) -> list[str]:
    found = [f"'{fact}' is not a fact of the question" for fact in steps if fact not in facts]
    first, *others = *query.before, query.who
    if steps and steps[0].subject != first:
        found.append(f"the chain begins with {steps[0].subject}, but the question is about {first}")
    for before, after in pairwise(steps):
        if after.subject == before.concept:
            continue
        if others and after.subject == others[0]:  # the chain of the next one begins
            others.pop(0)
        else:
            found.append(f"'{after}' does not follow from {before.concept}")
    return found + [f"the chain does not mention {name}" for name in others]


def _answer_faults(answer: str, steps: list[_facts.Fact], facts: list[_facts.Fact], query: _facts.Query) -> list[str]:
    concept = _concluded(answer)[1]
    if query.one and concept not in (query.one, query.other):
        return [f"the answer is {concept}, but the question asks for {query.one} or {query.other}"]
    found = []
    if steps and steps[-1].concept != concept:
        found.append(f"the chain ends in {steps[-1].concept}, but the answer is {concept}")
    true = _facts.follows(query.who, facts)
    if concept not in true:
        found.append(f"that {query.who} is a {concept} does not follow from the question")
    if not query.one:
        return found + [f"the chain does not end in {concept}: '{fact}'" for fact in facts if fact.subject == concept]
    other = query.other if concept == query.one else query.one
    if other in true:
        found.append(f"that {query.who} is a {other} follows as well")
    return found
