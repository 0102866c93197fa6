"""Paths, known names and Hub addresses are distinguished and located."""

import shutil
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from ruplar.data.fetch import check_names
from ruplar.data.locations import KNOWN_SETS, locate
from ruplar.data.read import read
from ruplar.domains.arithmetic import Config, Domain
from ruplar.errors import UserError
from ruplar.fingerprints import digest, fingerprint_answers
from ruplar.types import Example

DOMAIN = Domain(Config())


def test_a_missing_file_a_folder_and_an_unknown_name_are_different_errors(tmp_path):
    for source, message in [
        (str(tmp_path / "none.jsonl"), "none.jsonl: no such file"),
        ("runs/none.jsonl", "runs/none.jsonl: no such file"),
        (str(tmp_path), "is a folder"),
        ("gsm-hrd", "Did you mean 'gsm-hard'"),
    ]:
        with pytest.raises(UserError, match=message):
            locate(source)
    (tmp_path / "a.csv").write_text("x")
    with pytest.raises(UserError, match=r"files of type '.csv' are not supported.*\.jsonl"):
        read(tmp_path / "a.csv", DOMAIN)
    with pytest.raises(UserError, match="'nothing' is not a Hub address"):
        read("hub:nothing", DOMAIN)


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """An empty working directory and an empty cache."""
    monkeypatch.setenv("RUPLAR_CACHE", str(tmp_path / "cache"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


def test_a_known_name_is_its_file_or_else_its_hub_set(data, bare, monkeypatch):
    assert locate("svamp", data).path == data / "svamp-test.jsonl"
    assert locate("svamp", bare).name == "hub:ChilleD/SVAMP:train+test"
    missing = "date-understanding-test.jsonl: not found in .*no Hub set has the same rows. "
    for url, hint in ("x", "Run `ruplar data fetch date-understanding`, put it"), ("", "Put it"):
        monkeypatch.setitem(KNOWN_SETS, "date-understanding", replace(KNOWN_SETS["date-understanding"], url=url))
        with pytest.raises(UserError, match=missing + hint):
            locate("date-understanding", bare)


def smallest_digests(folder, count):
    """The questions of gsm8k-train outside gsm8k-aug-valid with the smallest digests, by another way than `locate`."""
    train, valid = (
        read(name, DOMAIN, need_steps=False, data_dir=folder).examples for name in ("gsm8k-train", "gsm8k-aug-valid")
    )
    known = {e.question for e in valid}
    return sorted((e for e in train if e.question not in known), key=lambda e: digest(e.question).hex())[:count]


def test_gsm8k_dev_is_selected_from_two_sets_by_digest(data, monkeypatch):
    expected = smallest_digests(data, 3)
    rows, fingerprint = fingerprint_answers(expected)
    monkeypatch.setitem(KNOWN_SETS, "gsm8k-dev", replace(KNOWN_SETS["gsm8k-dev"], rows=rows, fingerprint=fingerprint))
    found = read("gsm8k-dev", DOMAIN, need_steps=False, data_dir=data)
    assert found.examples == expected and len(expected) == 3
    assert found.record()["source"] == "gsm8k-dev" and found.record()["sha256"] is None


def test_the_real_gsm8k_dev_has_a_thousand_questions_and_none_of_gsm8k_aug_valid(benchmark_data):
    folder = benchmark_data("gsm8k-dev")
    found = read("gsm8k-dev", DOMAIN, need_steps=False, data_dir=folder).examples
    assert len(found) == 1000 and found == smallest_digests(folder, 1000)


def test_gsm8k_dev_from_other_files_than_the_published_ones_is_an_error(data, bare):
    with pytest.raises(UserError, match="'gsm8k-dev' cannot be selected from .*gsm8k-train.jsonl.* has 7 rows"):
        read("gsm8k-dev", DOMAIN, need_steps=False, data_dir=data)
    shutil.copy(data / "gsm8k-train.jsonl", bare)
    (bare / "gsm8k-aug-valid.txt").write_text("How many?\n", encoding="utf-8")
    with pytest.raises(UserError, match="gsm8k-aug-valid.txt:1: cannot be read: .* is missing between"):
        read("gsm8k-dev", DOMAIN, need_steps=False, data_dir=bare)
    with pytest.raises(UserError, match="'gsm8k-dev' has no file. Fetch .*: gsm8k-train, gsm8k-aug-valid"):
        check_names(["gsm8k-dev"])


def test_data_folders_are_searched_in_order(bare, monkeypatch, write, only):
    monkeypatch.setenv("RUPLAR_DATA", str(bare / "set"))
    folders = [bare / "given", bare / "set", bare / "here" / "data", bare / "cache" / "data"]
    for number, folder in enumerate(folders):
        folder.mkdir(parents=True)
        write(folder / "svamp-test.jsonl", {"problem": "Q?", "answer": float(number)})
    for number, folder in enumerate(folders):
        assert only("svamp", need_steps=False, data_dir=bare / "given").answer == f"{number}.0"
        (folder / "svamp-test.jsonl").unlink()
    assert locate("svamp", bare / "given").hub


def test_a_data_folder_that_does_not_exist_is_an_error(bare, monkeypatch):
    with pytest.raises(UserError, match="data_dir: 'nowhere' is not a folder"):
        locate("svamp", "nowhere")
    monkeypatch.setenv("RUPLAR_DATA", str(bare / "none"))
    with pytest.raises(UserError, match="RUPLAR_DATA: '.*none' is not a folder"):
        locate("svamp")


def hub(monkeypatch, rows):
    """Replace the `datasets` package, which needs a network; return the list of its calls."""
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


def test_hub_columns_of_a_known_set_are_renamed_and_joined(monkeypatch, bare, only):
    hub(monkeypatch, [{"Body": "He has 3.", "Question": "How many?", "Answer": 3.0, "ID": "x"}])
    example = only("svamp", need_steps=False, data_dir=bare)
    assert example == Example("He has 3. How many?", (), "3.0", "ChilleD/SVAMP:1", "")


def test_a_known_set_without_a_file_names_the_folders_and_the_command(monkeypatch, bare):
    tried = rf"svamp-test.jsonl: not found in data, {bare}/cache/data. Run `ruplar data fetch svamp`"
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match=f"^{tried}.*needs the package 'datasets'"):
        read("svamp", DOMAIN, need_steps=False)
    hub(monkeypatch, ConnectionError("no route."))
    with pytest.raises(UserError, match=f"ConnectionError: no route.*{tried}"):
        read("svamp", DOMAIN, need_steps=False)
