"""Lookups: one path per person, and splits share no conclusion."""

from dataclasses import replace

import pytest

from ruplar.data.sources import GeneratedProblems, SourceConfig
from ruplar.domains import _facts
from ruplar.errors import UserError
from ruplar.problems.logic_lookups import generate, verify


def test_every_chain_follows_from_its_question_and_is_the_only_one():
    for example in generate(400, 5):
        assert verify(example) is None
        facts, query = _facts.parse_question(example.question)
        by_subject = {fact.subject: fact for fact in facts}
        assert len(by_subject) == len(facts)  # nobody and nothing is two things: there is no choice on the way
        walked = []
        for at in (*query.before, query.who):
            while at in by_subject:
                walked.append(f"{by_subject[at]}.")
                at = by_subject[at].concept
        assert tuple(walked) == example.steps and example.answer == f"{query.who} is a {at}."


def test_a_mistake_in_a_chain_is_reported():
    example = next(e for e in generate(200, 5) if e.question.count("What is") == 2 and len(e.steps) == 5)
    query, last = _facts.parse_question(example.question)[1], _facts.read(example.steps[-1])
    (first,) = query.before
    assert "does not end in" in verify(
        replace(example, steps=example.steps[:-1], answer=f"{query.who} is a {last.subject}.")
    )
    ways = {True: example.steps, False: tuple(s for s in example.steps if not s.startswith(first))}
    assert verify(replace(example, steps=ways[True])) is None
    assert f"but the question is about {first}" in verify(replace(example, steps=ways[False]))
    later = next(i for i, step in enumerate(example.steps) if i and not step.startswith("Every"))
    assert "does not mention" in verify(replace(example, steps=example.steps[:later]))


def test_no_conclusion_is_in_two_splits():
    def concluded(part):
        for example in generate(300, 1, split=part):
            ends = {fact.subject: fact.concept for fact in _facts.parse_question(example.question)[0]}
            for name in (fact.subject for fact in _facts.parse_question(example.question)[0] if not fact.every):
                at = name
                while at in ends:
                    at = ends[at]
                yield f"{name} is a {at}"

    parts = {part: set(concluded(part)) for part in ("train", "valid", "test")}
    assert (
        not parts["train"] & parts["valid"]
        and not parts["train"] & parts["test"]
        and not parts["valid"] & parts["test"]
    )
    some = GeneratedProblems(SourceConfig(source="logic-lookups", count=9, seed=4, steps=(2, 3)), "train")
    assert some[7] == list(some)[7] and all(len(e.steps) >= 4 for e in some)


def test_bounds_without_a_graph_in_the_split_are_refused_instead_of_searched_for_ever():
    found = {}
    for split in ("train", "valid", "test"):
        for most in (1, 2, 3):
            try:
                found[split, most] = next(generate(1, 1, steps=(most, most), split=split))
            except UserError as error:
                assert f"in the split '{split}'" in str(error)
    # five graphs each, of which the smallest parts have none
    assert {("train", 1), ("train", 2), ("train", 3)} <= set(found) and ("test", 1) not in found
    for split in ("train", "valid", "test"):
        assert next(generate(1, 1, split=split))


def test_impossible_bounds_are_refused():
    with pytest.raises(UserError, match="1 to 3 steps"):
        generate(1, 1, steps=(6, 7))
