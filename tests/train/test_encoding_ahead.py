"""Chains encoded ahead give the batches, and the model, that chains encoded on demand give."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import load_file

from ruplar.config import from_dict
from ruplar.data.cache import ENCODED, package_source
from ruplar.data.pretokenize import _key
from ruplar.errors import UserError
from ruplar.train.run import train


@pytest.fixture
def quick(config):
    """Speed settings and others → a recipe of a step or a few."""

    def make(speed, max_steps=1, seed=5, **settings):
        made = config(max_steps=max_steps, per_device_train_batch_size=4, **settings)
        return from_dict({**made.as_dict(), "speed": speed, "seed": seed})

    return make


DRAWN = {"name": "ruplar", "own_latents": 0.5, "own_latents_ramp": 0.5, "input_noise": 0.3}
"""A method whose inputs are drawn anew at every visit."""


@pytest.mark.parametrize(
    ("method", "pack"), [("ruplar", 128), ("cot", 128), ({"name": "codi", "latents": 2}, 0), (DRAWN, 128)], ids=str
)
def test_training_on_a_shelf_is_training(quick, tmp_path, method, pack):
    weights = []
    for name, ahead in (("plain", False), ("ahead", True)):
        config = quick({"pack": pack, "encode_ahead": ahead}, method=method, max_steps=3, rows=6)  # two epochs
        train(config, output=tmp_path / "runs" / name)
        weights.append(load_file(tmp_path / "runs" / name / "model" / "adapter_model.safetensors"))
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert len(list((tmp_path / "runs" / ENCODED).glob("[!.]*"))) == 1


def test_a_second_run_finds_the_shelf_and_another_prior_makes_its_own(quick, tmp_path):
    for name, prior in (("a", "mixture"), ("b", "mixture"), ("c", "temperature")):
        config = quick({"encode_ahead": True}, prior=prior, seed=ord(name))
        train(config, output=tmp_path / name)
    assert len(list((tmp_path / ENCODED).glob("[!.]*"))) == 2


def test_code_that_makes_rows_makes_other_shelves_and_code_that_shows_results_does_not(tmp_path):
    def package(name, changed):
        for file in ("errors.py", "chains/read.py", "train/batch.py", "report/table.py", "study/plan.py", "demo.py"):
            place = tmp_path / name / file
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text("other" if file == changed else "code")
        return package_source(tmp_path / name)

    plain = package("plain", None)
    for file in ("errors.py", "chains/read.py", "train/batch.py"):
        assert package(f"with {file}", file) != plain
    for file in ("report/table.py", "study/plan.py", "demo.py"):
        assert package(f"with {file}", file) == plain


def test_what_changes_at_every_visit_is_encoded_on_demand(quick, tmp_path):
    config = quick({"encode_ahead": True}, prior="gumbel")
    train(config, output=tmp_path / "run")
    assert not (tmp_path / ENCODED).exists()


@pytest.mark.parametrize("damage", ["cut", "empty", "gone"])
def test_a_shelf_that_was_damaged_is_refused_with_the_way_out(quick, tmp_path, damage):
    config = quick({"encode_ahead": True})
    train(config, output=tmp_path / "a")
    (file,) = (tmp_path / ENCODED).glob("*/label_ids.values.npy")
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[: -8 if damage == "cut" else 0])
    with pytest.raises(UserError, match=r"label_ids.values.npy is missing or not as long .* Remove the folder"):
        train(config, output=tmp_path / "b")


def test_a_place_that_cannot_be_written_is_told(quick, tmp_path):
    (tmp_path / ENCODED).write_text("")
    with pytest.raises(UserError, match=r"\.encoded: cannot be written .* speed.encode_ahead: false"):
        train(quick({"encode_ahead": True}), output=tmp_path / "a")


def test_models_that_share_a_tokenizers_text_but_end_or_frame_otherwise_have_shelves_of_their_own(trainer):
    dataset = trainer().dataset
    keys = {_key(dataset, {})}
    encoder = dataset.encoder
    encoder.eos_id += 1
    keys.add(_key(dataset, {}))
    before, after = encoder.prompt._frame
    encoder.prompt.__dict__["_frame"] = ([*before, 7], after)  # another chat template
    keys.add(_key(dataset, {}))
    assert len(keys) == 3


def test_training_settings_are_refused_before_the_data_is_opened(quick, tmp_path, monkeypatch):
    monkeypatch.setattr("ruplar.train.prepare.open_section", lambda *_: pytest.fail("minutes would have passed"))
    with pytest.raises(UserError, match="prefetch_factor"):
        train(quick({}, dataloader_prefetch_factor=2, dataloader_num_workers=0), output=tmp_path / "a")


_KILLED = """
import os
from ruplar.train import ahead

class Long:
    def __len__(self): return 8
    def __getitem__(self, i): return os.getpid(), bytes(2**24)   # longer than a pipe holds

ahead._Parts, ahead.ChainDataset, ahead.join = (lambda whole: Long()), (lambda *a, **k: None), list
class Told(list):
    def __init__(self, loader):
        parts = iter(loader)
        print(next(parts)[0], flush=True)
        os.kill(os.getpid(), 9)
ahead.list = Told
ahead._encode(type("Rows", (), {"examples": (), "method": None, "encoder": None}), 1)
"""


def test_no_worker_outlives_a_run_that_is_killed_while_it_encodes():
    with subprocess.Popen([sys.executable, "-c", _KILLED], stdout=subprocess.PIPE, text=True) as run:
        worker = int(run.stdout.readline())
        assert run.wait() == -9
        until = time.monotonic() + 20
        while (there := _lives(worker)) and time.monotonic() < until:
            time.sleep(0.1)
        if there:
            os.kill(worker, 9)
        assert not there


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_what_several_processes_need_is_made_by_one_of_them(tmp_path):
    code = f"""
import time
from pathlib import Path
from ruplar.data.cache import is_complete, lock, write_complete
place = Path({str(tmp_path)!r}) / "place"
with lock(place):
    if not is_complete(place):
        time.sleep(1.0)  # long enough for the others to come
        with write_complete(place) as draft:
            (draft / "file").write_text("made")
        print("made", flush=True)
assert (place / "file").read_text() == "made"
"""
    asked = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = [process.communicate()[0] for process in asked]
    assert [process.returncode for process in asked] == [0, 0, 0] and sorted(said) == ["", "", "made\n"]
