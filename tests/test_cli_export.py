"""`ruplar export --card`, as it is typed."""

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml
from cases import cases

from ruplar.model.store import find_model

EMBEDDED = Path(__file__).parents[1] / "results" / "embedded"
MODEL = "embedded:ruplar"
RUN = ("--run", EMBEDDED / "embedded-ruplar-seed777")


@pytest.mark.slow
def test_export_writes_a_card_beside_the_weights_and_what_it_says_to_type_works(ruplar, refused, tmp_path, capsys):
    words = ("--no-merge", "--card", EMBEDDED, *RUN, "--license", "apache-2.0")
    assert "bare/README.md" in ruplar("export", MODEL, "bare", *words).out
    text = (tmp_path / "bare" / "README.md").read_text(encoding="utf-8")
    about = yaml.safe_load(text.split("---\n")[1])
    assert about["library_name"] == "peft" and about["license"] == "apache-2.0"
    # 474 of 500 questions
    assert about["model-index"][0]["results"][0]["metrics"][0]["value"] == 94.8
    assert "a LoRA adapter of 3.6 MB for `embedded`, a language model of 5 million parameters" in text
    assert "| No-CoT | word-problems | 500 |" in text
    for place in (tmp_path, Path.home(), EMBEDDED.parents[1]):
        assert f"{place}/" not in text
    exec(compile(re.search(r"```python\n(.*?)```", text, re.S)[1], "README.md", "exec"), {})
    assert capsys.readouterr().out.split("\n")[0] == "53 ['21', '32', '53']"

    # the folder as MODEL: the card alone is made again, and only with --force; the weights stay
    weights = (tmp_path / "bare" / "adapter_model.safetensors").stat().st_mtime_ns
    again = ("export", "bare", "bare", "--card", *RUN)
    assert re.search("README.md: exists.*--force", refused(*again))
    assert ruplar(*again, "--force").code == 0
    again = (tmp_path / "bare" / "README.md").read_text(encoding="utf-8")
    assert "| No-CoT" not in again and "peft" in again
    assert (tmp_path / "bare" / "adapter_model.safetensors").stat().st_mtime_ns == weights
    assert "bare exists and is not empty" in refused("export", MODEL, "bare", "--card", *RUN, "--force")


def test_the_run_beside_a_model_is_enough_for_its_card(ruplar):
    shutil.copytree(find_model(MODEL), "run/model")
    shutil.copytree(EMBEDDED / "embedded-ruplar-seed777", "run", dirs_exist_ok=True)
    assert ruplar("export", "run", "merged", "--card").code == 0
    text = Path("merged/README.md").read_text(encoding="utf-8")
    assert "library_name: transformers" in text and "# merged\n" in text and "embedded-no_cot" not in text


def test_mistakes_are_told_before_anything_is_written(refused, tmp_path):
    record = json.loads((EMBEDDED / "embedded-ruplar-seed777" / "run.json").read_text(encoding="utf-8"))
    (tmp_path / "dirty").mkdir()
    (tmp_path / "dirty" / "run.json").write_text(json.dumps(record | {"dirty": True}), encoding="utf-8")
    for words, why in cases(__file__, "mistakes"):
        given = [word.replace("RESULTS", str(EMBEDDED)) for word in words]
        assert re.search(why, refused("export", MODEL, "out", *given))
    assert not Path("out").exists()
