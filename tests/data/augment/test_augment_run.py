"""Augmented chains: exact, distinct, plausible, reproducible, and none of a held-out question."""

import json
import re

import pytest

from ruplar import plugins
from ruplar.data.augment import AugmentReport, build, make_plans
from ruplar.data.augment import generate as generate_variants
from ruplar.data.augment.mentions import WORDS
from ruplar.data.augment.run import Work
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


@pytest.fixture(scope="module", params=["word-problems", pytest.param("gsm8k-train", marks=pytest.mark.slow)])
def chains(request, benchmark_data):
    """250 chains: of generated word problems, and of GSM8K where its file is there."""
    if request.param == "word-problems":
        return list(generate(250, 1))
    return read("gsm8k-train", DOMAIN, skip_bad=True, limit=250, data_dir=benchmark_data("gsm8k-train")).examples


@pytest.fixture(scope="module")
def variants(chains):
    return build(chains, 1, count=1000, per_chain=20)


def test_every_step_of_a_variant_is_right_and_the_last_is_the_answer(variants):
    for example in variants[0]:
        assert all(DOMAIN.check(step) is None and DOMAIN.unchecked(step) is None for step in example.steps)
        assert tuple(DOMAIN.split(example.chain)) == example.steps
        assert DOMAIN.same(example.steps[-1].rpartition("=")[2], example.answer)
        assert "-" not in "".join(step.partition("=")[2] for step in example.steps)


def test_variants_are_distinct_and_none_repeats_an_original_question(chains, variants):
    questions = {digest(e.question) for e in variants[0]}
    assert len(questions) == len(variants[0]) == variants[1].written
    assert not questions & {digest(e.question) for e in chains}


def test_integer_results_stay_integers_of_comparable_size(variants):
    found, _ = variants
    for row, example in zip(found.rows, found, strict=True):
        results, was = [step.rpartition("=")[2] for step in example.steps], found.plans[row].template.results
        for now, old in zip(results, was, strict=True):
            assert "." not in now or now.endswith(".00") or not isinstance(old, int)
        # one in twenty has a large number; the others are within a factor of five, or small
        if not re.search(r"\d{4}|\d,\d", example.question):
            assert float(results[-1]) <= max(5 * was[-1], 12)


def test_only_the_numbers_of_a_question_change(variants):
    found, _ = variants
    number = re.compile(rf"[\d,]*\.?\d+|\b(?:{'|'.join(sorted(WORDS, key=len, reverse=True))})\b", re.IGNORECASE)
    for row, example in zip(found.rows, found, strict=True):
        was = found.plans[row].template.example.question
        assert number.sub("#", example.question) == number.sub("#", was)


@pytest.mark.slow
def test_variants_are_a_function_of_seed_and_row(chains, variants):
    report = AugmentReport()
    plans = make_plans(chains, report)
    again = [example for _, _, example in generate_variants(plans, 1, report, count=1000, per_chain=20)]
    assert again == list(variants[0]) and variants[0][17] == again[17] and variants[0][5:8] == again[5:8]
    assert build(chains, 2, count=300, per_chain=20)[0].sha256 != build(chains, 1, count=300, per_chain=20)[0].sha256


def test_implied_numbers_stay_and_repeated_mentions_change_together():
    found, _ = build([PENS], 3, count=None, per_chain=30, large=0)
    assert len(found) == 30
    for example in found:
        boxes, pens, friends, again = (int(n) for n in re.findall(r"\d+", example.question))
        assert friends == again and "gives half" in example.question
        # boxes * pens / 2 / friends
        assert int(example.answer) * 2 * friends == boxes * pens


def test_the_article_matches_the_number():
    trail = Example("Ann rides an 18 mile trail 25 times. How far?", ("18*25=450",), "450", "toy:6", "<<18*25=450>>")
    found, _ = build([trail], 3, count=None, per_chain=60, large=0)
    # of the numbers from 8 to 45, only these take `an`
    assert {re.search(r"an (\d+) mile", e.question)[1] for e in found} == {"8", "11", "18"}


def test_percentages_keep_their_range_and_format():
    found, _ = build([CARS], 3, count=None, per_chain=30, large=0)
    for example in found:
        cars, percent = (int(n) for n in re.findall(r"\d+", example.question))
        assert percent % 5 == 0 and 5 <= percent <= 95
        assert int(example.answer) * 100 == cars * percent
        assert re.fullmatch(rf"{cars}\*\.\d\d?=\d+", example.steps[0])


def test_the_share_of_large_numbers_is_limited():
    toy = Example("Tom has 40 cars and Ann has 35 cars. How many?", ("40+35=75",), "75", "toy:3", "<<40+35=75>>")
    large = re.compile(r"\d{4}|\d,\d")
    found, _ = build([toy], 3, count=None, per_chain=100, large=0.3)
    # at most 30 of 100, though small numbers run out and large ones do not
    assert 20 <= sum(bool(large.search(e.question)) for e in found) <= 30
    assert not any(large.search(e.question) for e in build([toy], 3, count=None, per_chain=50, large=0)[0])


def test_a_shortfall_of_one_chain_is_made_up_by_others():
    few = Example("It costs $3 for each of the four weeks.", ("3*4=12",), "12", "toy:4", "<<3*4=12>>")
    report = AugmentReport()
    plans = make_plans([few, PENS], report)
    got = list(generate_variants(plans, 1, report, count=200, per_chain=200))
    assert len(got) == 200 and report.short == 1 and report.used == 2


def test_drawing_from_many_chains_at_a_time_changes_nothing():
    class Many(Work):
        window = 30

    few = Example("It costs $3 for each of the four weeks.", ("3*4=12",), "12", "toy:4", "<<3*4=12>>")
    found = []
    for work in (Work(), Many()):
        report = AugmentReport()
        plans = make_plans([few, *generate(40, 1)], report, work=work)
        rows = list(generate_variants(plans, 1, report, count=800, per_chain=30, work=work))
        found.append((rows, report))
    assert found[0] == found[1] and found[0][1].short > 0


def test_chains_that_differ_only_in_numbers_are_used_once():
    twin = Example(CARS.question.replace("40", "60"), ("60*.15=9",), "9", "toy:5", "<<60*.15=9>>")
    _, report = build([CARS, twin], 1, count=10, per_chain=10)
    assert report.used == 1 and sum(report.left_out.values()) == 1


@pytest.mark.parametrize(
    ("real", "rows", "held_out", "least"),
    [(False, 10, 4, 6), pytest.param(True, 7378, 494, 3700, marks=pytest.mark.slow)],  # rows with steps
    ids=["invented", "real"],
)
def test_most_chains_can_be_augmented_and_none_of_a_held_out_question(
    data, benchmark_data, real, rows, held_out, least
):
    folder = benchmark_data("gsm8k-train", "gsm8k-aug-valid") if real else data
    train = read("gsm8k-train", DOMAIN, skip_bad=True, data_dir=folder).examples
    valid = {digest(e.question) for e in read("gsm8k-aug-valid", DOMAIN, need_steps=False, data_dir=folder).examples}
    report = AugmentReport()
    plans = make_plans(train, report, lambda e: "held out" if digest(e.question) in valid else None)
    assert report.left_out["held out"] == held_out and report.rows == rows
    assert least <= len(plans) == report.used == rows - sum(report.left_out.values())
    assert not any(digest(plan.template.example.question) in valid for plan in plans)


def test_a_source_entry_can_ask_for_augmentation(data):
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
    with pytest.raises(UserError, match="augment is for training data only"):
        open_source(config, DOMAIN, skip_bad=True, split="valid")


def test_variants_do_not_depend_on_whether_the_method_needs_steps(tmp_path):
    rows = [
        {"question": "Who is Tom?", "answer": "He has 4.\n#### 4"},
        {"question": "Ann has 31 red and 45 blue cars. How many?", "answer": "<<31+45=76>>\n#### 76"},
    ]
    (tmp_path / "some.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    source = SourceConfig(source=str(tmp_path / "some.jsonl"), augment=5, seed=1)
    opened = (open_source(source, DOMAIN, need_steps=need, skip_bad=True, split="train") for need in (True, False))
    found = [list(one.examples) for one in opened]
    assert found[0] == found[1] and len(found[0]) == 5
