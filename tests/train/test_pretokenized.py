"""Chains encoded ahead give the batches, and the model, that chains encoded on demand give."""

import gc
import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from ruplar.config import from_dict
from ruplar.data.cache import ENCODED, is_complete, package_source, write_once
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


DRAWN = {"name": "ruplar", "input_noise": 0.3}
"""A method whose inputs are drawn anew at every visit."""


@pytest.mark.parametrize(
    ("method", "pack"), [("ruplar", 128), ("cot", 128), ({"name": "codi", "latents": 2}, 0), (DRAWN, 128)], ids=str
)
def test_training_on_pretokenized_data_gives_the_same_weights(quick, tmp_path, method, pack):
    weights = []
    for name, ahead in (("plain", False), ("ahead", True)):
        config = quick({"pack": pack, "pretokenize": ahead}, method=method, max_steps=3, rows=6)  # two epochs
        train(config, output=tmp_path / "runs" / name)
        weights.append(load_file(tmp_path / "runs" / name / "model" / "adapter_model.safetensors"))
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert len(list((tmp_path / "runs" / ENCODED).glob("[!.]*"))) == 1


def test_a_second_run_reuses_the_cache_and_another_prior_does_not(quick, tmp_path):
    for name, prior in (("a", "mixture"), ("b", "mixture"), ("c", "temperature")):
        config = quick({"pretokenize": True}, prior=prior, seed=ord(name))
        train(config, output=tmp_path / name)
    assert len(list((tmp_path / ENCODED).glob("[!.]*"))) == 2


def test_the_cache_key_depends_on_training_code_and_not_on_reporting_code(tmp_path):
    trains = ("errors.py", "chains/read.py", "train/batch.py", "data/known_sets.yaml")
    reports = ("report/table.py", "experiments/plan.py", "demo.py")

    def package(name, changed):
        for file in (*trains, *reports):
            place = tmp_path / name / file
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text("other" if file == changed else "code")
        return package_source(tmp_path / name)

    plain = package("plain", None)
    for file in trains:
        assert package(f"with {file}", file) != plain
    for file in reports:
        assert package(f"with {file}", file) == plain


def test_a_damaged_cache_is_refused(quick, tmp_path):
    config = quick({"pretokenize": True})
    train(config, output=tmp_path / "a")
    (file,) = (tmp_path / ENCODED).glob("*/label_ids.values.npy")
    content = file.read_bytes()
    for damaged in (content[:-8], b"", None):
        file.unlink() if damaged is None else file.write_bytes(damaged)
        with pytest.raises(UserError, match=r"label_ids.values.npy is missing or has the wrong size.* Remove"):
            train(config, output=tmp_path / "b")


def test_a_cache_that_cannot_be_written_is_an_error(quick, tmp_path):
    (tmp_path / ENCODED).write_text("")
    with pytest.raises(UserError, match=r"\.encoded: cannot be written .* speed.pretokenize: false"):
        train(quick({"pretokenize": True}), output=tmp_path / "a")


def test_a_file_that_cannot_be_read_is_neither_the_cache_nor_damage(tmp_path, monkeypatch):
    def refuse(path, *_, **__):
        raise PermissionError(13, "Permission denied", str(path))

    with pytest.raises(PermissionError, match="chains.jsonl"):
        write_once(tmp_path / "cache" / "key", lambda _: refuse("chains.jsonl"))
    write_once(tmp_path / "cache" / "key", lambda _: None)
    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(PermissionError, match="sizes.json"):
        is_complete(tmp_path / "cache" / "key")


def test_the_cache_key_depends_on_end_token_and_chat_template(trainer):
    dataset = trainer().dataset
    keys = {_key(dataset, {})}
    encoder = dataset.encoder
    encoder.markers = encoder.markers._replace(eos_id=encoder.markers.eos_id + 1)
    keys.add(_key(dataset, {}))
    before, after = encoder.prompt._frame
    encoder.prompt.__dict__["_frame"] = ([*before, 7], after)  # another chat template
    keys.add(_key(dataset, {}))
    assert len(keys) == 3


def test_training_settings_are_checked_before_the_data_is_loaded(quick, tmp_path, monkeypatch):
    monkeypatch.setattr("ruplar.train.prepare.load_data", lambda *_: pytest.fail("minutes would have passed"))
    with pytest.raises(UserError, match="prefetch_factor"):
        train(quick({}, dataloader_prefetch_factor=2, dataloader_num_workers=0), output=tmp_path / "a")


_KILLED = """
import os
from pathlib import Path
from ruplar.data import pretokenize as ahead

class Long:
    def __len__(self): return 8
    def __getitem__(self, i): return os.getpid(), bytes(2**24)   # longer than a pipe holds

def killed(part, place):
    print(part[0], flush=True)
    os.kill(os.getpid(), 9)

ahead._Parts, ahead.ChainDataset, ahead.write = (lambda whole: Long()), (lambda *a, **k: None), killed
ahead._encode(type("Rows", (), {"examples": (), "method": None, "encoder": None}), 1, Path("."))
"""


def test_no_worker_outlives_a_run_that_is_killed_while_it_encodes(started):
    run = started(sys.executable, "-c", _KILLED, stdout=subprocess.PIPE)
    worker = int(run.stdout.readline())
    assert run.wait(60) == -9
    until = time.monotonic() + 20
    while (there := _lives(worker)) and time.monotonic() < until:
        time.sleep(0.1)
    assert not there


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_what_several_processes_need_is_made_by_one_of_them(tmp_path, started):
    code = f"""
import time
from pathlib import Path
from ruplar.data.cache import write_once
place = Path({str(tmp_path)!r}) / "place"
def write(draft):
    time.sleep(1.0)  # long enough for the others to come
    (draft / "file").write_text("made")
    print("made", flush=True)
write_once(place, write)
assert (place / "file").read_text() == "made"
"""
    asked = [started(sys.executable, "-c", code, stdout=subprocess.PIPE) for _ in range(3)]
    said = [process.communicate(timeout=120)[0] for process in asked]
    assert [process.returncode for process in asked] == [0, 0, 0] and sorted(said) == ["", "", "made\n"]


class Garbage:
    """Writes the process in which it is collected, as a tensor of the GPU would end a forked one."""

    def __init__(self, file):
        self.file, self.itself = file, self

    def __del__(self):
        self.file.write_text(str(os.getpid()))


@pytest.mark.skipif(sys.platform != "linux", reason="data workers are forked on Linux only")
def test_a_forked_worker_does_not_collect_garbage_of_its_parent(tmp_path):
    Garbage(tmp_path / "collected-in")
    worker = multiprocessing.get_context("fork").Process(target=gc.collect)
    worker.start()
    worker.join(60)
    worker.kill()  # or a deadlock in it would be waited for when pytest ends
    assert worker.exitcode == 0 and not (tmp_path / "collected-in").exists()
    gc.collect()
    assert (tmp_path / "collected-in").read_text() == str(os.getpid())
