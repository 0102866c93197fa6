"""Word problems and drills: every problem is valid, its English clean, its numbers small; what `write_jsonl` does."""

import json
import re

import pytest
from checking import word_problem_fault

from ruplar import plugins
from ruplar.problems import drills, word_problems
from ruplar.problems.word_problems import DRILLS, FAMILIES, SHORT, TRAIN_FAMILIES, generate
from ruplar.types import Example

TRAINED_ON = """
ages averages bakery classroom collecting comparing cooking factory farm floors harvest passengers points reading sales savings
shopping stock tank travel wages
"""


@pytest.fixture(scope="module")
def problems():
    """Problems of the default families."""
    return list(generate(8000, 9))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_problem_of_a_family_is_valid_and_clean_english(family):
    for e in generate(250, 11, families=[family]):
        assert word_problem_fault(e) is None, (e, word_problem_fault(e))
        q = e.question
        assert not re.search(r"[{}]|  | [.,?]|\.\.|\b[Aa] [aeiou]|\b[Aa]n (?!hour)[^aeiou]", q), q
        assert q[0].isupper() or q[0].isdigit() or q[0] == "$", q
        assert all(s[0].isupper() or s[0].isdigit() for s in re.split(r"[.?] ", q)), q
        assert q[-1] in ".?" and (family in DRILLS or q[-1] == "?"), q
        assert not re.search(r"\b1 [a-z]+s\b", q), q


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_writes_every_number_of_steps_of_its_range(family):
    low, high = FAMILIES[family].steps
    assert len(FAMILIES[family].about) > 20
    for n in range(low, high + 1):
        assert {len(e.steps) for e in generate(10, 3, families=[family], steps=(n, n))} == {n}


def test_other_families_do_not_change_the_default_problems():
    # recorded results and shipped weights were made with these; short ones and situations are used by name only
    assert TRAINED_ON.split() == list(TRAIN_FAMILIES)
    assert len(SHORT) >= 12 and all(FAMILIES[name].steps[1] <= 2 for name in SHORT)


def test_numbers_are_small(problems):
    for e in (*problems[:2000], *generate(1000, 2, families=list(FAMILIES))):
        assert max(int(n) for n in re.findall(r"\d+", e.question + " " + e.chain)) <= 999
        assert 1 <= int(e.answer) <= 999
    for step in (step for e in problems[:2000] for step in e.steps):
        if m := re.fullmatch(r"(\d+)([*/])(\d+)=\d+", step):
            a, b = int(m[1]), int(m[3])
            assert min(a, b) <= 12 or b % 10 == 0 or a % 5 == 0, step


def test_the_number_words_of_the_potion_shop_occur_in_no_training_family(problems):
    text = " ".join(e.question for e in problems).lower()
    seen = set(re.findall(r"[a-z]+", text))
    assert not seen & set(FAMILIES["potion_shop"].constants)


def test_written_file_holds_problem_solution_answer(tmp_path):
    examples = list(generate(3, 1))
    assert word_problems.write_jsonl(tmp_path / "a.jsonl", examples) == 3
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert rows == [{"problem": e.question, "solution": e.chain, "answer": e.answer} for e in examples]


def test_a_lone_surrogate_is_escaped(tmp_path):
    word_problems.write_jsonl(tmp_path / "a.jsonl", [Example("Half \ud800 of é", ("12+5=17",), "17")])
    text = (tmp_path / "a.jsonl").read_text(encoding="utf-8")
    assert "\\ud800 of é" in text and json.loads(text)["problem"] == "Half \ud800 of é"


def test_every_drill_re_executes_and_ends_in_its_answer():
    domain = plugins.make("domains", "arithmetic")
    for e in drills.generate(1500, 1):
        assert all(domain.check(s) is None and domain.unchecked(s) is None for s in e.steps), e
        assert e.steps[-1].endswith(f"={e.answer}") and tuple(domain.split(e.chain)) == e.steps
        assert not re.search(r"[{}]|  |=-", e.question + e.chain) and len(e.steps) <= 2
