"""What the README says to type is typed, and what it shows is what comes out."""

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = [
    shlex.split(line, comments=True)
    for language, text in BLOCKS
    if language == "bash"
    for line in text.splitlines()
    if line.startswith("ruplar ")
]
RECIPES = [words for words in COMMANDS if words[1] == "train"]
RUNNABLE = [words for words in COMMANDS if "embedded" in " ".join(words) or words[1] == "preview"]
[RELEASED] = [words for words in COMMANDS if words[1] == "ask"]
SHORT = {"train": ["training.max_steps=1", "--device", "cpu"], "evaluate": ["--limit", "4", "--device", "cpu"]}
USE, TRAIN = (text for language, text in BLOCKS if language == "python")


def test_there_is_something_to_run():
    assert {words[1] for words in RUNNABLE} == {"preview", "train", "evaluate"} and len(RECIPES) >= 3


@pytest.mark.parametrize(
    "words", [pytest.param(w, marks=[pytest.mark.slow] * (w[1] == "train"), id=" ".join(w)) for w in RUNNABLE]
)
def test_a_command_of_the_page_runs(words, ruplar):
    said = ruplar(*words[1:], *SHORT.get(words[1], []))
    assert said.code == 0 and len(said.out) > 20, said.err


@pytest.mark.parametrize("words", RECIPES, ids=" ".join)
def test_a_recipe_of_the_page_is_one_and_its_settings_exist(words):
    from ruplar.config import load_recipe

    assert load_recipe(words[2], words[3:], check_files=False).name == words[2]


@pytest.mark.slow
def test_the_released_model_says_what_the_page_shows(smollm2, ruplar):
    [shown] = (text for language, text in BLOCKS if language == "text")
    said = ruplar("ask", ROOT / RELEASED[2], RELEASED[3], "--device", "cpu").out
    assert _held(shown) == _held(said) == ["* 3", "- 36"] and "answer  26" in shown and "answer  26" in said


def _held(text: str) -> list[str]:
    """The symbols that share each soft token, a near tie in either order."""
    lines = re.findall(r"^ +z\d +[█░]+ +(.*)entropy", text, re.MULTILINE)
    shares = [dict(zip(words[::2], map(float, words[1::2]), strict=True)) for words in map(str.split, lines)]
    return [" ".join(sorted(symbol for symbol, share in one.items() if share > 0.2)) for one in shares]


def test_the_python_of_the_page_answers(capsys):
    exec(compile(USE, "README.md", "exec"), {})
    # three bags of four: one soft token, favouring the result
    assert capsys.readouterr().out.split() == ["12", "['12']"]


@pytest.mark.slow
def test_the_python_of_the_page_trains_until_it_answers(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(TRAIN, "README.md", "exec"), {})
    assert capsys.readouterr().out == "\\boxed{28}\n"  # seven bags of four


def test_the_make_targets_of_the_page_exist():
    rules = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = re.findall(r"\bmake (\w+)", PAGE)
    assert named and [target for target in named if f"\n{target}:" not in rules] == []
