"""Content and a path → a file that is whole or not there: the only place that writes files atomically.

A file is written beside its final name and renamed, so a reader never meets half of one, whatever ends the process.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from ruplar.errors import UserError

METRICS = "metrics.jsonl"
"""A run's training curve, one row per logged step; training writes it and reports read it."""


@contextmanager
def atomic(path: str | Path, *, sync: bool = False) -> Iterator[IO[bytes]]:
    """Open a binary file for writing that takes its name when the block ends, and vanishes when the block fails.

    Args:
        path: The final name; missing parent folders are made.
        sync: Flush to disk before the rename, so that the content outlives a power cut.

    Raises:
        UserError: The file cannot be written there.
    """
    path = Path(path)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
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
        draft.unlink(missing_ok=True)


@contextmanager
def atomic_folder(folder: str | Path, *, replace: bool = False) -> Iterator[Path]:
    """Give a folder to write in that takes its name when the block ends, and vanishes when the block fails.

    Args:
        folder: The final name; missing parent folders are made.
        replace: Take the place of a folder of that name. Without it the first of several writers wins.

    Raises:
        OSError: The folder cannot be written; callers say what to do about it.
    """
    folder = Path(folder)
    draft, old = (folder.with_name(f".{folder.name}.{os.getpid()}{suffix}") for suffix in ("", ".old"))
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        yield draft
        if replace and folder.exists():
            folder.rename(old)
        try:
            draft.rename(folder)
        except OSError:
            if replace or not folder.is_dir():
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def write_bytes(path: str | Path, content: bytes, *, sync: bool = False) -> Path:
    """Write a file atomically and return its path."""
    with atomic(path, sync=sync) as file:
        file.write(content)
    return Path(path)


def write_text(path: str | Path, text: str, *, sync: bool = False) -> Path:
    """Write a UTF-8 file atomically and return its path."""
    return write_bytes(path, text.encode("utf-8"), sync=sync)


def write_json(path: str | Path, value: Any, *, sync: bool = False) -> Path:
    """Write indented JSON atomically and return its path."""
    return write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n", sync=sync)
