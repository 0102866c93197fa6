"""The models that ship under models/ answer 64 fixed questions of SVAMP as they did when they were released."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path

import pytest

from ruplar.evaluate.record import read_record, read_samples
from ruplar.model.store import find_model
from ruplar.problems.word_problems import SHORT, generate

ROOT = Path(__file__).parents[1]
RELEASED = {
    ROOT / "models" / "smollm2-135m-ruplar": 64,
    ROOT / "models" / "smollm2-135m-ruplar-results": 8,
    ROOT / "models" / "smollm2-135m-ruplar-2": 8,
}
"""Folder → how many of the 64 questions are asked here: all of the first, of the others enough to know them by."""


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("fixed_answers", ROOT / "benchmarks" / "fixed_answers.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize(("released", "asked"), RELEASED.items(), ids=[folder.name for folder in RELEASED])
def test_a_released_model_answers_as_recorded(script, request, benchmark_data, released, asked):
    folder = benchmark_data("svamp")
    request.getfixturevalue("smollm2")  # skips, with the reason, where the backbone cannot be had
    recorded = json.loads((released / script.FILE).read_text(encoding="utf-8"))
    assert len(recorded["answers"]) == 64
    assert script.differences(recorded, script.answers(released, folder, asked)) == []


BODY, ASKED = "Nina baked 4 trays of 9 rolls.", "How many rolls did she bake?"
SHAPES = {
    "plain": {"question": f"{BODY} {ASKED}", "answer": 36},
    "gsm8k": {"question": f"{BODY} {ASKED}", "answer": "She baked 4*9=<<4*9=36>>36 rolls.\n#### 36"},
    "gsm8k-aug": {"question": f"{BODY} {ASKED}", "cot": "<<4*9=36>>", "answer": "36"},
    "coconut": {"question": f"{BODY} {ASKED}", "steps": ["<<4*9=36>>"], "answer": "36"},
    "svamp": {"ID": "1", "Body": BODY, "Question": ASKED, "Equation": "( 4.0 * 9.0 )", "Answer": 36.0},
    "multiarith": {"question": f"{BODY} {ASKED}", "final_ans": "36"},
    "mawps": {"iIndex": 1, "sQuestion": f"{BODY} {ASKED}", "lEquations": ["X=4*9"], "lSolutions": [36.0]},
    "gsm-hard": {"input": f"{BODY} {ASKED}", "code": "def solution():\n    return 4 * 9", "target": 36.0},
}
"""One question in each shape in which files of problems are published."""


@pytest.mark.slow
def test_a_released_model_is_asked_any_file_of_a_known_shape(ruplar, request, tmp_path):
    request.getfixturevalue("smollm2")
    for shape, row in SHAPES.items():
        (tmp_path / f"{shape}.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    on = ",".join(f"{shape}.jsonl" for shape in SHAPES)
    [released, *_] = RELEASED
    said = ruplar("evaluate", str(released), "--on", on, "--device", "cpu", "--output", "asked")
    assert said.code == 0, said
    found = {result.name: result for result in read_record(tmp_path / "asked").benchmarks}
    assert set(found) == set(SHAPES) and all(result.n == 1 for result in found.values())
    rows = read_samples(tmp_path / "asked")
    # the same question in every shape, so the same answer, graded against the same mark
    assert len(rows) == len(SHAPES) and len({(row["text"], row["correct"], row["latent_count"]) for row in rows}) == 1
    assert all(result.correct == rows[0]["correct"] and result.latents > 0 for result in found.values())


@pytest.mark.parametrize("released", RELEASED, ids=lambda folder: folder.name)
def test_a_released_adapter_is_small_and_names_no_place_of_the_machine_it_was_made_on(released):
    assert sum(file.stat().st_size for file in released.rglob("*") if file.is_file()) < 30e6
    config = json.loads((released / "adapter_config.json").read_text(encoding="utf-8"))
    card = json.loads((released / "ruplar.json").read_text(encoding="utf-8"))["backbone"]
    assert config["base_model_name_or_path"] is None
    assert card["name"] == "smollm2-135m-instruct" and card["init"] is None


def test_the_script_writes_answers_finds_them_again_and_tells_a_difference(script, tmp_path, monkeypatch, capsys):
    import sys

    model = tmp_path / "model"
    shutil.copytree(find_model("embedded:ruplar"), model)
    rows = ({"problem": e.question, "answer": float(e.answer)} for e in generate(64 * 15, 1, families=SHORT))
    (tmp_path / "svamp-test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    words = ["fixed_answers.py", str(model), "--data-dir", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", words)
    script.main()
    recorded = json.loads((model / script.FILE).read_text(encoding="utf-8"))
    assert len(recorded["answers"]) == len(recorded["latents"]) == 64 and "64 answers" in capsys.readouterr().out
    recorded["answers"][2] = "another"
    (model / script.FILE).write_text(json.dumps(recorded), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", [*words, "--check"])
    with pytest.raises(SystemExit) as end:
        script.main()
    told = capsys.readouterr().out.splitlines()
    assert end.value.code and len(told) == 1 and told[0].startswith("question 31: recorded ('another'")
