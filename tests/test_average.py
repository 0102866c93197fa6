"""The mean of several trainings: of the same recipe and the same start, or not at all."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from ruplar.errors import UserError
from ruplar.model.soup import average, seeds_of
from ruplar.model.store import find_model, load_model, read_metadata

WEIGHTS = "adapter_model.safetensors"


@pytest.fixture
def two(tmp_path) -> list[Path]:
    """The embedded model, and one whose weights lie a little beside it, each in a run's folder that names its start."""
    made = []
    for seed in (1, 2):
        run = tmp_path / f"seed{seed}"
        shutil.copytree(find_model("embedded:ruplar"), run / "model")
        (run / "start.json").write_text(json.dumps({"start: runs/cot": "ab12"}), encoding="utf-8")
        (run / "model" / "README.md").write_text(f"seed {seed}", encoding="utf-8")
        made.append(run)
    file = made[1] / "model" / WEIGHTS
    save_file({name: weight + 0.5 for name, weight in load_file(file).items()}, file)
    return made


def test_every_weight_of_a_soup_is_the_mean(two, tmp_path):
    folder = average(two, tmp_path / "mean")
    ours, first = load_file(folder / WEIGHTS), load_file(two[0] / "model" / WEIGHTS)
    assert ours.keys() == first.keys()
    for name, weight in ours.items():
        second = load_file(two[1] / "model" / WEIGHTS)[name].float()
        torch.testing.assert_close(weight, ((first[name].float() + second) / 2).to(first[name].dtype))
    assert read_metadata(folder) == read_metadata(two[0] / "model")
    assert not (folder / "README.md").exists(), "the card of one of them says nothing of the mean"
    assert load_model(folder).method.config.max_latents > 0
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []


def test_a_soup_lists_its_models(two, tmp_path):
    (two[0] / "model" / "average.json").write_text("{}", encoding="utf-8")  # the first is a mean itself
    (two[0] / "model" / "ci-answers.json").write_text("{}", encoding="utf-8")
    folder = average(two, tmp_path / "mean")
    said = json.loads((folder / "average.json").read_text(encoding="utf-8"))
    hashes = [hashlib.sha256((run / "model" / WEIGHTS).read_bytes()).hexdigest() for run in two]
    assert hashes[0] != hashes[1]
    assert said["models"] == [
        {"name": f"seed{n}", "seed": None, "sha256": {WEIGHTS: found}} for n, found in zip((1, 2), hashes, strict=True)
    ]
    assert said["start"] == "ab12" and str(tmp_path) not in json.dumps(said)
    assert not (folder / "ci-answers.json").exists(), "answers of one of them are not the mean's"


def test_seeds_and_start_are_those_of_the_runs_records(two, tmp_path):
    for seed, (run, name) in enumerate(zip(two, ("run.json", "trained.json"), strict=True), start=1):
        (run / "start.json").unlink()
        about = {"seed": seed, "data": {"start: runs/cot": "ab12", "train 1: chains": "ef56"}}
        (run / name).write_text(json.dumps(about), encoding="utf-8")
    folder = average(two, tmp_path / "mean")
    assert seeds_of(folder) == [1, 2] and seeds_of(two[0] / "model") == []
    assert json.loads((folder / "average.json").read_text(encoding="utf-8"))["start"] == "ab12"
    (two[1] / "trained.json").write_text(json.dumps({**about, "data": {"start: runs/cot": "cd34"}}), encoding="utf-8")
    with pytest.raises(UserError, match="started from other weights than"):
        average(two, tmp_path / "other")
    (two[1] / "trained.json").unlink()
    assert seeds_of(average(two, tmp_path / "other")) == [], "of one of them the seed is not known"
    (two[1] / "trained.json").write_text(json.dumps({**about, "mean_of": [2, 3]}), encoding="utf-8")
    assert seeds_of(average(two, tmp_path / "of-a-mean")) == [], "one of them is a mean itself"
    (two[0] / "run.json").write_text("{", encoding="utf-8")
    with pytest.raises(UserError, match=r"run\.json: is not JSON"):
        average(two, tmp_path / "third")


def test_models_that_differ_in_more_than_weights_are_refused(two, tmp_path):
    file = two[1] / "model" / "ruplar.json"
    raw = json.loads(file.read_text(encoding="utf-8"))
    raw["method"]["settings"]["halt_threshold"] = 0.25
    file.write_text(json.dumps(raw), encoding="utf-8")
    with pytest.raises(UserError, match=r"ruplar.json: its method differs from that of"):
        average(two, tmp_path / "mean")


def test_weights_of_other_shapes_or_names_are_refused_and_leave_nothing(two, tmp_path):
    file = two[1] / "model" / WEIGHTS
    weights = load_file(file)
    name = next(iter(weights))
    save_file({**weights, name: weights[name][:1].clone()}, file)
    with pytest.raises(UserError, match=f"the weight {name} is missing, or has another shape"):
        average(two, tmp_path / "mean")
    file.rename(file.with_name("other.safetensors"))
    with pytest.raises(UserError, match="has the weight files"):
        average(two, tmp_path / "mean")
    assert not [one for one in tmp_path.iterdir() if one.name.startswith(".") or one.name == "mean"]


def test_one_model_and_one_named_twice_are_refused(two, tmp_path):
    with pytest.raises(UserError, match="at least two"):
        average(two[:1], tmp_path / "mean")
    with pytest.raises(UserError, match="given twice"):
        average([two[0], two[0] / "model"], tmp_path / "mean")
