"""The generator of logic problems: one concept follows, by one chain alone, and parts share neither graph nor conclusion.

What can be told of the two options without following facts is in test_logic_shortcuts.py.
"""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from ruplar.domains import _facts
from ruplar.errors import UserError
from ruplar.problems import logic_problems, logic_ways
from ruplar.problems.logic_problems import CONCEPTS, NAMES, Shape, fingerprint, generate, verify
from ruplar.problems.logic_problems.shape import draw


def test_every_chain_follows_the_facts_to_the_one_concept_that_is_true():
    wrong = [(e.question, e.chain, verify(e)) for e in generate(1000, 11) if verify(e)]
    assert wrong == []


def test_a_mistake_in_a_chain_is_noticed():
    e = next(generate(1, 3, steps=(3, 3)))
    assert verify(replace(e, steps=e.steps[:2])) and verify(replace(e, steps=()))
    assert verify(replace(e, steps=(*e.steps[:2], "Every terpus is a wumpus.")))


def test_the_chain_is_the_only_way_to_the_concept():
    for e in generate(300, 4):
        facts, asked = _facts.parse_question(e.question)
        for step in e.steps:  # without any one of its facts nothing is left to conclude it from
            fewer = [fact for fact in facts if fact != _facts.read(step)]
            assert _facts.read(e.answer).concept not in _facts.follows(asked.who, fewer)


def test_most_facts_lead_nowhere():
    found = list(generate(500, 5))
    used = sum(len(e.steps) for e in found)
    told = sum(len(_facts.parse_question(e.question)[0]) for e in found)
    assert 3 < told / used < 6


def test_neither_place_nor_order_tells_the_answer():
    first = Counter(
        _facts.parse_question(e.question)[1].one == _facts.read(e.answer).concept for e in generate(2000, 6)
    )
    # half of 2,000, give or take four standard errors: 4 * sqrt(0.25 * 2,000) = 89
    assert abs(first[True] - 1000) < 90


def test_of_somebody_else_the_other_concept_is_true_and_the_target_is_not():
    for e in generate(300, 9):
        facts, asked = _facts.parse_question(e.question)
        target = _facts.read(e.answer).concept
        other = asked.one if target == asked.other else asked.other
        assert any({target, other} & _facts.follows(name, facts) == {other} for name in NAMES if name != asked.who)


def test_a_problem_depends_on_seed_and_index_alone():
    whole = list(generate(30, 7))
    assert list(generate(30, 7)) == whole and list(generate(10, 7, start=20)) == whole[20:]
    assert list(generate(30, 8)) != whole
    assert whole[21].source == "logic-problems:7:21"


def test_parts_share_no_conclusion():
    parts = {part: {e.answer for e in generate(200, 1, split=part)} for part in ("train", "valid", "test")}
    assert not parts["train"] & (parts["valid"] | parts["test"]) and not parts["valid"] & parts["test"]


def shape_of(example):
    """The graph of a problem, read back from its words."""
    facts, asked = _facts.parse_question(example.question)
    words = list(dict.fromkeys(word for fact in facts for word in (fact.subject, fact.concept)))
    people = sorted((w for w in words if w in NAMES), key=lambda w: w != asked.who)
    target = _facts.read(example.answer).concept
    other = asked.one if target == asked.other else asked.other
    at = {word: i for i, word in enumerate(words)}
    edges = tuple((at[f.subject], at[f.concept]) for f in facts)
    return Shape(tuple(at[p] for p in people), len(words), edges, (at[asked.who], at[target]), at[other])


@pytest.mark.parametrize("source", [logic_problems, logic_ways], ids=["logic-problems", "logic-ways"])
def test_parts_share_no_graph_whatever_its_words(source):
    parts = {
        p: {fingerprint(shape_of(e)) for e in source.generate(200, 1, split=p)} for p in ("train", "valid", "test")
    }
    assert not parts["train"] & (parts["valid"] | parts["test"]) and not parts["valid"] & parts["test"]


def test_a_graph_has_one_fingerprint_however_its_nodes_are_numbered():
    rng = Random(0)
    for _ in range(50):
        shape = draw(rng, 3, 2)
        to = rng.sample(range(shape.size), shape.size)
        edges = [(to[a], to[b]) for a, b in shape.edges]
        rng.shuffle(edges)
        path = tuple(to[n] for n in shape.path)
        again = Shape(tuple(to[n] for n in shape.people), shape.size, tuple(edges), path, to[shape.other])
        assert fingerprint(again) == fingerprint(shape)
        assert fingerprint(replace(shape, other=shape.path[1])) != fingerprint(shape)


def test_a_graph_is_in_the_same_part_whichever_of_its_people_is_asked_about():
    rng = Random(1)
    for _ in range(50):
        shape = draw(rng, 2, 3)
        asked, other, third = shape.people
        exchanged = replace(shape, people=(other, asked, third), path=(other, shape.other), other=shape.path[-1])
        assert fingerprint(exchanged) == fingerprint(shape)


def test_the_words_are_those_of_prosqa(benchmark_data):
    import json

    rows = json.loads((benchmark_data("prosqa-valid") / "prosqa-valid.json").read_text())
    words = {w for row in rows for w in row["idx_to_symbol"]}
    assert words == {*NAMES, *CONCEPTS}


def test_steps_can_be_bounded_and_what_cannot_be_written_is_refused():
    assert {len(e.steps) for e in generate(30, 1, steps=(4, 6))} == {4, 5}
    assert {len(e.steps) for e in generate(10, 1, steps=(1, 1), split="test")} == {1}
    with pytest.raises(UserError, match="1 to 5 steps, not 6 to 9"):
        generate(1, 1, steps=(6, 9))
