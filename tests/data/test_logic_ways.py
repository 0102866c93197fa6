"""The generator of logic problems without forks: no choice on the way, one option at its end, nothing of the test in the training."""

from random import Random

from ruplar.data.sources import GeneratedProblems, SourceConfig
from ruplar.domains import _facts
from ruplar.problems import logic_problems
from ruplar.problems.logic_problems import CONCEPTS, fingerprint
from ruplar.problems.logic_problems.shape import draw_ways
from ruplar.problems.logic_ways import generate, verify
from ruplar.problems.seeding import part_of


def test_whoever_follows_the_only_facts_there_are_stops_at_one_of_the_options():
    behind = 0
    for example in generate(500, 5):
        assert verify(example) is None
        facts, asked = _facts.parse_question(example.question)
        by_subject = {fact.subject: fact for fact in facts}
        assert len(by_subject) == len(facts)  # nobody and nothing is two things
        walked, at = [], asked.who
        while at not in (asked.one, asked.other):
            walked.append(f"{by_subject[at]}.")
            at = by_subject[at].concept
        assert tuple(walked) == example.steps and example.answer == f"{asked.who} is a {at}."
        behind += at in by_subject
    # half of 500 ways go on behind the option, give or take four standard errors: 4 * sqrt(0.25 * 500) = 45
    assert abs(behind - 250) < 46


def test_most_facts_do_not_belong_to_the_chain():
    found = list(generate(500, 5))
    told = sum(len(_facts.parse_question(e.question)[0]) for e in found)
    assert 3 < told / sum(len(e.steps) for e in found) < 6


def test_the_largest_graph_has_a_word_for_every_node():
    class Always(Random):
        def random(self):
            return 0.0  # everything that may be there is there

    shape = draw_ways(Always(0), 5, 5)
    # two sides of six, two that lead into each of five, one behind; a third and what they are
    assert shape.size == 2 * (6 + 2 * 5 + 1) + 2 and shape.size - len(shape.people) <= len(CONCEPTS)


def test_parts_share_neither_graph_nor_conclusion():
    answers = {part: {e.answer for e in generate(300, 1, split=part)} for part in ("train", "valid", "test")}
    assert all(part_of(answer) == part for part, found in answers.items() for answer in found)
    rng = Random(3)
    prints = [fingerprint(draw_ways(rng, 3, 3)) for _ in range(400)]
    assert len(set(prints)) > 300  # graphs enough to divide


def test_a_seed_stands_for_the_same_problems_and_for_others_than_with_forks():
    some = GeneratedProblems(SourceConfig(source="logic-ways", count=9, seed=4, steps=(2, 3)), "train")
    assert some[7] == list(some)[7] and all(2 <= len(e.steps) <= 3 for e in some)
    assert some[0].source == "logic-ways:4:0"
    assert next(generate(1, 4)).question != next(logic_problems.generate(1, 4)).question
