"""What the generators write, and how often: steps, operations, numbers that are not needed, repeats; logic problems have no shortcut."""

import re
from collections import Counter
from math import sqrt
from random import Random

import pytest
from cases import cases
from pytest import approx

from ruplar import plugins
from ruplar.domains import _facts
from ruplar.problems import drills, logic_problems, logic_ways
from ruplar.problems.logic_graphs import draw_ways, fingerprint
from ruplar.problems.logic_problems import CONCEPTS, NAMES
from ruplar.problems.seeding import part_of
from ruplar.problems.word_problems import SHORT, SITUATIONS, TRAIN_FAMILIES, generate

GROUPS = {"default": TRAIN_FAMILIES, "short": SHORT, "situations": SITUATIONS}
NUMBER = re.compile(r"\d+")


def near(share, count):
    """Within four standard errors of a share."""
    return approx(share, abs=4 * sqrt(share * (1 - share) / count))


@pytest.mark.parametrize(
    ("group", "count", "seed", "steps", "signs", "unneeded", "different"), cases(__file__, "groups")
)
def test_word_problems_are_varied_as_documented(group, count, seed, steps, signs, unneeded, different):
    found = list(generate(count, seed, families=list(GROUPS[group])))
    for wanted, values in (
        (steps, (len(e.steps) for e in found)),
        (signs, (re.search(r"\d([-+*/])", e.steps[0])[1] for e in found)),
        ({"train": 0.875, "valid": 0.0625, "test": 0.0625}, (part_of(e.question) for e in found)),
    ):
        shares = {value: times / count for value, times in Counter(values).items()}
        assert shares == {value: near(share, count) for value, share in wanted.items()}
    extra = sum(bool({*NUMBER.findall(e.question)} - {*NUMBER.findall(e.chain)}) for e in found) / count
    assert unneeded[0] < extra < unneeded[1]
    questions = {e.question for e in found}
    assert len({(e.question, e.answer) for e in found}) == len(questions) >= count * different
    words = [len(e.question.split()) for e in found]
    assert sum(words) / count < 35 and max(words) < 90


def test_there_are_many_more_wordings_in_situations_than_in_short_problems():
    def passages(families):
        """All sequences of six words, with numbers and names masked."""
        for e in generate(1500, 1, families=families):
            words = re.sub(r"\b[A-Z][a-z]+", "@", NUMBER.sub("#", e.question)).split()
            yield from zip(*(words[i:] for i in range(6)), strict=False)

    situations, short = ({*passages(families)} for families in (SITUATIONS, SHORT))
    assert len(situations) > 1.8 * len(short)


def test_operators_and_digits_of_drills_follow_the_measured_steps():
    signs, digits = Counter(), Counter()
    for e in drills.generate(6000, 5, steps=(1, 1)):
        if m := re.fullmatch(r"(\d+)([-+*/])(\d+)=.*", e.steps[0]):
            signs[m[2]] += 1
            digits[m[2], len(m[1]), len(m[3])] += 1
    for sign, steps in drills.SIGNS.items():
        # 3 hundredths for the parts (84/4) that are drawn beside them, four standard errors of 4,500: 0.030
        assert signs[sign] / signs.total() == approx(steps / sum(drills.SIGNS.values()), abs=0.06)
    assert digits["*", 1, 1] > digits["*", 2, 1] > digits["*", 2, 2] > digits["*", 3, 2]
    assert digits["+", 2, 2] > digits["+", 3, 3] > digits["+", 4, 4] > 0


def test_the_answer_of_a_drill_follows_from_a_question_in_signs():
    domain, checked = plugins.make("domains", "arithmetic"), 0
    for e in drills.generate(1500, 2):
        text = re.sub(r"[×x]", "*", e.question).replace("÷", "/")
        bare = re.search(r"[(\d][\d.+*/() -]*\d\)?", text)
        alone = re.fullmatch(r"(?:[A-Z][a-z ]+(?:\?|:)? )*[\d.+*/() -]+[=?. ]*", text)
        if bare and alone and re.search(r"[-+*/]", bare[0]):
            assert domain.check(f"{bare[0].strip()}={e.answer}") is None, e
            checked += 1
    assert checked > 500


def test_there_are_enough_graphs_for_three_splits_and_enough_words_for_the_largest():
    class Always(Random):
        def random(self):
            return 0.0  # everything optional is there

    graph = draw_ways(Always(0), 5, 5)
    # two sides of six, two that lead into each of five, one behind; a third and what they are
    assert graph.size == 2 * (6 + 2 * 5 + 1) + 2 and graph.size - len(graph.people) <= len(CONCEPTS)
    rng = Random(3)
    assert len({fingerprint(draw_ways(rng, 3, 3)) for _ in range(400)}) > 300


def leads_to(facts, concept):
    """Everything that leads to a concept → by how many facts."""
    found, waiting = {concept: 0}, [concept]
    for at in waiting:
        for fact in facts:
            if fact.concept == at and fact.subject not in found:
                found[fact.subject] = found[at] + 1
                waiting.append(fact.subject)
    return found


def surface(facts, option):
    """What can be said of an option without following facts from who is asked about."""
    before = leads_to(facts, option)
    away = [steps for word, steps in before.items() if word in NAMES]
    subjects = [fact.subject for fact in facts if fact.concept == option]
    return {
        "facts that conclude it": len(subjects),
        "facts it is in": sum(option in (fact.subject, fact.concept) for fact in facts),
        "all that leads to it": len(before),
        "names that lead to it": len(away),
        "nearest name": min(away),
        "farthest name": max(away),
        "facts of its subjects": sum(fact.subject in subjects for fact in facts),
        "facts about its subjects": sum(fact.concept in subjects for fact in facts),
        "place of its first fact": next(i for i, fact in enumerate(facts) if fact.concept == option),
        "place in the alphabet": CONCEPTS.index(option),
    }


@pytest.mark.slow
@pytest.mark.parametrize("source", [logic_problems, logic_ways], ids=["logic-problems", "logic-ways"])
def test_no_surface_feature_of_logic_problems_predicts_the_answer(source):
    def compared(count, split):
        """By each feature whether the option asked first has more (1), less (-1) or as much, and whether it is true."""
        for e in source.generate(count, 1, split=split):
            facts, asked = _facts.parse_question(e.question)
            one, other = surface(facts, asked.one), surface(facts, asked.other)
            more = {"is asked first": 1} | {
                name: (one[name] > other[name]) - (one[name] < other[name]) for name in one
            }
            yield more, asked.one == _facts.read(e.answer).concept, asked

    train, test = list(compared(2500, "train")), list(compared(600, "test"))
    votes, true = Counter(), Counter()  # votes: of all features together, but for the alphabet, which scatters
    for more, first, asked in train:
        votes[tuple(more.values())[:-1]] += 1 if first else -1
        for option, sign in ((asked.one, 1), (asked.other, -1)):
            true.update(dict.fromkeys((option, (asked.who, option)), sign if first else -sign))
    train, seen = ([(more, first) for more, first, _ in rows] for rows in (train, test))

    def right(rows, guess):
        """Share of problems a guess gets right: above 0 the first option, below 0 the second; at 0 half of them."""
        return sum(0.5 if (g := guess(more)) == 0 else (g > 0) == first for more, first in rows) / len(rows)

    was = [
        ({"of": true[a.one] - true[a.other], "by": true[a.who, a.one] - true[a.who, a.other]}, x) for _, x, a in test
    ]
    found = {"was true as often": right(was, lambda more: more["of"])}
    found["was true of this name as often"] = right(was, lambda more: more["by"])
    found["all together"] = right(seen, lambda more: votes[tuple(more.values())[:-1]])
    for name in train[0][0]:
        sign = 1 if right(train, lambda more, name=name: more[name]) >= 0.5 else -1
        found[name] = right(seen, lambda more, name=name, sign=sign: more[name] * sign)
    assert found == {name: near(0.5, 600) for name in found}
