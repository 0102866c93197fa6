"""Prose → rows with chains: every row is converted, verified and stored; then OUTPUT and OUTPUT.rejected.jsonl are written.

OUTPUT.journal has one JSON line per finished row, written at once, so that a killed conversion resumes. A last line without a
newline was cut off by a kill: it is removed, and its row is done again. Rows are identified by a hash of their content and the
settings, so rows may be added to the input.
"""

import fcntl
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from ruplar import plugins
from ruplar.data.convert.endpoint import NO_REPLY, ByModel, Workers
from ruplar.data.convert.prose import Prose
from ruplar.data.convert.rules import Entry, Rejected, rule_of, verify
from ruplar.data.formats import BROKEN
from ruplar.errors import UserError
from ruplar.io import atomic

NO_RULE = "no rule matches"
"""Why a row is rejected before there is a chain; `BROKEN` and `NO_REPLY` are other reasons."""


@dataclass
class ConversionProgress:
    """Rows converted and rejected, by reason, in this run and earlier ones."""

    total: int
    converted: int = 0
    rejected: Counter[str] = field(default_factory=Counter)

    @property
    def done(self) -> int:
        """Rows that are finished."""
        return self.converted + self.rejected.total()

    def count(self, entry: Entry) -> None:
        """Count one finished row."""
        if entry.get("reason"):
            self.rejected[entry["reason"]] += 1
        else:
            self.converted += 1


def rejected_file(output: Path) -> Path:
    """Return the file with the rejected rows of a conversion."""
    return output.with_name(f"{output.name}.rejected.jsonl")


def journal_file(output: Path) -> Path:
    """Return the file with the finished rows of a conversion."""
    return output.with_name(f"{output.name}.journal")


def convert(
    rows: Sequence[Prose],
    output: Path,
    domain: str,
    by: ByModel | None = None,
    *,
    retry_rejected: bool = False,
    on_progress: Callable[[ConversionProgress], None] = lambda progress: None,
    rules: Callable[[Sequence[Prose], str], Iterable[Entry]] | None = None,
) -> ConversionProgress:
    """Convert every row that is not in the journal, then write `output` and, beside it, the rejected rows.

    `domain` verifies the chains; without `by`, its rule converts. `on_progress` is called after every row. After an error,
    finished rows are stored, and the same call resumes. `rules` replaces `by_rules`, on this machine.
    """
    settings = f"{domain} {by.settings if by else 'rules'}"
    keys = {row.key: hashlib.sha256(f"{settings} {row.key}".encode()).hexdigest()[:24] for row in rows}
    with _journal(journal_file(output)) as (journal, entries):
        if other := len(entries.keys() - set(keys.values())):
            raise UserError(
                f"{journal.name}: belongs to another input or other settings: {other:,} of its {len(entries):,} rows are not "
                "in this conversion. Repeat its command, choose another OUTPUT, or start over with --force."
            )
        if retry_rejected:
            entries = {key: entry for key, entry in entries.items() if "chain" in entry}
        progress = ConversionProgress(len(rows))
        for entry in entries.values():
            progress.count(entry)

        def store(row: Prose, entry: Entry) -> None:
            entries[keys[row.key]] = entry
            if entry.get("reason") != NO_REPLY:
                journal.write(json.dumps({"key": keys[row.key], **entry}).encode() + b"\n")
                journal.flush()
            progress.count(entry)
            on_progress(progress)

        on_progress(progress)
        left = [row for row in rows if keys[row.key] not in entries]
        for row in left:
            if row.fault:
                store(row, {"reason": BROKEN, "detail": row.fault})
        left = [row for row in left if not row.fault]
        if by is None:
            for row, entry in zip(left, (rules or by_rules)(left, domain), strict=True):
                store(row, entry)
        else:
            answered = any("reply" in entry for entry in entries.values())
            Workers(by, plugins.make("domains", domain), store, answered).run(left)
        found = [(row, entries[keys[row.key]]) for row in rows]
        _write(rejected_file(output), (_rejected(row, entry) for row, entry in found if "chain" not in entry))
        _write(output, (_converted(row, entry) for row, entry in found if "chain" in entry))
    return progress


def by_rules(rows: Sequence[Prose], domain: str) -> Iterator[Entry]:
    """Convert rows by the rule of a domain; yields what finishes each."""
    read, checker = rule_of(domain), plugins.make("domains", domain)
    for row in rows:
        chain = read(row.question, row.reasoning)
        try:
            if chain is None:
                raise Rejected(NO_RULE, "neither its question nor its prose has a known form")
            yield {"chain": verify(chain, row.question, row.answer, checker)}
        except Rejected as why:
            yield {"reason": why.reason, "detail": why.detail, "reply": chain or ""}


@contextmanager
def _journal(path: Path) -> Iterator[tuple[IO[bytes], dict[str, Entry]]]:
    """Open a journal, which only one process can use at a time, and read its entries."""
    try:
        with path.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield file, _entries(file)
    except BlockingIOError:
        raise UserError(f"{path}: another conversion is using it. Wait for it, or choose another OUTPUT.") from None
    except OSError as error:
        if isinstance(error, ConnectionError) or str(error.filename or path) != str(path):
            raise  # of a connection or another file
        raise UserError(
            f"{path}: cannot be written ({error.strerror or error}). Finished rows are stored: solve this and run the same "
            "command again, or choose another OUTPUT."
        ) from error


def _entries(file: IO[bytes]) -> dict[str, Entry]:
    file.seek(0)
    content = file.read()
    whole = content[: content.rfind(b"\n") + 1]
    file.truncate(len(whole))
    found = {}
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            entry = json.loads(line)
            found[entry.pop("key")] = entry
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise UserError(
                f"{file.name}:{number} cannot be read ({error}): it is not a journal, or it was changed. Remove the line, or "
                "start over with --force."
            ) from None
    return found


def _converted(row: Prose, entry: Entry) -> Entry:
    return {"problem": row.question, "solution": entry["chain"], "answer": row.answer}


def _rejected(row: Prose, entry: Entry) -> Entry:
    why = {"reason": entry["reason"], "detail": entry["detail"], "reply": entry.get("reply", "")}
    return {"row": row.source, "problem": row.question, "answer": row.answer, **why}


def _write(path: Path, rows: Iterable[Entry]) -> None:
    with atomic(path, sync=True) as out:
        for row in rows:
            out.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
