"""The built-in generator: every problem re-executes, the sequence is fixed by its seed, the numbers stay small."""

import json
import re
from collections import Counter
from dataclasses import replace
from itertools import islice

import pytest

from ruplar.errors import UserError
from ruplar.problems import word_problems
from ruplar.problems.word_problems import (
    DRILLS,
    FAMILIES,
    HELD_OUT,
    SHORT,
    SITUATIONS,
    TRAIN_FAMILIES,
    generate,
    verify,
    words,
)
from ruplar.problems.word_problems.parts import listing, shapes
from ruplar.types import Example

GOOD = Example(
    "Mia has 12 coins. She finds 5 more. How many coins does she have?",
    ("12+5=17",),
    "17",
    "test:0",
    "<<12+5=17>>",
)


PINNED = (
    "Sam drives 6 miles. He travels 88 miles by bike. He sails 20 miles an hour for 6 hours. His uncle lives 239 miles away. How many more miles must he travel to get there?",
    "<<20*6=120>> <<6+88=94>> <<94+120=214>> <<239-214=25>>",
    "25",
)


@pytest.mark.parametrize("family", word_problems.names())
def test_every_problem_of_a_family_re_executes(family):
    wrong = [(e.question, e.chain, verify(e)) for e in generate(1500, 11, families=[family]) if verify(e)]
    assert wrong == []


@pytest.mark.parametrize("family", word_problems.names())
def test_a_family_writes_every_number_of_steps_it_promises(family):
    low, high = FAMILIES[family].steps
    for n in range(low, high + 1):
        found = list(generate(25, 3, families=[family], steps=(n, n)))
        assert {len(e.steps) for e in found} == {n}


@pytest.mark.parametrize("family", word_problems.names())
def test_the_english_is_clean(family):
    for e in generate(400, 5, families=[family]):
        q = e.question
        assert not re.search(r"[{}]|  | [.,?]|\.\.|\b[Aa] [aeiou]|\b[Aa]n (?!hour)[^aeiou]", q), q
        assert q[0].isupper() or q[0].isdigit() or q[0] == "$", q
        assert all(s[0].isupper() or s[0].isdigit() for s in re.split(r"[.?] ", q)), q
        assert q[-1] in ".?" and (family in DRILLS or q[-1] == "?"), q
        assert not re.search(r"\b1 [a-z]+s\b", q), q


def test_a_problem_depends_on_seed_and_index_alone():
    whole = list(generate(60, 7))
    assert list(generate(60, 7)) == whole
    assert list(generate(20, 7, start=40)) == whole[40:]
    assert list(islice(generate(10**9, 7), 60)) == whole
    assert whole[41].source == "word-problems:7:41"
    assert list(generate(60, 8)) != whole


def test_the_first_problem_of_a_seed_is_pinned():
    # shipped weights and recorded results were made from these sequences: a change here is a change of data
    first = next(generate(1, 0))
    assert (first.question, first.chain, first.answer) == PINNED


def test_families_added_for_short_problems_change_no_default_problem():
    # the list that recorded results were made with: short families are asked for by name alone
    assert (
        *(
            "ages",
            "averages",
            "bakery",
            "classroom",
            "collecting",
            "comparing",
            "cooking",
            "factory",
            "farm",
            "floors",
        ),
        *(
            "harvest",
            "passengers",
            "points",
            "reading",
            "sales",
            "savings",
            "shopping",
            "stock",
            "tank",
            "travel",
            "wages",
        ),
    ) == TRAIN_FAMILIES
    assert len(SHORT) >= 12 and all(FAMILIES[name].steps[1] <= 2 for name in SHORT)


def test_short_problems_have_one_step_more_often_than_two_and_often_a_number_too_many():
    found = list(generate(2000, 3, families=SHORT))
    # 0.6 of one step; four standard errors of 2,000 are 4 * sqrt(0.24 / 2,000) = 0.044
    assert sum(len(e.steps) == 1 for e in found) / 2000 == pytest.approx(0.6, abs=0.044)
    idle = sum(any(n not in re.findall(r"\d+", e.chain) for n in re.findall(r"\d+", e.question)) for e in found)
    assert 0.2 < idle / 2000 < 0.5
    signs = Counter(re.search(r"\d([-+*/])", e.steps[0])[1] for e in found)
    assert min(signs[sign] for sign in "+-*/") > 100


def test_parts_of_the_questions_never_meet():
    parts = {part: list(generate(300, 1, split=part)) for part in ("train", "valid", "test")}
    assert all(word_problems.part_of(e.question) == part for part, found in parts.items() for e in found)
    # without a split about 2 in 16 problems are kept from training: 0.125 ± 4 * sqrt(0.125 * 0.875 / 3000) = 0.024
    share = sum(word_problems.part_of(e.question) != "train" for e in generate(3000, 1)) / 3000
    assert share == pytest.approx(0.125, abs=0.024)


def test_a_split_problem_can_be_made_alone_too():
    assert list(generate(5, 1, split="test", start=20)) == list(generate(25, 1, split="test"))[20:]


def test_two_sets_of_families_do_not_retell_each_other():
    a, b = (list(generate(200, 1, families=[f], steps=(3, 3))) for f in ("farm", "stock"))
    assert sum(x.steps == y.steps for x, y in zip(a, b, strict=True)) < 10


def test_numbers_lie_between_0_and_999():
    for e in generate(3000, 2, families=word_problems.names()):
        numbers = [int(n) for n in re.findall(r"\d+", e.question + " " + e.chain)]
        assert max(numbers) <= 999
        assert not e.answer.startswith("-") and 1 <= int(e.answer) <= 999


def test_products_and_quotients_have_a_small_or_round_operand():
    for e in generate(3000, 4):
        for step in e.steps:
            if m := re.fullmatch(r"(\d+)([*/])(\d+)=\d+", step):
                a, b = int(m[1]), int(m[3])
                assert min(a, b) <= 12 or b % 10 == 0 or a % 5 == 0, step


def test_steps_follow_their_weights():
    count = Counter(len(e.steps) for e in generate(8000, 9))
    for n, share in {1: 0.08, 2: 0.22, 3: 0.30, 4: 0.22, 5: 0.11, 6: 0.07}.items():
        # four standard errors of a share of 8,000: at most 4 * sqrt(0.25 / 8,000) = 0.022
        assert count[n] / 8000 == pytest.approx(share, abs=0.022)
    assert sum(n * c for n, c in count.items()) / 8000 == pytest.approx(3.27, abs=0.06)


def test_many_problems_hold_a_number_that_is_not_needed():
    def idle(e):
        used = set(re.findall(r"\d+", e.chain))
        return any(n not in used for n in re.findall(r"\d+", e.question))

    share = sum(idle(e) for e in generate(2000, 6)) / 2000
    assert 0.08 < share < 0.3


def test_steps_do_not_only_follow_one_another():
    def branches(e):  # some step does not use the result before it
        results = [s.split("=")[1] for s in e.steps]
        return any(r not in re.findall(r"\d+", s.split("=")[0]) for r, s in zip(results, e.steps[1:], strict=False))

    found = [branches(e) for e in generate(2000, 6, steps=(3, 6))]
    assert sum(found) / len(found) > 0.3


def test_questions_are_short():
    lengths = [len(e.question.split()) for e in generate(2000, 6)]
    assert sum(lengths) / 2000 < 35 and max(lengths) < 90


def test_training_and_held_out_families_are_apart():
    assert not set(TRAIN_FAMILIES) & set(HELD_OUT) and not set(DRILLS) & {*TRAIN_FAMILIES, *HELD_OUT}
    assert sorted((*TRAIN_FAMILIES, *HELD_OUT, *DRILLS, *SHORT, *SITUATIONS)) == sorted(FAMILIES)
    assert len(TRAIN_FAMILIES) >= 12 and len(HELD_OUT) >= 2
    assert all(FAMILIES[name].about for name in FAMILIES)


def test_the_number_words_of_the_potion_shop_are_met_nowhere_else():
    text = " ".join(e.question for e in generate(5000, 1)).lower()
    seen = set(re.findall(r"[a-z]+", text))
    assert not seen & set(FAMILIES["potion_shop"].constants)


def test_repeats_are_rare_and_never_disagree():
    answers: dict[str, set[str]] = {}
    for e in generate(8000, 0):
        answers.setdefault(e.question, set()).add(e.answer)
    assert len(answers) >= 8000 * 0.998
    assert all(len(a) == 1 for a in answers.values())


@pytest.mark.slow
def test_repeats_are_rare_in_100_000():
    # measured: 91 repeats under seed 0, 0.09 %
    answers: dict[str, set[str]] = {}
    for number, e in enumerate(generate(100_000, 0)):
        assert number % 10 or verify(e) is None
        answers.setdefault(e.question, set()).add(e.answer)
    assert len(answers) >= 99_800
    assert all(len(a) == 1 for a in answers.values())


def test_unknown_family_is_refused_with_the_nearest_name():
    with pytest.raises(UserError, match="unknown family 'farms'. Did you mean 'farm'"):
        generate(1, 0, families=["farms"])


def test_steps_no_family_can_write_are_refused():
    with pytest.raises(UserError, match="no family can write 5 to 6 steps. They write: drills 1-3."):
        generate(1, 0, families=["drills"], steps=range(5, 7))


def test_a_range_of_steps_means_what_it_says():
    assert {len(e.steps) for e in generate(200, 0, steps=range(2, 4))} == {2, 3}


def test_written_file_holds_problem_solution_answer(tmp_path):
    examples = list(generate(3, 1))
    assert word_problems.write_jsonl(tmp_path / "a.jsonl", examples) == 3
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert rows == [{"problem": e.question, "solution": e.chain, "answer": e.answer} for e in examples]


def test_half_a_character_is_written_as_json_writes_it(tmp_path):
    word_problems.write_jsonl(tmp_path / "a.jsonl", [replace(GOOD, question="Half \ud800 of é")])
    text = (tmp_path / "a.jsonl").read_text(encoding="utf-8")
    assert "\\ud800 of é" in text and json.loads(text)["problem"] == "Half \ud800 of é"


def test_a_file_whose_writing_is_stopped_is_left_as_it_was(tmp_path):
    def stopped():
        yield from generate(3, 1)
        raise KeyboardInterrupt

    for before in ("", "what was there\n"):
        file = tmp_path / "a.jsonl"
        if before:
            file.write_text(before)
        with pytest.raises(KeyboardInterrupt):
            word_problems.write_jsonl(file, stopped())
        assert [f.read_text() for f in tmp_path.iterdir()] == ([before] if before else [])


def test_a_file_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="a.jsonl: cannot be written .* Name another file"):
        word_problems.write_jsonl(tmp_path / "file" / "a.jsonl", generate(3, 1))


def test_verify_accepts_a_right_example():
    assert verify(GOOD) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": ("12+5=18",), "chain": "<<12+5=18>>", "answer": "18"}, "is 17, not 18"),
        ({"steps": ("12+7=19",), "chain": "<<12+7=19>>", "answer": "19"}, "7 in step '12\\+7=19' is neither"),
        ({"answer": "18"}, "the answer is 18, but the chain ends in 17"),
        ({"chain": "<<12+5=18>>"}, "does not spell out"),
        ({"steps": ()}, "has no step"),
        ({"steps": ("12/5=2",), "chain": "<<12/5=2>>", "answer": "2"}, "is 12/5, not 2"),
        ({"steps": ("twelve",)}, "not of the form"),
        ({"question": "1200 and 12 and 5"}, "above 999"),
        ({"steps": ("12*5=60", "12+5=17"), "chain": "<<12*5=60>> <<12+5=17>>"}, "the result 60 is never used"),
    ],
)
def test_verify_names_what_is_wrong(change, message):
    assert re.search(message, verify(replace(GOOD, **change)))


def test_words_bring_numbers_into_a_question():
    assert word_problems.written("Twice a week for 3 days, 20% off") == {2, 7, 3, 20, 100}
    assert word_problems.written("two dozen") == {2, 12, 6}
    assert len({p.name for p in words.PEOPLE}) == len(words.PEOPLE)


def test_shapes_add_up_to_the_goal():
    # three steps without a tail: 2 products and their sum; 1 product with 2 singles takes 1 + 2
    assert shapes(3, (0,)) == ((1, 2, 0), (2, 0, 0))
    assert listing(["a", "b", "c"]) == "a, b and c"
