"""Data that takes long to open is opened once, and what is found again is what was opened."""

import json
import pickle

import pytest

from ruplar.config import DataSettings
from ruplar.domains.arithmetic import Config, Domain
from ruplar.train import dataset_cache as opened
from ruplar.train.dataset import load_data
from ruplar.train.dataset_cache import load_cached


@pytest.fixture
def section(tmp_path):
    """Twelve chains, some of which a test file holds too."""
    rows = [
        {"question": f"Tom number {i} has {i + 2} apples and buys 3 more today. How many?",
         "answer": f"<<{i + 2}+3={i + 5}>>\n#### {i + 5}"} for i in range(12)
    ]  # fmt: skip
    for name, part in (("train", rows), ("test", rows[3:5]), ("valid", rows[7:8])):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, part)), encoding="utf-8")
    train, valid, test = (str(tmp_path / f"{name}.jsonl") for name in ("train", "valid", "test"))
    return DataSettings.model_validate({"train": train, "valid": valid, "decontaminate": [test]})


def _opened(monkeypatch):
    calls = []
    first = opened.load_data
    monkeypatch.setattr(opened, "load_data", lambda *args: calls.append(args) or first(*args))
    return calls


def test_cached_data_equals_loaded_data(section, tmp_path, monkeypatch):
    domain, calls = Domain(Config()), _opened(monkeypatch)
    plain = load_data(section, domain, True)
    first, second = (load_cached(section, domain, True, tmp_path / "kept", False) for _ in range(2))
    assert len(calls) == 1
    for found in (first, second):
        assert list(found.train) == list(plain.train)
        assert list(found.valid) == list(plain.valid)
        assert (found.fingerprints, found.left_out) == (plain.fingerprints, plain.left_out)
    assert len(second.train) == 12 - 2 - 1  # two stand in the test file, one in valid
    assert second.train[-1] == plain.train[-1] and second.train[2:4] == [plain.train[2], plain.train[3]]
    assert pickle.loads(pickle.dumps(second.train))[0] == plain.train[0]
    with pytest.raises(IndexError):
        second.train[9]


def test_a_changed_file_is_loaded_again(section, tmp_path, monkeypatch):
    domain, calls = Domain(Config()), _opened(monkeypatch)
    load_cached(section, domain, True, tmp_path / "kept", False)
    file = tmp_path / "train.jsonl"
    file.write_text("\n".join(file.read_text().splitlines()[1:]), encoding="utf-8")
    assert len(load_cached(section, domain, True, tmp_path / "kept", False).train) == 8
    assert len(calls) == 2


def test_data_that_loads_quickly_is_not_cached(section, tmp_path):
    quick = section.model_copy(update={"decontaminate": ()})
    load_cached(quick, Domain(Config()), True, tmp_path / "kept", True)
    assert not (tmp_path / "kept").exists()
