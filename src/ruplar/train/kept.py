"""Things that take minutes to make → folders that later runs find again: named by what they depend on, whole or not there."""

from __future__ import annotations

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


def key_of(names: Mapping[str, Any], *texts: str) -> str:
    """Plain data and texts → a name that changes with any of them."""
    found = hashlib.sha256(json.dumps(names, sort_keys=True).encode())
    for text in texts:
        found.update(hashlib.sha256(text.encode()).digest())
    return found.hexdigest()[:24]


def source_of(*plugged: Any) -> str:
    """A hash of the package's code and of the plug-ins', which may lie beside it: other code makes other things."""
    outside = sorted({str(inspect.getsourcefile(type(one))) for one in plugged})
    return "".join([_package(), *(_hash(Path(file)) for file in outside)])


@cache
def _package() -> str:
    files = sorted(Path(__file__).parents[1].rglob("*.py"))
    return "".join(_hash(file) for file in files)


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@contextmanager
def kept_whole(place: Path) -> Iterator[Path]:
    """A folder to write in, which takes its name when the block ends well; the first of several processes wins."""
    draft = place.with_name(f".{place.name}.{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        yield draft
        try:
            draft.rename(place)
        except OSError:
            if not place.is_dir():
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
