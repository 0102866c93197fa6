"""Content and a path → a file or folder that is complete or does not exist.

Content is written under a temporary name in the same folder and renamed, so a reader never sees half of it. Only downloads
do this themselves (`download`, `data.fetch`): their drafts are kept, to be continued.
"""

import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from ruplar.errors import UserError

RECIPE, METRICS, START, DATA, MODEL = "recipe.yaml", "metrics.jsonl", "start.json", "data.json", "model"
"""Files of a run folder: the whole config, the curve, hashes of the start weights and of the data, the model."""
RECORD, TRAINED = "run.json", "trained.json"
"""Records of a training: `ruplar train` writes the first, also with results; `ruplar study` the second, before any result."""


@contextmanager
def atomic(path: str | Path, *, sync: bool = False) -> Iterator[IO[bytes]]:
    """Open a binary file for writing; it gets its name when the block ends and is removed when the block fails.

    `sync` flushes it to disk before the rename, so that the content survives a power cut.
    """
    path = Path(path)
    draft = _beside(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("wb") as file:
            yield file
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror or error}.") from error
    finally:
        with suppress(OSError):
            draft.unlink()


@contextmanager
def atomic_folder(folder: str | Path, *, replace: bool = False) -> Iterator[Path]:
    """Yield a folder to write in; it gets its name when the block ends and is removed when the block fails.

    Without `replace` the first of several writers wins. An OSError is raised as it is: callers say what to do
    about it.
    """
    folder = Path(folder)
    draft = _beside(folder)
    draft.mkdir(parents=True)
    try:
        yield draft
        try:
            publish_folder(draft, folder, replace=replace)
        except OSError:
            if replace or not folder.is_dir():
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def publish_folder(draft: Path, folder: Path, *, replace: bool = False, sync: bool = False) -> None:
    """Rename a finished draft to its final name, on the same disk; a replaced folder is restored if the rename fails.

    `sync` flushes all files to disk first, so that the folder survives a power cut.
    """
    if sync:
        for path in (*sorted(draft.rglob("*")), draft):
            _sync(path)
    old = _beside(folder) if replace and folder.exists() else None
    if old is not None:
        folder.rename(old)
    try:
        draft.rename(folder)
    except BaseException:
        if old is not None:
            old.rename(folder)
        raise
    if sync:
        _sync(folder.parent)
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)


def write_bytes(path: str | Path, content: bytes) -> Path:
    """Write a file atomically and return its path."""
    with atomic(path) as file:
        file.write(content)
    return Path(path)


def write_text(path: str | Path, text: str) -> Path:
    return write_bytes(path, text.encode("utf-8"))


def write_json(path: str | Path, value: Any) -> Path:
    return write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def writable_folder(folder: Path) -> Path:
    """Return the folder if it can be written to, before any work is done for it."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file. Choose a folder.")
    parent = next((place for place in (folder, *folder.absolute().parents) if place.exists()), Path())
    try:
        # a trial folder is the only reliable check for a read-only or full disk and for missing permissions
        Path(tempfile.mkdtemp(prefix=".ruplar-", dir=parent)).rmdir()
    except OSError as error:
        raise UserError(f"{folder}: cannot be created ({parent}: {error.strerror}). Choose another folder.") from error
    return folder


def _beside(path: Path) -> Path:
    """Return a hidden name in the same folder that no other thread, process or machine uses."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:16]}")


def drafts_of(path: Path) -> Iterator[Path]:
    """Yield drafts of a file or folder, also those that killed processes have left; hold a lock to delete them."""
    return path.parent.glob(f".{path.name}.{'[0-9a-f]' * 16}")


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
