"""Benchmark files are downloaded over real HTTP from a local server that stands for GitHub and the Hub."""

import hashlib
import json
import os
import re
import socket
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from file_server import FileServer
from huggingface_hub import constants

from ruplar import download as downloading
from ruplar.data.fetch import Fetcher, difference
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
HUB = "/datasets/{}/resolve/refs/convert/parquet/default/{}/0000.parquet"


def endpoint(monkeypatch, url):
    """Set what `HF_ENDPOINT` sets when huggingface_hub is imported."""
    template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "ENDPOINT", url)


def known(monkeypatch, name, **fields):
    """Change fields of a known set for one test."""
    monkeypatch.setitem(KNOWN_SETS, name, replace(KNOWN_SETS[name], **fields))


def verified_by(examples):
    """Examples → the fields of a known set that verify its content."""
    return dict(zip(("rows", "fingerprint"), fingerprint_answers(examples), strict=True))


@pytest.fixture
def server(monkeypatch, tmp_path):
    """A server for both GitHub and the Hub; `svamp` is the three rows above, at /svamp.jsonl and nowhere else yet."""
    running = FileServer()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    endpoint(monkeypatch, running.url)
    monkeypatch.setenv("RUPLAR_CACHE", str(tmp_path / "cache"))
    examples = [Example(row["problem"], (), str(row["answer"]), "", "") for row in ROWS]
    known(monkeypatch, "svamp", url=f"{running.url}/svamp.jsonl", **verified_by(examples))
    yield running
    running.close()


def parquet(rows):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue().to_pybytes()


def contents(folder):
    """Every file and folder below a folder, hidden ones too."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_set_is_downloaded_verified_and_not_downloaded_twice(server, ruplar, tmp_path):
    server.files["/svamp.jsonl"] = LINES
    file = tmp_path / "cache" / "data" / "svamp-test.jsonl"
    first = ruplar("data", "fetch", "svamp")
    assert first.code == 0 and first.out == f"svamp: verified, {file}, from {server.url}/svamp.jsonl\n"
    assert contents(file.parent) == ["svamp-test.jsonl"] and file.read_bytes() == LINES
    asked = len(server.requests)
    assert ruplar("data", "fetch", "svamp").out == f"svamp: already there, {file}\n"
    assert len(server.requests) == asked
    assert ruplar("data", "fetch", "svamp", "--to", tmp_path / "own").code == 0
    assert (tmp_path / "own" / "svamp-test.jsonl").read_bytes() == LINES


def test_the_hub_is_second_and_its_parquet_splits_become_one_file(server):
    rows = [
        {"Body": "Cy saves 5 a day.", "Question": "How much in  1,000 days?", "Answer": "5000"},
        {"Body": "Ann has 3 bags of 4 apples.", "Question": "How many apples?", "Answer": "12"},
        {"Body": "Bob had 9 pens and lost 2.", "Question": "How many are left?", "Answer": "7.0"},
    ]
    server.files[HUB.format("ChilleD/SVAMP", "train")] = parquet(rows[:2])
    server.files[HUB.format("ChilleD/SVAMP", "test")] = parquet(rows[2:])
    seen = []
    found = Fetcher().fetch("svamp", lambda done, total: seen.append((done, total)))
    assert found.state == "verified" and found.origin.startswith("hub:ChilleD/SVAMP/default/train/0000.parquet and ")
    assert [json.loads(line) for line in found.path.read_text().splitlines()] == rows
    assert f"GET {HUB.format('ChilleD/SVAMP', 'train')}" in server.requests
    assert seen[-1] == (len(parquet(rows[2:])),) * 2


def test_hub_rows_of_gsm8k_aug_become_its_text_lines(server, monkeypatch):
    rows = [{"question": "2 and 3,\ndoubled?", "steps": ["<<2+3=5>>", "<<5*2=10>>"], "answer": "10"}]
    example = Example("2 and 3, doubled?", (), "10", "", "")
    known(monkeypatch, "gsm8k-aug-valid", url=f"{server.url}/none", **verified_by([example]))
    server.files[HUB.format("whynlp/gsm8k-aug", "validation")] = parquet(rows)
    found = Fetcher().fetch("gsm8k-aug-valid")
    assert found.state == "verified"
    assert found.path.read_text() == "2 and 3, doubled?||<<2+3=5>> <<5*2=10>> #### 10\n"


def test_other_content_is_refused_unless_it_is_accepted(server, ruplar, tmp_path):
    server.files["/svamp.jsonl"] = LINES.replace(b"12.0", b"13.0")
    folder = tmp_path / "cache" / "data"
    refused = ruplar("data", "fetch", "svamp")
    assert refused.code == 2 and contents(folder) == []
    expected = KNOWN_SETS["svamp"].fingerprint[:12]
    assert "3 rows instead of 3, fingerprint " in refused.err and f"… instead of {expected}…" in refused.err
    assert "Accept it with --unverified." in refused.err
    assert f"By hand: save {server.url}/svamp.jsonl as {folder / 'svamp-test.jsonl'}." in refused.err
    accepted = ruplar("data", "fetch", "svamp", "--unverified")
    assert accepted.code == 0 and accepted.out.startswith("svamp: not verified, ")
    again = ruplar("data", "fetch", "svamp")
    assert again.code == 2 and "exists, but is not the known set: 3 rows instead of 3" in again.err
    assert contents(folder) == ["svamp-test.jsonl"]
    assert ruplar("data", "fetch", "svamp", "--unverified").out.startswith("svamp: already there, not verified, ")


def test_a_new_entry_gets_its_rows_and_fingerprint_from_the_error(server, monkeypatch):
    content = KNOWN_SETS["svamp"].fingerprint
    known(monkeypatch, "svamp", rows=0, fingerprint="")
    server.files["/svamp.jsonl"] = LINES
    with pytest.raises(UserError, match=f"no fingerprint for 'svamp'; this file has rows: 3, fingerprint: {content}"):
        Fetcher().fetch("svamp")


def test_a_file_with_a_known_sha256_is_verified_by_its_bytes(server, monkeypatch):
    sha256 = hashlib.sha256(LINES).hexdigest()
    known(monkeypatch, "svamp", fingerprint="", sha256=sha256)
    server.files["/svamp.jsonl"] = LINES + b"\n"
    with pytest.raises(UserError, match=r"SHA-256 .{12}… instead of " + sha256[:12]):
        Fetcher().fetch("svamp")
    server.files["/svamp.jsonl"] = LINES
    assert Fetcher().fetch("svamp").state == "verified"


def test_an_interrupted_download_continues_where_it_was(server, tmp_path):
    server.files["/svamp.jsonl"] = LINES
    folder = tmp_path / "cache" / "data"
    server.cut.add("/svamp.jsonl")
    broken = r"svamp.jsonl: the download broke off: .*\n.*the server returned 404 Not Found"
    with pytest.raises(UserError, match=broken):
        Fetcher().fetch("svamp")
    assert contents(folder) == [".svamp.parts", ".svamp.parts/0-svamp.jsonl.partial"]
    server.cut.clear()
    seen = []
    assert Fetcher().fetch("svamp", lambda done, total: seen.append((done, total))).state == "verified"
    assert seen[-1] == (len(LINES), len(LINES)) and len(seen) == 1, "only the second half is downloaded"
    assert (folder / "svamp-test.jsonl").read_bytes() == LINES and contents(folder) == ["svamp-test.jsonl"]


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
    file = tmp_path / "cache" / "data" / "svamp-test.jsonl"
    with pytest.raises(UserError, match=rf"offline mode is on \(HF_HUB_OFFLINE\).* By hand: .* as {file}\."):
        Fetcher().fetch("svamp")
    assert server.requests == [] and not file.parent.exists()


def test_hosts_that_refuse_or_never_answer_are_given_up_after_the_timeout(server, monkeypatch, tmp_path):
    monkeypatch.setattr(downloading, "CONNECT_SECONDS", 0.3)
    monkeypatch.setattr(downloading, "READ_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        endpoint(monkeypatch, f"http://127.0.0.1:{silent.getsockname()[1]}")
        known(monkeypatch, "svamp", url=f"http://127.0.0.1:{closed.getsockname()[1]}/svamp.jsonl")
        with pytest.raises(UserError, match=r"(?s)svamp.jsonl: no connection .*hub:ChilleD.*broke off.*By hand"):
            Fetcher().fetch("svamp")
    assert contents(tmp_path / "cache" / "data") == []


def test_one_failure_does_not_stop_the_others_but_the_command_fails(server, ruplar, monkeypatch, tmp_path):
    server.files["/svamp.jsonl"] = LINES
    known(monkeypatch, "multiarith", url=f"{server.url}/missing")
    found = ruplar("data", "fetch", "multiarith", "svamp")
    assert found.code == 2 and found.out.startswith("svamp: verified") and "multiarith" not in found.out
    assert "'multiarith' cannot be downloaded." in found.err
    assert contents(tmp_path / "cache" / "data") == ["svamp-test.jsonl"]


def test_unknown_names_and_sets_without_a_download_are_reported_before_anything_is_downloaded(
    server, ruplar, monkeypatch
):
    known(monkeypatch, "prosqa-valid", url="")
    found = ruplar("data", "fetch", "svamp", "svmp", "prosqa-valid")
    assert found.code == 2 and server.requests == []
    assert "unknown dataset 'svmp'. Did you mean 'svamp'?" in found.err
    assert "'prosqa-valid': no download known. Put the file in data/ as prosqa-valid.json." in found.err


def test_without_a_name_the_sets_are_listed(server, ruplar, monkeypatch, tmp_path):
    from rich.console import Console

    from ruplar.cli import data_prepare

    monkeypatch.setattr(data_prepare, "out", Console(width=200))
    (tmp_path / "gsm-hard-test.jsonl").write_bytes(LINES)
    found = ruplar("data", "fetch", "--to", tmp_path)
    assert found.code == 0 and server.requests == []
    rows = {cells[0]: cells[1:] for line in found.out.splitlines() if (cells := re.split(r" *│ *", line)[1:-1])}
    assert rows["gsm-hard"] == ["1,319", "github:xiaocen-luo/RuPLaR", str(tmp_path / "gsm-hard-test.jsonl")]
    assert rows["gsm8k-aug-train"] == ["385,620", "github:da03/Internalize_CoT_Step_by_Step", "not there"]


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
    assert found.url.endswith(os.path.splitext(found.file)[1])
