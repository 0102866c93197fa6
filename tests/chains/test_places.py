"""A path, a known name and a Hub address are told apart, and each is found where it should be."""

import sys
from types import SimpleNamespace

import pytest

from ruplar.chains.places import locate
from ruplar.chains.read import read
from ruplar.domains.arithmetic import Config, Domain
from ruplar.errors import UserError
from ruplar.records import Example

DOMAIN = Domain(Config())


def test_a_missing_file_a_folder_and_an_unknown_name_are_told_apart(tmp_path):
    for source, message in [
        (str(tmp_path / "none.jsonl"), "none.jsonl: no such file"),
        ("runs/none.jsonl", "runs/none.jsonl: no such file"),
        (str(tmp_path), "is a folder"),
        ("gsm-hrd", "Did you mean 'gsm-hard'"),
    ]:
        with pytest.raises(UserError, match=message):
            locate(source)
    (tmp_path / "a.csv").write_text("x")
    with pytest.raises(UserError, match=r"cannot tell what a '.csv' file holds.*\.jsonl"):
        read(tmp_path / "a.csv", DOMAIN)


def test_a_known_name_is_its_file_where_there_is_one_and_its_hub_set_otherwise(shared_data, tmp_path):
    assert locate("svamp", shared_data).path == shared_data / "svamp-test.jsonl"
    assert locate("svamp", tmp_path).name == "hub:ChilleD/SVAMP:train+test"
    with pytest.raises(UserError, match="date-understanding-test.jsonl: not found in"):
        locate("date-understanding", tmp_path)


def test_known_names_are_found_in_the_data_folder_of_the_working_directory(tmp_path, monkeypatch, write, only):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    write(tmp_path / "data" / "svamp-test.jsonl", {"problem": "Q?", "answer": 51.0})
    assert only("svamp", need_steps=False).answer == "51.0"


def hub(monkeypatch, rows):
    """Stands in for the `datasets` package, which needs a network; notes what it was asked for."""
    asked = []

    def load_dataset(name, config, split):
        asked.append((name, config, split))
        if isinstance(rows, Exception):
            raise rows
        return rows

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    return asked


@pytest.mark.parametrize(
    ("source", "asked"),
    [
        ("hub:whynlp/gsm8k-aug", ("whynlp/gsm8k-aug", None, "train")),
        ("whynlp/gsm8k-aug:test", ("whynlp/gsm8k-aug", None, "test")),
        ("hub:openai/gsm8k/main:train[:10%]", ("openai/gsm8k", "main", "train[:10%]")),
    ],
)
def test_a_hub_address_names_set_config_and_split(monkeypatch, source, asked, only):
    calls = hub(monkeypatch, [{"question": "Q?", "steps": ["<<3+4=7>>"], "answer": "7"}])
    assert only(source).steps == ("3+4=7",)
    assert calls == [asked]


def test_hub_columns_of_a_known_set_are_renamed_and_joined(monkeypatch, tmp_path, only):
    hub(monkeypatch, [{"Body": "He has 3.", "Question": "How many?", "Answer": 3.0, "ID": "x"}])
    example = only("svamp", need_steps=False, data_dir=tmp_path)
    assert example == Example("He has 3. How many?", (), "3.0", "ChilleD/SVAMP:1", "")


def test_hub_without_its_package_or_without_network_is_a_clear_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match=r"needs the package 'datasets'.*ruplar\[data\]"):
        read("hub:a/b", DOMAIN)
    hub(monkeypatch, ConnectionError("offline."))
    with pytest.raises(UserError, match=r"'hub:a/b:train' cannot be loaded.*ConnectionError: offline.*local file"):
        read("hub:a/b", DOMAIN)
    with pytest.raises(UserError, match="'nothing' is no Hub address"):
        read("hub:nothing", DOMAIN)
