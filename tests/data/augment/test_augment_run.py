"""Variants of real chains: exact, distinct, sensible, the same every time, and none of a held-out question."""

import json
import re

import pytest

from ruplar import plugins
from ruplar.data.augment import AugmentReport, build, deal, make_plans
from ruplar.data.augment.mentions import WORDS
from ruplar.data.read import read
from ruplar.data.sources import SourceConfig, open_source
from ruplar.errors import UserError
from ruplar.fingerprints import digest
from ruplar.problems.word_problems import generate
from ruplar.types import Example

DOMAIN = plugins.make("domains", "arithmetic")
PENS = Example(
    "Mia buys 12 boxes with 15 pens each. She gives half of the pens to 5 friends who share them equally."
    " How many pens does each of the 5 friends get?",
    ("12*15=180", "180/2=90", "90/5=18"),
    "18",
    "toy:1",
    "<<12*15=180>> <<180/2=90>> <<90/5=18>>",
)
CARS = Example("Tom has 40 cars and sells 15% of them. How many?", ("40*.15=6",), "6", "toy:2", "<<40*.15=6>>")


@pytest.fixture(scope="module", params=["word-problems", "gsm8k-train"])
def chains(request, benchmark_data):
    """700 chains: of generated word problems, and of GSM8K where its file is there."""
    if request.param == "word-problems":
        return list(generate(700, 1))
    return read("gsm8k-train", DOMAIN, skip_bad=True, limit=700, data_dir=benchmark_data("gsm8k-train")).examples


@pytest.fixture(scope="module")
def variants(chains):
    return build(chains, 1, count=3000, per_chain=20)


def test_variants_re_execute_and_end_in_their_answer(variants):
    for example in variants[0]:
        assert all(DOMAIN.check(step) is None and DOMAIN.unchecked(step) is None for step in example.steps)
        assert tuple(DOMAIN.split(example.chain)) == example.steps
        assert DOMAIN.same(example.steps[-1].rpartition("=")[2], example.answer)
        assert "-" not in "".join(step.partition("=")[2] for step in example.steps)


def test_no_question_is_told_twice_and_none_is_that_of_a_chain(chains, variants):
    questions = {digest(e.question) for e in variants[0]}
    assert len(questions) == len(variants[0]) == variants[1].written
    assert not questions & {digest(e.question) for e in chains}


def test_whole_results_stay_whole_and_sizes_stay_comparable(variants):
    found, _ = variants
    for row, number, example in zip(found.rows, found.numbers, found, strict=True):
        plan = found.plans[row]
        results = [step.rpartition("=")[2] for step in example.steps]
        was = plan.template.results
        assert all(
            "." not in now or now.endswith(".00") or not isinstance(old, int)
            for now, old in zip(results, was, strict=True)
        )
        # one in twenty has a large number; the others are within a factor of five, or small
        if not re.search(r"\d{4}|\d,\d", example.question):
            assert float(results[-1]) <= max(5 * was[-1], 12)
        assert number >= 0


def test_words_and_everything_but_the_numbers_stay(variants):
    found, _ = variants
    number = re.compile(rf"[\d,]*\.?\d+|\b(?:{'|'.join(sorted(WORDS, key=len, reverse=True))})\b", re.IGNORECASE)
    for row, example in zip(found.rows, found, strict=True):
        was = found.plans[row].template.example.question
        assert number.sub("#", example.question) == number.sub("#", was)


def test_variants_are_a_function_of_seed_and_row(chains, variants):
    again, _ = build(chains, 1, count=3000, per_chain=20)
    assert again.sha256 == variants[0].sha256
    assert build(chains, 2, count=300, per_chain=20)[0].sha256 != build(chains, 1, count=300, per_chain=20)[0].sha256
    tally = AugmentReport()
    plans = make_plans(chains, tally)
    dealt = [example for _, _, example in deal(plans, 1, tally, count=3000, per_chain=20)]
    assert dealt == list(again) and again[17] == dealt[17] and again[5:8] == dealt[5:8]


def test_a_half_stays_and_one_number_in_two_places_stays_one():
    found, _ = build([PENS], 3, count=None, per_chain=30, large=0)
    assert len(found) == 30
    for example in found:
        boxes, pens, friends, again = (int(n) for n in re.findall(r"\d+", example.question))
        assert friends == again and "gives half" in example.question
        # boxes * pens / 2 / friends
        assert int(example.answer) * 2 * friends == boxes * pens


def test_an_article_fits_the_number_behind_it():
    trail = Example("Ann rides an 18 mile trail 25 times. How far?", ("18*25=450",), "450", "toy:6", "<<18*25=450>>")
    found, _ = build([trail], 3, count=None, per_chain=60, large=0)
    # from 8 to 45 only these are said with `an`
    assert {re.search(r"an (\d+) mile", e.question)[1] for e in found} == {"8", "11", "18"}


def test_percentages_stay_percentages_and_keep_their_hand():
    found, _ = build([CARS], 3, count=None, per_chain=30, large=0)
    for example in found:
        cars, percent = (int(n) for n in re.findall(r"\d+", example.question))
        assert percent % 5 == 0 and 5 <= percent <= 95
        assert int(example.answer) * 100 == cars * percent
        assert re.fullmatch(rf"{cars}\*\.\d\d?=\d+", example.steps[0])


def test_a_stated_share_has_a_large_number():
    toy = Example("Tom has 40 cars and Ann has 35 cars. How many?", ("40+35=75",), "75", "toy:3", "<<40+35=75>>")
    large = re.compile(r"\d{4}|\d,\d")
    found, _ = build([toy], 3, count=None, per_chain=100, large=0.3)
    # at most 30 of 100, though small numbers run out and large ones do not
    assert 20 <= sum(bool(large.search(e.question)) for e in found) <= 30
    assert not any(large.search(e.question) for e in build([toy], 3, count=None, per_chain=50, large=0)[0])


def test_what_is_missing_at_one_chain_is_asked_of_the_others():
    few = Example("It costs $3 for each of the four weeks.", ("3*4=12",), "12", "toy:4", "<<3*4=12>>")
    tally = AugmentReport()
    plans = make_plans([few, PENS], tally)
    got = list(deal(plans, 1, tally, count=200, per_chain=200))
    assert len(got) == 200 and tally.short == 1 and tally.used == 2


def test_chains_that_tell_the_same_are_used_once():
    twin = Example(CARS.question.replace("40", "60"), ("60*.15=9",), "9", "toy:5", "<<60*.15=9>>")
    _, tally = build([CARS, twin], 1, count=10, per_chain=10)
    assert tally.used == 1 and sum(tally.left_out.values()) == 1


def test_the_whole_training_set_gives_three_problems_in_five_and_no_validation_question(benchmark_data):
    folder = benchmark_data("gsm8k-train", "gsm8k-aug-valid")
    train = read(folder / "gsm8k-train.jsonl", DOMAIN, skip_bad=True).examples
    valid = {digest(e.question) for e in read(folder / "gsm8k-aug-valid.txt", DOMAIN, need_steps=False, skip_bad=True).examples}  # fmt: skip
    tally = AugmentReport()
    plans = make_plans(train, tally, lambda e: "held out" if digest(e.question) in valid else None)
    # 494 of the 500 have steps; 7,378 - 494 = 6,884 chains are left
    assert tally.left_out["held out"] == 494 and tally.rows == 7378
    assert 3700 < len(plans) == tally.used == 6884 - sum(n for why, n in tally.left_out.items() if why != "held out")
    assert not any(digest(plan.template.example.question) in valid for plan in plans)


def test_a_held_out_question_gives_no_variant(data):
    train = read("gsm8k-train", DOMAIN, skip_bad=True, data_dir=data).examples
    valid = {digest(e.question) for e in read("gsm8k-aug-valid", DOMAIN, need_steps=False, data_dir=data).examples}
    tally = AugmentReport()
    plans = make_plans(train, tally, lambda e: "held out" if digest(e.question) in valid else None)
    # 4 of the 5 validation questions have steps, as 10 of the 12 chains do
    assert (tally.rows, tally.left_out, tally.used) == (10, {"held out": 4}, 6)
    assert len(plans) == 6 and not any(digest(plan.template.example.question) in valid for plan in plans)


def test_a_recipe_names_a_set_to_be_augmented(data):
    file = str(data / "gsm8k-train.jsonl")
    config = SourceConfig.model_validate({"source": file, "augment": 20, "seed": 1, "count": 150})
    opened = open_source(
        config, DOMAIN, skip_bad=True, split="train", refuse=lambda e: "mine" if "Greta" in e.question else None
    )
    assert len(opened.examples) == opened.record["examples"] == 150
    assert opened.record["sha256"] == opened.examples.sha256 and opened.record["of_sha256"]
    left_out = opened.record["left_out"]
    assert left_out["not augmented: mine"] == 1 and left_out["not augmented: no step"] == 2
    assert "no step" not in left_out
    assert not any("Greta" in e.question for e in opened.examples)
    with pytest.raises(UserError, match="augment makes training data"):
        open_source(config, DOMAIN, skip_bad=True, split="valid")


def test_a_method_without_steps_is_given_the_same_variants(tmp_path):
    rows = [
        {"question": "Who is Tom?", "answer": "He has 4.\n#### 4"},
        {"question": "Ann has 31 red and 45 blue cars. How many?", "answer": "<<31+45=76>>\n#### 76"},
    ]
    (tmp_path / "some.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    source = SourceConfig(source=str(tmp_path / "some.jsonl"), augment=5, seed=1)
    found = [
        list(open_source(source, DOMAIN, need_steps=need, skip_bad=True, split="train").examples)
        for need in (True, False)
    ]
    assert found[0] == found[1] and len(found[0]) == 5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"source": "word-problems", "augment": 3}, "augment cannot be set for 'word-problems'"),
        ({"source": "a.jsonl", "large": 0.5}, "large can be set together with augment only"),
        ({"source": "a.jsonl", "augment": 0}, "greater than or equal to 1"),
        ({"source": "a.jsonl", "augment": 3, "steps": [1, 2]}, "steps can be set"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        SourceConfig.model_validate(settings)


def test_half_a_character_in_a_question_stops_nothing():
    odd = Example("Tom \ud800 has 40 cars and buys 35. How many?", ("40+35=75",), "75", "toy:3", "<<40+35=75>>")
    found, tally = build([odd, CARS], 1, count=4, per_chain=2)
    assert tally.used == 2 and len(found) == 4
