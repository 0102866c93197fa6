"""The scripts of examples/ run as they are and show what they promise; the notebooks have the same cells."""

import json
import re
import runpy
from pathlib import Path

import pytest
from scripts import script as benchmark_script

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Name of a script → what it prints."""
    monkeypatch.chdir(tmp_path)

    def script(name: str) -> str:
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out

    return script


def test_every_script_is_run_here():
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert {path.stem for path in EXAMPLES.glob("*.py")} <= tested


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.py")), ids=lambda file: file.stem)
def test_a_notebook_has_the_cells_of_its_script_and_shows_their_output(file):
    made = json.loads(file.with_suffix(".ipynb").read_text(encoding="utf-8"))["cells"]
    shown = [(cell["cell_type"], "".join(cell["source"])) for cell in made]
    wanted = benchmark_script("notebooks").cells(file.read_text(encoding="utf-8"))
    assert shown == wanted, "run benchmarks/notebooks.py"
    assert any(cell.get("outputs") for cell in made)
    assert not any(one["output_type"] == "error" for cell in made for one in cell.get("outputs", []))


@pytest.mark.slow
def test_look_at_thoughts(run):
    said = run("look_at_thoughts")
    assert re.search(r"soft token 1: 36 0\.\d\d", said) and "answer 26, after 5 forward passes" in said
    right = {mode: int(count) for mode, count in re.findall(r"^(\w+) +(\d+) of 20 correct", said, re.M)}
    assert right["real"] >= 16 and right["shuffled"] <= 4, "the answer is computed from the soft tokens"


@pytest.mark.slow
def test_compare_with_text(run):
    rows = dict(re.findall(r"^(\w+ \w+) \(.*?\) +([\d.]+%.*)$", run("compare_with_text"), re.M))
    accuracy = {name: float(row.partition("%")[0]) for name, row in rows.items()}
    forwards = {name: float(row.split()[-1]) for name, row in rows.items()}
    assert accuracy["soft tokens"] > accuracy["direct answer"] + 20
    assert forwards["written chain"] > 3 * forwards["soft tokens"]


@pytest.mark.long
def test_train_your_chains(run):
    said = run("train_your_chains")
    before, after = map(int, re.search(r"correctly: (\d+)% before, (\d+)% after", said).groups())
    assert before <= 20 and after >= 70
