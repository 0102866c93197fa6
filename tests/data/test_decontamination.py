"""Training questions that equal a test question, share 13 consecutive words with one, or differ only in numbers."""

from collections import Counter
from pathlib import Path

import pytest
from cases import cases

from ruplar import plugins
from ruplar.data.decontamination import EQUAL, MASKED, PASSAGE, Index, index_of, why_not_train, words
from ruplar.data.read import read
from ruplar.errors import UserError

RESULTS = Path(__file__).parents[2] / "results"
DOMAIN = plugins.make("domains", "arithmetic")
TEST = "Ann has 1,200 red cars and she sells 5 of them to Tom's friend on Monday. How many are left?"


@pytest.fixture
def index():
    found = Index()
    found.add("mine", TEST)
    found.add("mine", "What is 3 + 4?")
    return found


def shared(index, examples):
    """What is shared → the number of questions."""
    hits = (index.hit(example.question) for example in examples)
    return Counter(hit for hit in hits if hit is not None)


def test_the_normal_form_has_only_words_and_numbers():
    assert words("Tom's  $1,200.50 – 3/4, OK?") == ["toms", "1200.50", "3", "4", "ok"]


def test_an_equal_question_is_found_whatever_its_case_and_punctuation(index):
    same = "ann has 1200 red cars, and she sells 5 of them to Toms friend on monday -- how many are left"
    # the latter is too short for a passage
    assert index.hit(same) == index.hit("what is 3 4") == f"{EQUAL} as in mine"


def test_thirteen_words_in_a_row_are_a_hit_and_twelve_are_not(index):
    shared = "she sells 5 of them to Tom's friend on Monday. How many are left"  # 13 words
    assert len(words(shared)) == 13 + 1
    assert index.hit(f"Bob and Eve: {shared} now") == f"{PASSAGE} as in mine"
    assert index.hit("Bob: sells 5 of them to Tom's friend on Monday. How many are now") is None


def test_other_numbers_are_a_hit_only_when_masked(index):
    changed = TEST.replace("1,200", "37").replace("5", "8")
    assert index.hit(changed) is None and index.hit(changed, augmented=True) == f"{MASKED} as in mine"


def test_a_test_set_that_cannot_be_read_is_an_error(tmp_path):
    with pytest.raises(
        UserError, match="'nowhere.jsonl' cannot be read, so training data cannot be checked against it"
    ):
        index_of(["nowhere.jsonl"], DOMAIN)
    with pytest.raises(UserError, match="no test set is given"):
        index_of([], DOMAIN)


@pytest.mark.parametrize(
    ("real", "rows", "hits"),
    [(False, 12, 1), pytest.param(True, 7473, 4, marks=pytest.mark.slow)],
    ids=["invented", "real"],
)
def test_passages_that_gsm8k_shares_with_its_test_set_are_counted(data, benchmark_data, real, rows, hits):
    sets = ["gsm8k-aug", "gsm-hard", "svamp", "multiarith"]
    folder = benchmark_data("gsm8k-train", *sets) if real else data
    index = index_of(sets, DOMAIN, folder)
    examples = read("gsm8k-train", DOMAIN, need_steps=False, data_dir=folder).examples
    assert shared(index, examples) == {f"{PASSAGE} as in gsm8k-aug": hits} and len(examples) == rows
    assert set(index.sets) == set(sets) and all(record["sha256"] for record in index.sets.values())


@pytest.mark.parametrize(("source", "why"), cases(__file__, "why_not_train"))
def test_sets_with_test_or_selection_questions_are_known_by_name_file_and_hub_address(source, why):
    found = why_not_train(source)
    assert found is None if why is None else why in found


@pytest.mark.slow
def test_generated_problems_share_nothing_with_the_test_sets(benchmark_data):
    from ruplar.problems.drills import generate as drills
    from ruplar.problems.word_problems import SHORT, SITUATIONS, generate

    rows = [*generate(3000, 1, families=SHORT), *generate(3000, 1, families=SITUATIONS), *drills(500, 1)]
    sets = ["svamp", "multiarith", "gsm8k-aug"]
    assert not shared(index_of(sets, DOMAIN, benchmark_data(*sets)), rows)


def test_scores_can_leave_out_questions_near_a_training_problem():
    from scripts import script

    from ruplar.evaluate.record import read_record

    near, scores = script("near_questions").near, script("near_questions").scores
    problems = ["Ann had 7 red apples and 9 green apples in a bowl."]
    asked = {"toy": ["Bob had 3 red apples and 12 green apples in a box.", "Bob had 3 red pears and 12 green apples."]}
    assert near(problems, asked, 8) == {"toy": {0}}  # `had # red apples and # green apples`
    assert near(problems, asked, 11) == {"toy": set()}
    record = RESULTS / "smollm2" / "CoT-SFT_(canonical_operands)-seed1"
    [svamp] = [result for result in read_record(record).benchmarks if result.name == "svamp"]
    whole, rest = scores(record, "svamp", set(range(500)))
    assert whole == pytest.approx(100 * svamp.correct / svamp.n) and rest != whole
    assert scores(record, "svamp", set()) == (whole, whole)
