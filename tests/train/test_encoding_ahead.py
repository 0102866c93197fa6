"""Chains encoded ahead give the batches, and the model, that chains encoded on demand give."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from ruplar.config import from_dict
from ruplar.data.cache import ENCODED, package_source
from ruplar.data.collate import batch_of, collate, pack_rows
from ruplar.data.columnar import join, to_columns
from ruplar.data.pretokenize import _key
from ruplar.errors import UserError
from ruplar.train.run import train
from ruplar.types import Batch, Item, SparsePrior


def _item(seed: int, companions: int = 2) -> Item:
    rng = np.random.default_rng(seed)
    size, latents = int(rng.integers(6, 30)), int(rng.integers(0, 4))
    priors = []
    for _ in range(latents):
        probs = np.sort(rng.dirichlet(np.ones(int(rng.integers(1, 6)))))[::-1].astype(np.float32)
        priors.append(SparsePrior(rng.choice(90, len(probs), replace=False), probs.copy()))
    labels = np.where(rng.random(size) < 0.3, rng.integers(0, 90, size), -100)
    labels[0] = -100
    return Item(
        ids=rng.integers(0, 90, size).tolist(),
        labels=labels.tolist(),
        latent_at=list(range(2, 2 + latents)),
        priors=priors,
        question_at=1,
        mark_at=[size - 1],
        features=[rng.random(3).astype(np.float32) for _ in range(latents)],
        also={"teacher": [_item(1000 + seed * 7 + i, 0) for i in range(seed % 3)]} if companions else {},
    )


@pytest.fixture
def quick(config):
    """Speed settings and others → a recipe of a step or a few."""

    def make(speed, max_steps=1, seed=5, **settings):
        made = config(max_steps=max_steps, per_device_train_batch_size=4, **settings)
        return from_dict({**made.as_dict(), "speed": speed, "seed": seed})

    return make


def _same(a: Batch, b: Batch) -> None:
    for field in dataclasses.fields(Batch):
        one, two = getattr(a, field.name), getattr(b, field.name)
        if field.name == "also":
            assert one.keys() == two.keys()
            for name in one:
                _same(one[name], two[name])
        elif isinstance(one, torch.Tensor):
            assert one.dtype == two.dtype and torch.equal(one, two), field.name
        else:
            assert one == two, field.name


@pytest.mark.parametrize("width", [0, 64, 8], ids=["padded", "packed", "packed, some items wider than the rows"])
def test_rows_of_a_shelf_make_the_batch_their_items_make(width):
    items = [_item(seed) for seed in range(40)]
    columns = join([to_columns(items[:7]), to_columns(items[7:25]), to_columns(items[25:])])
    rows = np.random.default_rng(3).permutation(40)[:17]
    _same(batch_of(columns, rows, 5, width), collate([items[row] for row in rows], 5, width))


def test_items_without_latents_labels_or_marks_make_a_batch_too():
    items = [Item(ids=[3, 4, 5], labels=[-100, -100, -100]) for _ in range(3)]
    _same(batch_of(to_columns(items), np.arange(3), 0, 8), collate(items, 0, 8))


def test_packing_fills_the_fullest_row_that_has_room():
    # longest first: 6 opens row 0 (2 left), 5 opens row 1 (3 left), 3 goes to row 1, 2 to row 0
    rows, starts = pack_rows([2, 6, 3, 5], 8)
    assert rows.tolist() == [0, 0, 1, 1]
    assert starts.tolist() == [6, 0, 5, 0]


def test_no_two_packed_items_overlap():
    lengths = np.random.default_rng(0).integers(1, 33, 500)
    rows, starts = pack_rows(lengths, 64)
    used = np.zeros((rows.max() + 1, 64), dtype=int)
    for row, start, length in zip(rows, starts, lengths, strict=True):
        used[row, start : start + length] += 1
    assert used.max() == 1 and used.sum() == lengths.sum()
    assert used.mean() > 0.97  # 500 items leave next to nothing free


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
