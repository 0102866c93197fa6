"""Rows done → an append-only file that outlives kill -9 at any moment, and final files that are whole or absent.

OUTPUT.journal holds a heading that names the input, then one JSON line a reply, written when it is there; replies were paid for
and are forced to the disk one by one. A line that is `open` is a reply which did not settle its row: it could not be used, or its
chain did not hold. Any other line settles its row, the last one counts, and what a conversion used is the sum over all lines. A
line cut off by a kill stands at the end and has no newline: it is removed and its row done again. OUTPUT and
OUTPUT.rejected.jsonl are made from the journal when every row is there, each under another name first.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ruplar.data.convert.tally import UNANSWERED, UNUSABLE
from ruplar.errors import UserError

log = logging.getLogger(__name__)

FORMAT = 2
"""1 had a line a row, with what all its replies used, and no input in its heading."""

USED = ("tokens_in", "tokens_out", "uncounted")


class Journal:
    """The rows of one conversion that are done. Use it in a `with`; one process at a time.

    Args:
        path: Of the file.
        heading: The settings it must agree on.
        keys: The input's rows in their order, by what they say.

    Attributes:
        entries: Key of a row → what settled it.
        open: Key of a row → replies since it was last settled by one, whose chains did not hold.
        used: Tokens of all replies that were ever written down.
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
        """One reply, or one row that is done. A kill leaves it where it is; with `sync` it is on the disk when this returns."""
        self._append({"key": key, **entry}, sync)
        self._take(key, entry)

    def _take(self, key: str, entry: dict[str, Any]) -> None:
        for name in USED:
            self.used[name] += entry.get(name, 0)
        if not entry.get("open"):
            self.entries[key] = entry
            # what failed for want of a reply goes on from those there were, when it is tried again
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
                f"{self.path}: cannot be written ({error.strerror}). Make room and run the same command again; "
                "the rows done so far are kept."
            ) from error

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:  # no such locks on this system; two runs at once would ask rows twice
            log.warning("%s: cannot be locked on this system; run one conversion into it at a time.", self.path)
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(
                f"{self.path}: another conversion is writing it. Wait for it, or name another OUTPUT."
            ) from None

    def _read(self) -> None:
        with open(self._file, "rb", closefd=False) as file:
            written = file.read()
        whole = written[: written.rfind(b"\n") + 1]
        if len(whole) < len(written):
            log.warning("%s: its last line was cut off; that row is done again.", self.path)
            os.ftruncate(self._file, len(whole))
        lines = whole.splitlines()
        if not lines:
            self._append({**self.heading, "input": _named(self.keys)})
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
                self._take(entry.pop("key", ""), entry)
        self._check_input(source)

    def _check_input(self, found: Any) -> None:
        """The input is the one the journal was begun with, or begins with it: then rows were added, and that is written down."""
        now = _named(self.keys)
        if found == now:
            return
        rows = found.get("rows") if isinstance(found, dict) else None
        if not isinstance(rows, int) or not 0 < rows < len(self.keys) or _named(self.keys[:rows]) != found:
            told = f"one of {rows:,} rows" if isinstance(rows, int) else "one that cannot be told"
            raise UserError(
                f"{self.path}: belongs to another input, {told}; this one has {now['rows']:,}"
                f"{' that say something else' if rows == now['rows'] else ''}. What was made from it would be lost: give that "
                "input again (and its --limit), name another OUTPUT, or start over with --force."
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
            told = "; ".join(f"{name} was {found.get(name)!r}, now {self.heading[name]!r}" for name in differ)
            raise UserError(
                f"{self.path}: was begun with other settings ({told}). Go on with those, name another OUTPUT, or start over "
                "with --force."
            )

    def _close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._file)


def _named(keys: Sequence[str]) -> dict[str, Any]:
    """An input by what its rows say and their order, wherever it lies."""
    return {"rows": len(keys), "says": hashlib.sha256("\n".join(keys).encode()).hexdigest()[:16]}


def _parsed(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        found = json.loads(line)
        if not isinstance(found, dict):
            raise ValueError("not an object")
        return found
    except ValueError as error:
        raise UserError(
            f"{path}:{number} cannot be read ({error}): it is no journal of ours, or it was changed. Remove the line, or "
            "start over with --force."
        ) from None


def publish(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Rows → a file of JSON lines that is there whole or not at all."""
    draft = path.with_name(f".{path.name}.draft")
    try:
        with draft.open("w", encoding="utf-8") as out:
            for row in rows:
                out.write(json.dumps(row, ensure_ascii=False) + "\n")
            out.flush()
            os.fsync(out.fileno())
        os.replace(draft, path)
        sync_folder(path.parent)
    except OSError as error:
        raise UserError(
            f"{path}: cannot be written ({error.strerror}). Run the same command again when it can."
        ) from error


def sync_folder(folder: Path) -> None:
    """A file's name is on the disk too, where folders can be synced."""
    with contextlib.suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
