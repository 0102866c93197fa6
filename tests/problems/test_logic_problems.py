"""Logic problems: one concept follows, by one chain only, and splits share neither graph nor conclusion."""

import json
from dataclasses import replace
from itertools import combinations
from random import Random

import pytest
from checking import fault

from ruplar.domains import _facts
from ruplar.errors import UserError
from ruplar.problems import logic_lookups, logic_problems, logic_ways
from ruplar.problems.logic_graphs import Graph, draw, fingerprint
from ruplar.problems.logic_problems import CONCEPTS, NAMES, generate
from ruplar.problems.seeding import part_of

PARTS = ("train", "valid", "test")
CHOICES = pytest.mark.parametrize("source", [logic_problems, logic_ways], ids=["logic-problems", "logic-ways"])


def walk(facts, at, ends=()):
    """The facts from a person on, where nothing is two things, and the concept they end in."""
    by_subject = {fact.subject: fact for fact in facts}
    assert len(by_subject) == len(facts), "there is no choice on the way"
    walked = []
    while at in by_subject and at not in ends:
        walked.append(f"{by_subject[at]}.")
        at = by_subject[at].concept
    return walked, at


@CHOICES
def test_every_chain_follows_the_facts_to_the_one_concept_that_is_true(source):
    found = list(source.generate(500, 11))
    assert [(e.question, e.chain, fault(e, "logic")) for e in found if fault(e, "logic")] == []
    told = sum(len(_facts.parse_question(e.question)[0]) for e in found)
    assert 3 < told / sum(len(e.steps) for e in found) < 6, "most facts lead nowhere"


def test_no_other_chain_leads_to_the_concept_and_for_another_person_the_other_follows():
    for e in generate(300, 4):
        facts, asked = _facts.parse_question(e.question)
        target = _facts.read(e.answer).concept
        for step in e.steps:  # without any one of its facts nothing is left to conclude it from
            assert target not in _facts.follows(asked.who, [fact for fact in facts if fact != _facts.read(step)])
        other = asked.one if target == asked.other else asked.other
        assert any({target, other} & _facts.follows(name, facts) == {other} for name in NAMES if name != asked.who)


def test_without_forks_following_the_facts_leads_to_one_of_the_options():
    behind = 0
    for e in logic_ways.generate(500, 5):
        facts, asked = _facts.parse_question(e.question)
        walked, at = walk(facts, asked.who, (asked.one, asked.other))
        assert tuple(walked) == e.steps and e.answer == f"{asked.who} is a {at}."
        behind += any(fact.subject == at for fact in facts)
    # half of 500 paths continue after the option, ± four standard errors: 4 * sqrt(0.25 * 500) = 45
    assert abs(behind - 250) < 46
    assert next(logic_ways.generate(1, 4)).question != next(generate(1, 4)).question


def test_lookups_have_one_path_per_person():
    for e in logic_lookups.generate(400, 5):
        assert fault(e, "logic") is None
        facts, query = _facts.parse_question(e.question)
        paths = [walk(facts, name) for name in (*query.before, query.who)]
        assert tuple(step for walked, _ in paths for step in walked) == e.steps
        assert e.answer == f"{query.who} is a {paths[-1][1]}."


def test_a_mistake_in_a_lookup_is_reported():
    e = next(e for e in logic_lookups.generate(200, 5) if e.question.count("What is") == 2 and len(e.steps) == 5)
    query, last = _facts.parse_question(e.question)[1], _facts.read(e.steps[-1])
    (first,) = query.before
    later = next(i for i, step in enumerate(e.steps) if i and not step.startswith("Every"))
    for steps, answer, said in (
        (e.steps[:-1], f"{query.who} is a {last.subject}.", "does not end in"),
        (tuple(s for s in e.steps if not s.startswith(first)), e.answer, f"but the question is about {first}"),
        (e.steps[:later], e.answer, "does not mention"),
    ):
        chain = " ".join(f"<<{step}>>" for step in steps)
        assert said in fault(replace(e, steps=steps, chain=chain, answer=answer), "logic")


def disjoint(parts):
    return all(not parts[one] & parts[other] for one, other in combinations(PARTS, 2))


def test_no_conclusion_of_a_lookup_is_in_two_splits():
    def concluded(part):
        for e in logic_lookups.generate(100, 1, split=part):
            facts = _facts.parse_question(e.question)[0]
            yield from (f"{f.subject} is a {walk(facts, f.subject)[1]}" for f in facts if not f.every)

    assert disjoint({part: set(concluded(part)) for part in PARTS})


def test_bounds_of_lookups_without_a_graph_in_the_split_are_refused_instead_of_searched_for_ever():
    with pytest.raises(UserError, match="1 to 3 steps"):
        logic_lookups.generate(1, 1, steps=(6, 7))
    found = {}
    for split in PARTS:
        for most in (1, 2, 3):
            try:
                found[split, most] = next(logic_lookups.generate(1, 1, steps=(most, most), split=split))
            except UserError as error:
                assert f"in the split '{split}'" in str(error)
    # five graphs each, of which the smallest parts have none
    assert {("train", 1), ("train", 2), ("train", 3)} <= set(found) and ("test", 1) not in found


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


@CHOICES
def test_splits_share_no_graph_whatever_its_words(source):
    assert disjoint({p: {fingerprint(graph_of(e)) for e in source.generate(60, 1, split=p)} for p in PARTS})


@CHOICES
@pytest.mark.parametrize("split", PARTS)
def test_both_options_are_conclusions_of_the_split(source, split):
    for e in source.generate(60, 1, split=split):
        asked = _facts.parse_question(e.question)[1]
        assert {part_of(f"{asked.who} is a {option}.") for option in (asked.one, asked.other)} == {split}


def test_a_graph_has_one_fingerprint_however_its_nodes_are_numbered():
    rng = Random(0)
    for _ in range(30):
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
    for _ in range(30):
        graph = draw(rng, 2, 3)
        asked, other, third = graph.people
        exchanged = replace(graph, people=(other, asked, third), path=(other, graph.other), other=graph.path[-1])
        assert fingerprint(exchanged) == fingerprint(graph)


def test_the_words_are_those_of_prosqa(benchmark_data):
    rows = json.loads((benchmark_data("prosqa-valid") / "prosqa-valid.json").read_text())
    assert {w for row in rows for w in row["idx_to_symbol"]} == {*NAMES, *CONCEPTS}
