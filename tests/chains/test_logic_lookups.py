"""The generator of lookups: one way from who is asked about, and nothing of the test in the training."""

import pytest

from ruplar.chains.logic_lookups import generate, verify
from ruplar.chains.sources import SourceConfig, WrittenProblems
from ruplar.domains import _facts
from ruplar.errors import UserError


def test_every_chain_follows_from_its_question_and_is_the_only_one():
    for example in generate(400, 5):
        assert verify(example) is None
        facts, asked = _facts.told(example.question)
        by_subject = {fact.subject: fact for fact in facts}
        assert len(by_subject) == len(facts)  # nobody and nothing is two things: there is no choice on the way
        at, walked = asked.who, []
        while at in by_subject:
            walked.append(f"{by_subject[at]}.")
            at = by_subject[at].concept
        assert tuple(walked) == example.steps and example.answer == f"{asked.who} is a {at}."


def test_an_answer_short_of_the_end_is_noticed():
    from dataclasses import replace

    example = next(e for e in generate(50, 5) if len(e.steps) == 3)
    before = _facts.read(example.steps[1]).concept
    who = _facts.told(example.question)[1].who
    assert "does not end in" in verify(replace(example, steps=example.steps[:2], answer=f"{who} is a {before}."))


def test_no_conclusion_is_in_two_parts_and_a_seed_stands_for_the_same_problems():
    parts = {part: {e.answer for e in generate(300, 1, split=part)} for part in ("train", "valid", "test")}
    assert (
        not parts["train"] & parts["valid"]
        and not parts["train"] & parts["test"]
        and not parts["valid"] & parts["test"]
    )
    some = WrittenProblems(SourceConfig(source="logic-lookups", count=9, seed=4, steps=(2, 3)), "train")
    assert some[7] == list(some)[7] and all(2 <= len(e.steps) <= 3 for e in some)


def test_a_length_that_does_not_exist_is_refused():
    with pytest.raises(UserError, match="1 to 5 steps"):
        generate(1, 1, steps=(6, 7))
