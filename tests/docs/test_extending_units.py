"""The domain that docs/extending.md builds: its files are taken from the page and its commands are typed, with a tiny budget."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ruplar import plugins
from ruplar.errors import UserError

PAGE = (Path(__file__).parents[2] / "docs" / "extending.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r'^```(?:python|yaml|sh) title="([\w/. ]+)"\n(.*?)^```$', PAGE, re.M | re.S))


@pytest.fixture(autouse=True)
def walk(tmp_path, monkeypatch):
    """An empty folder with the page's files, from which Python imports."""
    for name in ("extras/units.py", "extras/write_units.py", "units.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(BLOCKS[name], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [n for n in sys.modules if n.partition(".")[0] == "extras"]:
        del sys.modules[name]


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
def test_the_walk_can_be_followed_command_by_command(walk):
    from typer.testing import CliRunner

    from ruplar.cli import app

    commands = [shlex.split(line) for line in BLOCKS["units"].splitlines()]
    assert commands[0] == ["python", "extras/write_units.py"]
    subprocess.run([sys.executable, "extras/write_units.py"], check=True)
    rows = [json.loads(line) for name in ("train", "test") for line in (walk / f"units-{name}.jsonl").open()]
    assert len({row["question"] for row in rows}) == len(rows), "no question is in both files"
    budget = {"train": ["training.max_steps=3", "training.warmup_steps=1"], "evaluate": ["--limit", "8"]}
    said = []
    for place, program, *words in commands[1:]:
        assert (place, program) == ("PYTHONPATH=.", "ruplar")
        done = CliRunner().invoke(app, [*words, *budget.get(words[0], [])])
        assert done.exit_code == 0, f"{words}\n{done.output}\n{done.exception!r}"
        said.append(done.output)
    check, preview, before, trained, after, asked = said
    assert "2,500 of 2,500 rows have a usable chain" in check and "5,000 steps recomputed and right" in check
    assert "0 steps that cannot be checked" in check and "as marked" in check and "result:" in check
    assert "minutes" in preview or "hours" in preview or "feet" in preview or "ounces" in preview or "days" in preview
    assert "units-test" in before and "units-test" in after and "runs/units/model" in trained
    assert "soft token" in asked
    card = json.loads((walk / "runs" / "units" / "model" / "ruplar.json").read_text())
    assert card["domain"]["name"] == "extras.units"


def test_a_domain_that_lacks_a_method_is_told_which(walk):
    text = BLOCKS["extras/units.py"].replace("def unchecked", "def never_asked")
    (walk / "extras" / "partial.py").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match="'extras.partial' has a Domain without unchecked"):
        plugins.load("domains", "extras.partial")


def test_a_rule_beside_the_class_converts_prose(walk):
    from ruplar.data.convert.prose import read_prose
    from ruplar.data.convert.run import convert

    rule = """

def from_prose(question, reasoning):
    return reasoning.replace(" are ", " = ") or None
"""
    (walk / "extras" / "told.py").write_text(BLOCKS["extras/units.py"] + rule, encoding="utf-8")
    row = {"question": "3 hours?", "reasoning": "3 hours are 180 minutes", "answer": "180 minutes"}
    (walk / "prose.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    found = convert(read_prose(walk / "prose.jsonl"), walk / "out.jsonl", "extras.told")
    assert found.converted == 1
    assert json.loads((walk / "out.jsonl").read_text())["solution"] == "3 hours = 180 minutes"
