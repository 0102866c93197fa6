"""Finished rows → an append-only journal that survives kill -9, from which the output files are written at the end.

OUTPUT.journal has a heading that identifies the input, then one JSON line per reply. Replies cost money, so each line is
synced to disk. A line with `open` is a reply that did not finish its row: it could not be used, or its chain was wrong. Any
other line finishes its row; the last one counts. The tokens used are the sum over all lines. A last line without a newline
was cut off by a kill: it is removed, and its row is done again.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import logging
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ruplar.data.convert.verify import UNANSWERED, UNUSABLE
from ruplar.errors import UserError
from ruplar.io import atomic

log = logging.getLogger(__name__)

FORMAT = 3
"""Version of the file format."""

USED = ("tokens_in", "tokens_out", "uncounted")


class Journal:
    """The journal of one conversion, a context manager; only one process can use it at a time.

    Args:
        path: The file.
        heading: Settings that must be those of the existing file.
        keys: Keys of the input rows, in order.

    Attributes:
        entries: Key of a row → the entry that finished it.
        open: Key of a row → wrong replies since it was last finished.
        used: Tokens of all replies.
    """

    def __init__(self, path: Path, heading: dict[str, Any], keys: Sequence[str] = ()):
        self.path, self.keys = path, keys
        self.heading = {"ruplar_convert": FORMAT, **heading}
        self.entries: dict[str, dict[str, Any]] = {}
        self.open: dict[str, list[str]] = {}
        self.used = dict.fromkeys(USED, 0)
        self._file = -1

    def __enter__(self) -> Journal:
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise UserError(f"{self.path}: cannot be written ({error.strerror}). Name another OUTPUT.") from error
        try:
            self._lock()
            self._read()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    def add(self, key: str, entry: dict[str, Any], sync: bool = True) -> None:
        """Append a reply or a finished row; with `sync` it is on disk when this returns."""
        self._append({"key": key, **entry}, sync)
        self._apply(key, entry)

    def _apply(self, key: str, entry: dict[str, Any]) -> None:
        for name in USED:
            self.used[name] += entry.get(name, 0)
        if not entry.get("open"):
            self.entries[key] = entry
            # a row that failed without a reply keeps its earlier replies for the next attempt
            if entry.get("reason") not in (UNANSWERED, UNUSABLE):
                self.open.pop(key, None)
        elif "reply" in entry:
            self.open.setdefault(key, []).append(entry["reply"])

    def _append(self, line: dict[str, Any], sync: bool = True) -> None:
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

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(
                f"{self.path}: another conversion is using it. Wait for it, or name another OUTPUT."
            ) from None

    def _read(self) -> None:
        with open(self._file, "rb", closefd=False) as file:
            content = file.read()
        complete = content[: content.rfind(b"\n") + 1]
        if len(complete) < len(content):
            log.warning("%s: its last line was cut off; that row is done again.", self.path)
            os.ftruncate(self._file, len(complete))
        lines = complete.splitlines()
        if not lines:
            self._append({**self.heading, "input": _identity(self.keys)})
            sync_folder(self.path.parent)
            return
        heading = _parsed(lines[0], self.path, 1)
        self._check_heading(heading)
        source = heading.get("input")
        for number, line in enumerate(lines[1:], start=2):
            entry = _parsed(line, self.path, number)
            if "input" in entry:
                source = entry["input"]
            else:
                self._apply(entry.pop("key", ""), entry)
        self._check_input(source)

    def _check_input(self, found: Any) -> None:
        """Check that the input is that of the journal, possibly with rows added at its end; the addition is stored."""
        now = _identity(self.keys)
        if found == now:
            return
        rows = found.get("rows") if isinstance(found, dict) else None
        if not isinstance(rows, int) or not 0 < rows < len(self.keys) or _identity(self.keys[:rows]) != found:
            other = f"one of {rows:,} rows" if isinstance(rows, int) else "an unknown one"
            raise UserError(
                f"{self.path}: belongs to another input, {other}; this one has {now['rows']:,}"
                f"{' with other content' if rows == now['rows'] else ''}. Use that input again (and its --limit), name "
                "another OUTPUT, or start over with --force."
            )
        self._append({"input": now})

    def _check_heading(self, found: dict[str, Any]) -> None:
        form = found.get("ruplar_convert")
        if form is not None and form != FORMAT:
            raise UserError(
                f"{self.path}: was written by another version of ruplar (format {form}, this one writes {FORMAT}). Finish it "
                "with that version, name another OUTPUT, or start over with --force."
            )
        differ = [name for name in self.heading if found.get(name) != self.heading[name]]
        if differ:
            changed = "; ".join(f"{name} was {found.get(name)!r}, now {self.heading[name]!r}" for name in differ)
            raise UserError(
                f"{self.path}: was started with other settings ({changed}). Use these, name another OUTPUT, or start over "
                "with --force."
            )

    def _close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._file)


def _identity(keys: Sequence[str]) -> dict[str, Any]:
    """Return what identifies an input: the content and order of its rows."""
    return {"rows": len(keys), "says": hashlib.sha256("\n".join(keys).encode()).hexdigest()[:16]}


def _parsed(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        found = json.loads(line)
        if not isinstance(found, dict):
            raise ValueError("not an object")
        return found
    except ValueError as error:
        raise UserError(
            f"{path}:{number} cannot be read ({error}): it is not a journal, or it was changed. Remove the line, or "
            "start over with --force."
        ) from None


def publish(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write rows as JSON Lines, atomically and synced to disk."""
    with atomic(path, sync=True) as out:
        for row in rows:
            out.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Sync a folder to disk, so that the name of a new file survives a power cut; ignored where not supported."""
    with contextlib.suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
