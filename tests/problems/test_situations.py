"""Situations: frames are complete, wordings are many, and every wording still says what the question needs."""

import re
from random import Random

import pytest

from ruplar.problems.word_problems import SITUATIONS, generate
from ruplar.problems.word_problems.scenes import Scene
from ruplar.problems.word_problems.story import Story
from ruplar.problems.word_problems.words import FRAMES, frames_with


@pytest.mark.parametrize("one", FRAMES, ids=lambda f: f.things[0])
def test_every_frame_is_complete(one):
    assert one.acts and len(set(one.things)) == len(one.things)
    assert all(len(pair) == 2 and all(pair) and pair[0] != pair[1] for pair in one.kinds)
    for verb in one.acts:
        assert verb.past.count("{x}") == 1 and verb.base, verb
        assert set(re.findall(r"\{(\w+)\}", verb.past + verb.base)) <= {"x", "b", "his"}, verb
        assert verb.past.startswith("{x} ") == bool(one.place), verb
    assert all(len(holder) == 3 and all(holder) for holder in one.holders)
    assert not (one.place and (one.keeps or one.workers or one.holders)), "nobody owns what is at a place"


@pytest.fixture(scope="module")
def problems():
    return list(generate(4000, 9, families=SITUATIONS))


def test_sentences_are_joined_correctly(problems):
    state = r"(?:also |already |now |still )?(?:has|had|is|lives|wants|needs|can|earns|gets)\b"
    upper_case = re.compile(r"(?:[Ii]f|and|,) (?:There|Now|After|The|Each|Every|Today|All) ")
    then_before_a_state = re.compile(rf"(?:[Tt]hen|Later|After that,) (?:he |she |[A-Z]\w+ |the \w+ )?{state}")
    comparison_after_and = re.compile(r"\d [^.]*(?: and|, then) \w+ (?:\d+|twice|half|a) [^.]*(?: than | as many )")
    for e in problems:
        assert not upper_case.search(e.question) and not then_before_a_state.search(e.question), e.question
        sentences = [text for text in re.split(r"(?<=[.?]) ", e.question) if text.endswith(".")]
        assert not any(comparison_after_and.search(text) for text in sentences), e.question


def test_no_past_time_precedes_the_present_tense(problems):
    lead = r"^(?:Last week|One day|Yesterday|Over the weekend|A while ago|In [A-Z]\w+|On [A-Z]\w+day), "
    opened = [e.question for e in problems if re.match(lead, e.question)]
    assert len(opened) > 60
    for question in opened:
        assert not re.search(r" (?:has|have|wants|earns|can|lives) ", question.split(".")[0]), question


def test_no_pronouns_with_two_people():
    for seed in range(200):
        scene = Scene(Story(Random(seed), 1), frames_with("gain and lose and not place"))
        scene.name_everybody()
        scene.write([scene.has(7, scene.x), scene.has(9, scene.x)], scene.ask_has(scene.x, "now"))
        assert not re.search(r"\b(?:[Hh]e|[Ss]he)\b", " ".join(scene.story.text))


@pytest.mark.parametrize("goal", [2, 3, 4])
def test_a_given_difference_is_not_asked_for(goal):
    for e in generate(500, 2, families=["situation_related"], steps=(goal, goal)):
        if "How many more" in e.question:
            assert re.search(r" as many ", e.question), e.question


def test_a_question_about_a_sale_has_one_sale():
    found = [e.question for e in generate(1500, 4, families=["situation_pooled"])]
    asked = [q for q in found if re.search(r"How (?:much money|many dollars) did", q)]
    assert len(asked) > 70 and all(len(re.findall(r"\bsold\b", q)) == 1 for q in asked)
