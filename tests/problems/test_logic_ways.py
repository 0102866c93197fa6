"""Logic problems without forks: the facts leave no choice and lead to one of the options."""

from random import Random

from ruplar.data.sources import GeneratedProblems, SourceConfig
from ruplar.domains import _facts
from ruplar.problems import logic_problems
from ruplar.problems.logic_graphs import draw_ways, fingerprint
from ruplar.problems.logic_problems import CONCEPTS
from ruplar.problems.logic_ways import generate, verify


def test_following_the_facts_leads_to_one_of_the_options():
    behind = 0
    for example in generate(500, 5):
        assert verify(example) is None
        facts, asked = _facts.parse_question(example.question)
        by_subject = {fact.subject: fact for fact in facts}
        assert len(by_subject) == len(facts)  # nothing is two things
        walked, at = [], asked.who
        while at not in (asked.one, asked.other):
            walked.append(f"{by_subject[at]}.")
            at = by_subject[at].concept
        assert tuple(walked) == example.steps and example.answer == f"{asked.who} is a {at}."
        behind += at in by_subject
    # half of 500 paths continue after the option, ± four standard errors: 4 * sqrt(0.25 * 500) = 45
    assert abs(behind - 250) < 46


def test_most_facts_do_not_belong_to_the_chain():
    found = list(generate(500, 5))
    told = sum(len(_facts.parse_question(e.question)[0]) for e in found)
    assert 3 < told / sum(len(e.steps) for e in found) < 6


def test_the_largest_graph_has_a_word_for_every_node():
    class Always(Random):
        def random(self):
            return 0.0  # everything optional is there

    graph = draw_ways(Always(0), 5, 5)
    # two sides of six, two that lead into each of five, one behind; a third and what they are
    assert graph.size == 2 * (6 + 2 * 5 + 1) + 2 and graph.size - len(graph.people) <= len(CONCEPTS)


def test_there_are_enough_graphs_for_three_splits():
    rng = Random(3)
    prints = [fingerprint(draw_ways(rng, 3, 3)) for _ in range(400)]
    assert len(set(prints)) > 300


def test_the_source_gives_its_own_problems():
    some = GeneratedProblems(SourceConfig(source="logic-ways", count=9, seed=4, steps=(2, 3)), "train")
    assert some[7] == list(some)[7] and all(2 <= len(e.steps) <= 3 for e in some)
    assert some[0].source == "logic-ways:4:0"
    assert next(generate(1, 4)).question != next(logic_problems.generate(1, 4)).question
