"""The domain that docs/extending.md builds: its files are taken from the page and its commands are typed, with a tiny budget."""

import json
import subprocess
import sys

import pytest

from ruplar import plugins
from ruplar.errors import UserError

pytestmark = pytest.mark.usefixtures("walk")


@pytest.fixture
def units():
    return plugins.make("domains", "extras.units")


def test_the_domain_of_the_page_reads_its_own_example(units):
    chain, answer = units.EXAMPLE
    steps = units.split(chain)
    assert units.symbols(steps[0]) == ["2", " hours", "=", "2", "*", "60", " minutes", "=", "120", " minutes"]
    assert units.result(steps[0]) == ["120"]
    assert [units.check(step) for step in steps] == [units.unchecked(step) for step in steps] == [None, None]
    assert units.same("".join(units.result(steps[-1])), answer) and units.extract(answer) == answer


def test_a_wrong_step_and_one_that_cannot_be_carried_out_are_told_apart(units):
    assert units.check("2 hours = 2 * 60 minutes = 130 minutes") == "2 * 60 minutes is not 130 minutes"
    assert units.check("2 hours = 130 meters") is None
    assert units.unchecked("2 hours = 130 meters") == "'130 meters' is no amount"
    assert units.unchecked("2 hours") == "it states no result"
    assert units.same("3 hours", "180 minutes") and units.same("180", "180 minutes")
    assert not units.same("3 yards", "108 minutes") and not units.same("181", "180 minutes")
    assert units.extract("about noon") is None


@pytest.mark.slow
def test_the_walk_can_be_followed_command_by_command(walk, blocks, follow):
    first, _, commands = blocks["units"].partition("\n")
    assert first == "python extras/write_units.py"
    subprocess.run([sys.executable, "extras/write_units.py"], check=True)
    rows = [json.loads(line) for name in ("train", "test") for line in (walk / f"units-{name}.jsonl").open()]
    assert len({row["question"] for row in rows}) == len(rows), "no question is in both files"
    budget = {"train": ["training.max_steps=3", "training.warmup_steps=1"], "evaluate": ["--limit", "8"]}
    check, preview, before, trained, after, asked = [said for _, said in follow(commands, budget)]
    assert "2,500 of 2,500 rows have a usable chain" in check and "5,000 steps recomputed and right" in check
    assert "0 steps that cannot be checked" in check and "as marked" in check and "result:" in check
    assert any(unit in preview for unit in ("minutes", "hours", "feet", "ounces", "days"))
    assert "units-test" in before and "units-test" in after and "runs/units/model" in trained
    assert "soft token" in asked
    card = json.loads((walk / "runs" / "units" / "model" / "ruplar.json").read_text())
    assert card["domain"]["name"] == "extras.units"


def test_a_domain_that_lacks_a_method_is_told_which(walk, blocks):
    text = blocks["extras/units.py"].replace("def unchecked", "def never_asked")
    (walk / "extras" / "partial.py").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match="'extras.partial' has a Domain without unchecked"):
        plugins.load("domains", "extras.partial")


def test_a_rule_beside_the_class_converts_prose(walk, blocks):
    from ruplar.data.convert.prose import read_prose
    from ruplar.data.convert.run import convert

    rule = """

def from_prose(question, reasoning):
    return reasoning.replace(" are ", " = ") or None
"""
    (walk / "extras" / "told.py").write_text(blocks["extras/units.py"] + rule, encoding="utf-8")
    row = {"question": "3 hours?", "reasoning": "3 hours are 180 minutes", "answer": "180 minutes"}
    (walk / "prose.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    found = convert(read_prose(walk / "prose.jsonl"), walk / "out.jsonl", "extras.told")
    assert found.converted == 1
    assert json.loads((walk / "out.jsonl").read_text())["solution"] == "3 hours = 180 minutes"
