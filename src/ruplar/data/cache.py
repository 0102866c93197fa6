"""Things that take minutes to make → folders that later runs find again: named by what they depend on, whole or not there."""

from __future__ import annotations

import fcntl
import hashlib
import inspect
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from ruplar.errors import UserError

ENCODED = ".encoded"
"""The folder, beside the runs that share it, where such things are kept."""
ABOVE = ("evaluate", "report", "serve", "bench", "display", "runs", "experiments", "demo", "cli")
"""Parts of the package that training never imports, so that nothing it makes depends on them."""
_SIZES = "sizes.json"


def key_of(names: Mapping[str, Any], *texts: str) -> str:
    """Plain data and texts → a name that changes with any of them."""
    found = hashlib.sha256(json.dumps(names, sort_keys=True).encode())
    for text in texts:
        found.update(hashlib.sha256(text.encode()).digest())
    return found.hexdigest()[:24]


def source_of(*plugged: Any) -> str:
    """A hash of the code that makes things, the package's and the plug-ins', which may lie beside it.

    Other code makes other things; but a table or a server that is mended makes none of them, so what is `ABOVE` is not in it.
    """
    outside = sorted({str(inspect.getsourcefile(type(one))) for one in plugged})
    return "".join([package_source(Path(__file__).parents[1]), *(_hash(Path(file)) for file in outside)])


@cache
def package_source(root: Path) -> str:
    """A hash of the package that lies there, without what is `ABOVE`; it is read once."""
    files = (file.relative_to(root) for file in sorted(root.rglob("*.py")))
    return "".join(_hash(root / file) for file in files if file.with_suffix("").parts[0] not in ABOVE)


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def is_complete(place: Path) -> bool:
    """Whether a folder is there, and as it was left.

    Raises:
        UserError: A file of it is missing or has another size.
    """
    if not place.is_dir():
        return False
    try:
        sizes = json.loads((place / _SIZES).read_text(encoding="utf-8"))
        wrong = [name for name, size in sizes.items() if (place / name).stat().st_size != size]
    except (OSError, ValueError, AttributeError) as error:
        wrong = [getattr(error, "filename", None) or _SIZES]
    if wrong:
        raise UserError(
            f"{place}: {Path(wrong[0]).name} is missing or not as long as it was written, so nothing here can be trusted. "
            "Remove the folder; the next run makes it anew."
        )
    return True


def bytes_of(place: Path) -> int:
    """How much disk a kept folder takes."""
    return sum(file.stat().st_size for file in place.rglob("*") if file.is_file())


@contextmanager
def alone(place: Path) -> Iterator[None]:
    """Hold a folder that may have to be made: other processes that ask for it wait, then find it there."""
    lock = place.with_name(f".{place.name}.lock")
    with _writable(place):
        lock.parent.mkdir(parents=True, exist_ok=True)
        file = lock.open("w")
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)  # the kernel lets go of it when the process dies
        yield


@contextmanager
def write_complete(place: Path) -> Iterator[Path]:
    """A folder to write in, which takes its name when the block ends well; the first of several processes wins.

    Raises:
        UserError: It cannot be written.
    """
    draft = place.with_name(f".{place.name}.{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        with _writable(place):
            draft.mkdir(parents=True)
            yield draft
            sizes = {str(file.relative_to(draft)): file.stat().st_size for file in draft.rglob("*") if file.is_file()}
            (draft / _SIZES).write_text(json.dumps(sizes, indent=1, sort_keys=True), encoding="utf-8")
            try:
                draft.rename(place)
            except OSError:
                if not place.is_dir():
                    raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def _writable(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{place.parent}: cannot be written ({error.strerror or error}). Name another --output (of a study: --work), or "
            "set speed.pretokenize: false, which keeps nothing there."
        ) from error
