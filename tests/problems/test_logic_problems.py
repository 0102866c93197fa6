"""Logic problems with forks: one concept follows, by one chain only, and splits share neither graph nor conclusion.

test_logic_shortcuts.py tests that nothing but following facts predicts the answer.
"""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from ruplar.domains import _facts
from ruplar.problems import logic_problems, logic_ways
from ruplar.problems.logic_graphs import Graph, draw, fingerprint
from ruplar.problems.logic_problems import CONCEPTS, NAMES, generate, verify


def test_every_chain_follows_the_facts_to_the_one_concept_that_is_true():
    wrong = [(e.question, e.chain, verify(e)) for e in generate(1000, 11) if verify(e)]
    assert wrong == []


def test_a_mistake_in_a_chain_is_noticed():
    e = next(generate(1, 3, steps=(3, 3)))
    assert verify(replace(e, steps=e.steps[:2])) and verify(replace(e, steps=()))
    assert verify(replace(e, steps=(*e.steps[:2], "Every terpus is a wumpus.")))


def test_no_other_chain_leads_to_the_concept():
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


def test_the_order_of_the_options_does_not_predict_the_answer():
    first = Counter(
        _facts.parse_question(e.question)[1].one == _facts.read(e.answer).concept for e in generate(2000, 6)
    )
    # half of 2,000, give or take four standard errors: 4 * sqrt(0.25 * 2,000) = 89
    assert abs(first[True] - 1000) < 90


def test_for_another_person_the_other_concept_follows_and_the_target_does_not():
    for e in generate(300, 9):
        facts, asked = _facts.parse_question(e.question)
        target = _facts.read(e.answer).concept
        other = asked.one if target == asked.other else asked.other
        assert any({target, other} & _facts.follows(name, facts) == {other} for name in NAMES if name != asked.who)


def graph_of(example):
    """The graph of a problem, parsed from its text."""
    facts, asked = _facts.parse_question(example.question)
    words = list(dict.fromkeys(word for fact in facts for word in (fact.subject, fact.concept)))
    people = sorted((w for w in words if w in NAMES), key=lambda w: w != asked.who)
    target = _facts.read(example.answer).concept
    other = asked.one if target == asked.other else asked.other
    at = {word: i for i, word in enumerate(words)}
    edges = tuple((at[f.subject], at[f.concept]) for f in facts)
    return Graph(tuple(at[p] for p in people), len(words), edges, (at[asked.who], at[target]), at[other])


@pytest.mark.parametrize("source", [logic_problems, logic_ways], ids=["logic-problems", "logic-ways"])
def test_splits_share_no_graph_whatever_its_words(source):
    parts = {
        p: {fingerprint(graph_of(e)) for e in source.generate(120, 1, split=p)} for p in ("train", "valid", "test")
    }
    assert not parts["train"] & (parts["valid"] | parts["test"]) and not parts["valid"] & parts["test"]


def test_a_graph_has_one_fingerprint_however_its_nodes_are_numbered():
    rng = Random(0)
    for _ in range(50):
        graph = draw(rng, 3, 2)
        to = rng.sample(range(graph.size), graph.size)
        edges = [(to[a], to[b]) for a, b in graph.edges]
        rng.shuffle(edges)
        path = tuple(to[n] for n in graph.path)
        again = Graph(tuple(to[n] for n in graph.people), graph.size, tuple(edges), path, to[graph.other])
        assert fingerprint(again) == fingerprint(graph)
        assert fingerprint(replace(graph, other=graph.path[1])) != fingerprint(graph)


def test_a_graph_is_in_the_same_split_whichever_person_is_asked_about():
    rng = Random(1)
    for _ in range(50):
        graph = draw(rng, 2, 3)
        asked, other, third = graph.people
        exchanged = replace(graph, people=(other, asked, third), path=(other, graph.other), other=graph.path[-1])
        assert fingerprint(exchanged) == fingerprint(graph)


def test_the_words_are_those_of_prosqa(benchmark_data):
    import json

    rows = json.loads((benchmark_data("prosqa-valid") / "prosqa-valid.json").read_text())
    words = {w for row in rows for w in row["idx_to_symbol"]}
    assert words == {*NAMES, *CONCEPTS}
