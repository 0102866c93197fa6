"""Finished rows → an append-only journal that survives kill -9, from which the output files are written at the end.

OUTPUT.journal has a heading with the settings, then one JSON line per reply. Replies cost money, so each line is synced to
disk. A line with `open` is a reply with a wrong chain, after which its row is requested again. Any other line finishes its
row; the last one counts. A last line without a newline was cut off by a kill: it is removed, and its row is done again. Rows
are identified by a hash of their content, so rows may be added to the input.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ruplar.errors import UserError
from ruplar.io import atomic

log = logging.getLogger(__name__)

FORMAT = 4
"""Version of the file format."""

NO_REPLY = "no usable reply"
"""Why a row is rejected whose requests failed; the wrong replies before that are kept for the next attempt."""

Entry = dict[str, Any]


class Journal:
    """The journal of one conversion, a context manager; only one process can use it at a time.

    Attributes:
        entries: Key of a row → the entry that finished it.
        open: Key of a row → wrong replies since it was last finished.
    """

    def __init__(self, path: Path, heading: Entry):
        self.path = path
        self.heading = {"ruplar_convert": FORMAT, **heading}
        self.entries: dict[str, Entry] = {}
        self.open: dict[str, list[str]] = {}
        self._file = -1

    def __enter__(self) -> Journal:
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise UserError(f"{self.path}: cannot be written ({error.strerror}). Name another OUTPUT.") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._read()
        except BlockingIOError:
            self.__exit__()
            raise UserError(
                f"{self.path}: another conversion is using it. Wait for it, or name another OUTPUT."
            ) from None
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._file)

    def add(self, key: str, entry: Entry, sync: bool = True) -> None:
        """Append a reply or a finished row; with `sync` it is on disk when this returns."""
        self._append({"key": key, **entry}, sync)
        self._apply(key, entry)

    def _apply(self, key: str, entry: Entry) -> None:
        if entry.get("open"):
            self.open.setdefault(key, []).append(entry["reply"])
            return
        self.entries[key] = entry
        if entry.get("reason") != NO_REPLY:
            self.open.pop(key, None)

    def _append(self, line: Entry, sync: bool = True) -> None:
        left = memoryview(json.dumps(line, ensure_ascii=True).encode() + b"\n")
        try:
            while left:
                left = left[os.write(self._file, left) :]
            if sync:
                os.fsync(self._file)
        except OSError as error:
            raise UserError(
                f"{self.path}: cannot be written ({error.strerror}). Free some space and run the same command again; "
                "finished rows are stored."
            ) from error

    def _read(self) -> None:
        content = self.path.read_bytes()
        complete = content[: content.rfind(b"\n") + 1]
        if len(complete) < len(content):
            log.warning("%s: its last line was cut off; that row is done again.", self.path)
            os.ftruncate(self._file, len(complete))
        if not complete:
            self._append(self.heading)
            _sync_folder(self.path.parent)
            return
        heading, *entries = [self._parsed(line, number) for number, line in enumerate(complete.splitlines(), start=1)]
        differ = [name for name in self.heading if heading.get(name) != self.heading[name]]
        if differ:
            changed = "; ".join(f"{name} was {heading.get(name)!r}, now {self.heading[name]!r}" for name in differ)
            raise UserError(
                f"{self.path}: was started with other settings ({changed}). Use these, name another OUTPUT, or start over "
                "with --force."
            )
        for entry in entries:
            self._apply(entry.pop("key", ""), entry)

    def _parsed(self, line: bytes, number: int) -> Entry:
        try:
            found = json.loads(line)
            if not isinstance(found, dict):
                raise ValueError("not an object")
            return found
        except ValueError as error:
            raise UserError(
                f"{self.path}:{number} cannot be read ({error}): it is not a journal, or it was changed. Remove the line, "
                "or start over with --force."
            ) from None


def publish(path: Path, rows: Iterable[Entry]) -> None:
    """Write rows as JSON Lines, atomically and synced to disk."""
    with atomic(path, sync=True) as out:
        for row in rows:
            out.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Sync a folder to disk, so that the name of a new file survives a power cut; ignored where not supported."""
    with contextlib.suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
