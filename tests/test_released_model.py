"""The models under models/: their answers, token for token, and the recipe and study row that made them."""

import json
import shutil
from pathlib import Path

import pytest
import yaml
from scripts import script as load_script

from ruplar.config import from_dict, load_recipe
from ruplar.evaluate.record import RECORD, RunRecord, differences, read_record
from ruplar.experiments.plan import load_study, plan
from ruplar.experiments.study import folder_name
from ruplar.model.fetch import KNOWN
from ruplar.model.store import find_model
from ruplar.problems.word_problems import SHORT, generate
from ruplar.renamed import upgrade

script = load_script("fixed_answers")
ROOT = Path(__file__).parents[1]
RELEASED = ROOT / "models" / "smollm2-135m-ruplar"
START = ROOT / "models" / "smollm2-135m-cot"
PACKAGED = ("backbone", "no_cot", "ruplar")
OLD_LABELS = {"RuPLaR-plan (canonical operands, question repeated)": "RuPLaR-plan-2 read twice"}
"""Label of a row → its label in earlier records."""


@pytest.mark.slow
@pytest.mark.parametrize("count", [8, pytest.param(64, marks=pytest.mark.long)])
def test_the_released_model_answers_as_recorded(request, benchmark_data, count):
    folder = benchmark_data("svamp")
    request.getfixturevalue("smollm2")  # skips, with the reason, where the backbone cannot be had
    recorded = json.loads((RELEASED / script.FILE).read_text(encoding="utf-8"))
    assert len(recorded["answers"]) == 64
    assert script.differences(recorded, script.answers(RELEASED, folder, count)) == []


@pytest.mark.parametrize("released", [RELEASED, START], ids=lambda folder: folder.name)
def test_a_released_adapter_is_small_and_has_no_path_of_the_machine_it_was_made_on(released):
    assert sum(file.stat().st_size for file in released.rglob("*") if file.is_file()) < 30e6
    config = json.loads((released / "adapter_config.json").read_text(encoding="utf-8"))
    card = json.loads((released / "ruplar.json").read_text(encoding="utf-8"))["backbone"]
    assert config["base_model_name_or_path"] == KNOWN["smollm2-135m-instruct"].hub
    assert card["name"] == "smollm2-135m-instruct" and card["init"] is None


def record_of(label: str, seed: int) -> RunRecord:
    """Return the record of a row with a seed, wherever it is under results/."""
    names = {folder_name(name, seed) for name in (label, OLD_LABELS.get(label, label))}
    [file] = [file for name in names for file in (ROOT / "results").glob(f"*/{name}/{RECORD}")]
    return read_record(file)


def settings(config: dict) -> dict:
    """Return a config in today's terms, without the recipe's name and with the name of its start instead of a path."""
    found = {key: value for key, value in upgrade(config).items() if key != "name"}
    init = found["backbone"]["init"]
    return found | {"backbone": found["backbone"] | {"init": init and Path(init).name}}


def recipe_in_the_card(folder: Path) -> dict:
    """Return the recipe that a model card prints, with the defaults filled in."""
    text = (folder / "README.md").read_text(encoding="utf-8")
    return from_dict(yaml.safe_load(text.split("```yaml\n")[1].split("```")[0])).as_dict()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_row_and_the_recipe_of_the_released_soup_are_those_of_its_records(seed):
    soup = json.loads((RELEASED / "average.json").read_text(encoding="utf-8"))
    assert [one["seed"] for one in soup["models"]] == [1, 2, 3]
    assert soup["models"][seed - 1]["name"] == folder_name(soup["row"], seed)
    cells = plan(load_study(soup["study"]), check_files=False)
    [cell] = [cell for cell in cells if (cell.label, cell.seed) == (soup["row"], seed)]
    recipe = load_recipe("smollm2-plan", [f"seed={seed}"], check_files=False)
    record = record_of(soup["row"], seed)
    assert settings(cell.config.as_dict()) == settings(recipe.as_dict()) == settings(record.config)
    assert settings({**recipe_in_the_card(RELEASED), "seed": seed}) == settings(record.config)
    assert record.data["start: runs/smollm2-cot-seed777"] == soup["start"]


RECIPES = {f"embedded-{m}": f"embedded/embedded-{m}" for m in PACKAGED}
RECIPES["smollm2-cot"] = "backbones/smollm2-cot-again"


@pytest.mark.parametrize("name", RECIPES)
def test_the_recipe_of_the_released_start_and_of_each_packaged_model_is_that_of_its_record(name):
    record = read_record(ROOT / "results" / f"{RECIPES[name]}-seed777" / RECORD)
    recipe = load_recipe(name, ["seed=777"], check_files=False).as_dict()
    assert differences(from_dict(upgrade(record.config)).as_dict(), recipe | {"name": record.config["name"]}) == []
    assert name != "smollm2-cot" or settings(record.config) == settings(recipe_in_the_card(START))


@pytest.mark.slow
def test_the_script_writes_answers_finds_them_again_and_tells_a_difference(tmp_path, monkeypatch, capsys):
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
