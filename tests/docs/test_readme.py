"""What the README says to type is typed, its links lead somewhere, and its table of verbs is the command's own."""

from __future__ import annotations

import re
import shlex
import sys
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
# the others name a model of the Hub, or a run that is trained from one; their recipes are checked below
RUNNABLE = [words for words in COMMANDS if "embedded" in " ".join(words) or words[1] in ("preview", "list", "data")]
RECIPES = [words for words in COMMANDS if words[1] == "train"]
RELEASED = {words[2]: words for words in COMMANDS if words[1] == "ask" and words[2].startswith("models/")}
PLANNED, LATENT, LONGER, WRITTEN = (
    f"models/smollm2-135m-{name}" for name in ("ruplar", "ruplar-results", "ruplar-2", "cot")
)
SHORT = {"train": ["training.max_steps=1", "--device", "cpu"], "ask": ["--device", "cpu"]}
SHORT["evaluate"] = ["--limit", "4", "--device", "cpu"]


def test_there_is_something_to_run():
    assert (
        {words[1] for words in RUNNABLE} >= {"ask", "preview", "evaluate", "train"}
        and len(RECIPES) >= 3
        and RELEASED.keys() == {PLANNED, LATENT, LONGER, WRITTEN}
    )


REAL = {
    "written chain (CoT-SFT)": "CoT-SFT tales",
    "written chain, its operands in one order": "CoT-SFT read",
    "soft tokens that plan, taught by the latter, the question written twice": "RuPLaR-plan-2 read twice",
    "a soft token an operation (RuPLaR-plus)": "RuPLaR-plus tales",
    "CoLaR-2, of the other latent methods the best on narrower data (one seed)": "CoLaR-2 tales",
    "direct answer (No-CoT)": "No-CoT tales",
}
"""Row of the page's table of the real model → the row of docs/results.md, made from the records, that it tells."""


@pytest.mark.parametrize(("row", "method"), REAL.items(), ids=REAL.values())
def test_the_table_of_the_real_model_is_that_of_the_results(row, method):
    said = [cell.strip() for cell in re.search(rf"^\| {re.escape(row)} \|(.*)\|$", PAGE, re.MULTILINE)[1].split("|")]
    results = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    made = re.search(
        rf"^\| {re.escape(method)} \| smollm2-135m-instruct \| \d \| (.* % of .*|.* –) \|$", results, re.MULTILINE
    )
    accuracy, latents, _, forwards, kept = (cell.strip() for cell in made[1].split("|"))
    assert (said[0], said[2]) == (accuracy, forwards) and said[3] == _of(kept)
    assert said[1] == "–" or float(said[1]) == pytest.approx(float(latents), abs=0.05)


def _of(kept: str) -> str:
    """A share of the written chain as the page tells it: of the first one, unless it says which."""
    return kept.removesuffix(" of CoT-SFT tales").replace("CoT-SFT read", "the latter").strip("–")


@pytest.mark.parametrize("words", RUNNABLE, ids=" ".join)
def test_a_command_of_the_page_runs(words, tmp_path, monkeypatch, capsys):
    from ruplar.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [*words, *SHORT.get(words[1], [])])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code and len(capsys.readouterr().out) > 20


@pytest.mark.parametrize("words", RECIPES, ids=" ".join)
def test_a_recipe_of_the_page_is_one_and_its_settings_exist(words):
    from ruplar.config import load_recipe

    config = load_recipe(words[2], words[3:], check_files=False)
    assert config.name == words[2]


@pytest.fixture
def asked(smollm2, monkeypatch, capsys):
    """Type what the page says to ask a released model; what is said."""
    from ruplar.cli import main

    def ask(model: str) -> str:
        monkeypatch.chdir(ROOT)
        monkeypatch.setattr(sys, "argv", [*RELEASED[model], "--device", "cpu"])
        with pytest.raises(SystemExit) as end:
            main()
        assert not end.value.code
        return capsys.readouterr().out

    return ask


@pytest.mark.slow
def test_the_released_models_say_what_the_page_shows(asked):
    planned, short, long = (text for language, text in BLOCKS if language == "text")
    assert _favoured(short) == _favoured(asked(LATENT)) == ["z1 36", "z2 26", "answer 26"]
    said = asked(PLANNED)
    assert _held(planned) == _held(said) == ["* 3", "- 36"] and "answer  26" in planned and "answer  26" in said
    said = asked(LONGER)
    assert _held(long) == _held(said) == ["* 3", "12 =", "36", "- 36", "10 =", "26"] and "answer  26" in said


@pytest.mark.slow
def test_the_written_chain_beside_it_writes_the_same_steps(asked):
    assert "<<3*12=36>> <<36-10=26>>" in (said := asked(WRITTEN)) and _favoured(said) == ["answer 26"]


def _favoured(text: str) -> list[str]:
    """What each soft token favours most, and the answer."""
    return [f"{a} {b}" for a, b in re.findall(r"^ +(z\d|answer) +(?:[█░]+ +)?(\d+)", text, re.MULTILINE)]


def _held(text: str) -> list[str]:
    """The symbols that share each soft token, a near tie in either order."""
    lines = re.findall(r"^ +z\d +[█░]+ +(.*)entropy", text, re.MULTILINE)
    shares = [dict(zip(words[::2], map(float, words[1::2]), strict=True)) for words in map(str.split, lines)]
    return [" ".join(sorted(symbol for symbol, share in one.items() if share > 0.2)) for one in shares]


OTHERS = [w for w in COMMANDS if w not in RUNNABLE and w not in RECIPES and w not in RELEASED.values()]


@pytest.mark.parametrize("words", OTHERS, ids=" ".join)
def test_the_sets_of_the_page_are_known(words):
    from ruplar.data.locations import KNOWN_SETS

    assert words[1] == "evaluate"
    assert [name for name in words[words.index("--on") + 1].split(",") if name not in KNOWN_SETS] == []


def test_the_python_of_the_page_runs(capsys):
    [code] = [text for language, text in BLOCKS if language == "python"]
    exec(compile(code, "README.md", "exec"), {})
    # three bags of four: one soft token, favouring the result
    assert capsys.readouterr().out.split() == ["12", "['12']"]


def test_links_within_the_repository_lead_somewhere():
    targets = [link for link in re.findall(r"\]\(([^)#]+)", PAGE) if "://" not in link]
    assert "docs/method.md" in targets
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_the_table_of_verbs_is_the_commands_own():
    import typer.main

    from ruplar.cli import app

    named = set(re.findall(r"^\| `ruplar (\w+)", PAGE, re.MULTILINE))
    assert named == set(typer.main.get_command(app).commands)
    [line] = re.findall(r"^\| `ruplar data ([\w /]+)`", PAGE, re.MULTILINE)
    assert set(line.split(" / ")) == set(typer.main.get_command(app).commands["data"].commands)


def test_the_make_targets_of_the_page_exist():
    rules = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert [t for t in re.findall(r"\bmake (demo|test|check|quick)\b", PAGE) if f"\n{t}:" not in rules] == []
