"""Benchmark files are downloaded over real HTTP from a local server that stands for GitHub."""

import hashlib
import json
import os
import re
import socket
from dataclasses import replace

import pytest
from file_server import FileServer
from huggingface_hub import constants

from ruplar import download as downloading
from ruplar.data.fetch import difference, fetch
from ruplar.data.locations import KNOWN_SETS
from ruplar.errors import UserError
from ruplar.fingerprints import fingerprint_answers
from ruplar.types import Example

ROWS = [
    {"problem": "Ann has 3 bags of 4 apples. How many apples?", "answer": 12.0},
    {"problem": "Bob had 9 pens and lost 2. How many are left?", "answer": 7.0},
    {"problem": "Cy saves 5 a day. How much in 1,000 days?", "answer": 5000.0},
]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS).encode()


def known(monkeypatch, name, **fields):
    """Change fields of a known set for one test."""
    monkeypatch.setitem(KNOWN_SETS, name, replace(KNOWN_SETS[name], **fields))


@pytest.fixture
def server(monkeypatch, tmp_path):
    """A server; `svamp` is the three rows above at /svamp.jsonl."""
    running = FileServer()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("RUPLAR_CACHE", str(tmp_path / "cache"))
    examples = [Example(row["problem"], (), str(row["answer"]), "", "") for row in ROWS]
    rows, content = fingerprint_answers(examples)
    known(monkeypatch, "svamp", url=f"{running.url}/svamp.jsonl", rows=rows, fingerprint=content)
    yield running
    running.close()


def contents(folder):
    """Every file and folder below a folder, hidden ones too."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_set_is_downloaded_verified_and_not_downloaded_twice(server, ruplar, tmp_path):
    server.files["/svamp.jsonl"] = LINES
    file = tmp_path / "cache" / "data" / "svamp-test.jsonl"
    first = ruplar("data", "fetch", "svamp")
    assert first.code == 0 and first.out == f"svamp: verified, {file}\n"
    assert contents(file.parent) == ["svamp-test.jsonl"] and file.read_bytes() == LINES
    asked = len(server.requests)
    assert ruplar("data", "fetch", "svamp").out == f"svamp: already there, {file}\n"
    assert len(server.requests) == asked
    assert ruplar("data", "fetch", "svamp", "--to", tmp_path / "own").code == 0
    assert (tmp_path / "own" / "svamp-test.jsonl").read_bytes() == LINES


def test_of_two_processes_one_downloads_and_the_other_waits(server, monkeypatch, tmp_path):
    other = lambda handle, how: (tmp_path / "svamp-test.jsonl").write_bytes(LINES)  # noqa: E731
    monkeypatch.setattr("fcntl.flock", other)
    assert fetch("svamp", tmp_path)[1] == "already there" and server.requests == []


def test_other_content_is_refused(server, ruplar, tmp_path):
    server.files["/svamp.jsonl"] = LINES.replace(b"12.0", b"13.0")
    folder = tmp_path / "cache" / "data"
    refused = ruplar("data", "fetch", "svamp")
    assert refused.code == 2 and contents(folder) == []
    expected = KNOWN_SETS["svamp"].fingerprint[:12]
    assert "3 rows instead of 3, fingerprint " in refused.err and f"… instead of {expected}…" in refused.err
    assert f"By hand: save {server.url}/svamp.jsonl as {folder / 'svamp-test.jsonl'}." in refused.err
    (folder / "svamp-test.jsonl").write_bytes(LINES + LINES)
    assert "exists, but is not the known set: " in ruplar("data", "fetch", "svamp").err
    assert contents(folder) == ["svamp-test.jsonl"]


def test_rows_are_picked_from_a_table_whose_numbers_stand_apart(server, monkeypatch, tmp_path):
    table = 'Question,Numbers,Answer\n"x ?",1,1.0\n"Ann \'s 3 . number1 , is number0 ?",0.5 20.0,20.50\n'
    server.files["/train.csv"] = table.encode()
    rows, content = fingerprint_answers([Example("Ann's 3. 20, is 0.5?", (), "20.5", "", "")])
    known(monkeypatch, "short-dev", url=f"{server.url}/train.csv", rows=rows, fingerprint=content, picked=[1])
    found = json.loads(fetch("short-dev", tmp_path)[0].read_text())
    assert found == {"question": "Ann's 3. 20, is 0.5?", "answer": "20.5"}
    known(monkeypatch, "short-dev", picked=[7])
    with pytest.raises(UserError, match="it has no such rows"):
        fetch("short-dev", tmp_path / "other")


def test_a_new_entry_gets_its_rows_and_fingerprint_from_the_error(server, monkeypatch, tmp_path):
    content = KNOWN_SETS["svamp"].fingerprint
    known(monkeypatch, "svamp", rows=0, fingerprint="")
    server.files["/svamp.jsonl"] = LINES
    with pytest.raises(UserError, match=f"no fingerprint for 'svamp'; this file has rows: 3, fingerprint: {content}"):
        fetch("svamp", tmp_path)


def test_a_file_with_a_known_sha256_is_verified_by_its_bytes(server, monkeypatch, tmp_path):
    sha256 = hashlib.sha256(LINES).hexdigest()
    known(monkeypatch, "svamp", fingerprint="", sha256=sha256)
    server.files["/svamp.jsonl"] = LINES + b"\n"
    with pytest.raises(UserError, match=r"SHA-256 .{12}… instead of " + sha256[:12]):
        fetch("svamp", tmp_path)
    server.files["/svamp.jsonl"] = LINES
    assert fetch("svamp", tmp_path)[1] == "verified"


def test_an_interrupted_download_continues_where_it_was(server, tmp_path):
    server.files["/svamp.jsonl"] = LINES
    server.cut.add("/svamp.jsonl")
    with pytest.raises(UserError, match=r"svamp.jsonl: the download broke off: .* By hand: save"):
        fetch("svamp", tmp_path)
    assert contents(tmp_path) == [".svamp-test.jsonl.partial"]
    server.cut.clear()
    seen = []
    assert fetch("svamp", tmp_path, progress=lambda *report: seen.append(report))[1] == "verified"
    assert seen == [(len(LINES), len(LINES))], "only the second half is downloaded"
    assert (tmp_path / "svamp-test.jsonl").read_bytes() == LINES and contents(tmp_path) == ["svamp-test.jsonl"]


@pytest.mark.parametrize("partial", [LINES[:9], LINES, b"other" * 999], ids=["part", "all of it", "longer"])
def test_what_an_earlier_download_left_is_used_or_replaced(server, tmp_path, partial):
    server.files["/svamp.jsonl"] = LINES
    (tmp_path / "a.partial").write_bytes(partial)
    sha256 = hashlib.sha256(LINES).hexdigest()
    assert downloading.download(f"{server.url}/svamp.jsonl", tmp_path / "a", sha256=sha256).read_bytes() == LINES
    (tmp_path / "b.partial").write_bytes(b"other")
    with pytest.raises(UserError, match=f"its SHA-256 is .*, not {sha256}"):
        downloading.download(f"{server.url}/svamp.jsonl", tmp_path / "b", sha256=sha256)
    assert contents(tmp_path) == ["a"]


def test_offline_mode_is_reported_without_a_request(server, monkeypatch, tmp_path):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    file = tmp_path / "data" / "svamp-test.jsonl"
    with pytest.raises(UserError, match=rf"offline mode is on \(HF_HUB_OFFLINE\).* By hand: .* as {file}\."):
        fetch("svamp", file.parent)
    assert server.requests == [] and not file.parent.exists()


def test_hosts_that_refuse_or_never_answer_are_given_up_after_the_timeout(monkeypatch, tmp_path):
    monkeypatch.setattr(downloading, "CONNECT_SECONDS", 0.3)
    monkeypatch.setattr(downloading, "READ_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        for host, said in ((closed, "no connection"), (silent, "broke off")):
            with pytest.raises(UserError, match=said):
                downloading.download(f"http://127.0.0.1:{host.getsockname()[1]}/svamp.jsonl", tmp_path / "a")
    assert contents(tmp_path) == []


def test_one_failure_does_not_stop_the_others_but_the_command_fails(server, ruplar, monkeypatch, tmp_path):
    server.files["/svamp.jsonl"] = LINES
    known(monkeypatch, "multiarith", url=f"{server.url}/missing")
    found = ruplar("data", "fetch", "multiarith", "svamp")
    assert found.code == 2 and found.out.startswith("svamp: verified") and "multiarith" not in found.out
    assert "'multiarith' cannot be downloaded from" in found.err
    assert contents(tmp_path / "cache" / "data") == ["svamp-test.jsonl"]


def test_unknown_names_and_sets_without_a_file_are_reported_before_anything_is_downloaded(server, ruplar, monkeypatch):
    known(monkeypatch, "multiarith", url="")
    found = ruplar("data", "fetch", "svamp", "svmp", "gsm8k-dev", "multiarith")
    assert found.code == 2 and server.requests == []
    assert "unknown dataset 'svmp'. Did you mean 'svamp'?" in found.err
    assert "'gsm8k-dev' has no file. Fetch the sets it is read from: gsm8k-train, gsm8k-aug-valid." in found.err
    assert "'multiarith' has no url in known_sets.yaml. Put multiarith-test.jsonl in data/ yourself." in found.err


def test_without_a_name_the_sets_are_listed(server, ruplar, monkeypatch, tmp_path):
    from rich.console import Console

    from ruplar.cli import data_prepare

    monkeypatch.setattr(data_prepare, "out", Console(width=200))
    (tmp_path / "gsm-hard-test.jsonl").write_bytes(LINES)
    found = ruplar("data", "fetch", "--to", tmp_path)
    assert found.code == 0 and server.requests == []
    rows = {cells[0]: cells[1:] for line in found.out.splitlines() if (cells := re.split(r" *│ *", line)[1:-1])}
    assert rows["gsm-hard"] == ["1,319", str(tmp_path / "gsm-hard-test.jsonl")]


def test_the_fingerprint_ignores_order_and_how_numbers_and_spaces_are_written_and_nothing_else():
    def of(*pairs):
        return fingerprint_answers([Example(question, (), answer, "", "") for question, answer in pairs])

    one = of(("How many?", "51"), ("Which  day?", "09/09/1909"), ("How much?", "14224748.8"))
    same = (("which day?", "09/09/1909"), ("How much?", "$14,224,748.8000000007"), ("How many?", "51.0"))
    assert of(*same) == one and one[0] == 3
    assert of(*same[:2], ("How many?", "52"))[1] != one[1]
    assert of(*same[:2], ("How  many", "51"))[1] != one[1]
    assert of(*same, same[0]) != one


DOWNLOADABLE = {name: known for name, known in KNOWN_SETS.items() if known.url}


@pytest.mark.parametrize("name", sorted(DOWNLOADABLE.keys() - {"gsm8k-aug-train", "gsm8k-test"}))
def test_the_benchmark_files_are_verified(name, benchmark_data):
    assert difference(name, benchmark_data(name) / KNOWN_SETS[name].file) == ""


@pytest.mark.parametrize("found", DOWNLOADABLE.values(), ids=DOWNLOADABLE)
def test_every_download_is_at_a_fixed_commit_with_something_to_verify_it_by(found):
    assert found.rows > 0 and any(len(part) == 40 for part in found.url.split("/"))
    assert len(found.fingerprint or found.sha256) == 64
    assert sorted([len(found.fingerprint), len(found.sha256)]) == [0, 64]
    assert found.picked or found.url.endswith(os.path.splitext(found.file)[1])
