"""Path or name → examples, and a report on unusable rows.

    source –locate→ rows –format→ Example | Problem → ReadResult

Bad rows are never skipped silently: they raise one error that lists each kind or, with `skip_bad`, are skipped,
counted in the `ReadResult` and logged.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np

from ruplar.data.formats import BROKEN, DUPLICATE, FORMATS, NO_STEP, UNREADABLE, BadRow, detect, to_example
from ruplar.data.locations import Location, locate
from ruplar.data.stored import Spool
from ruplar.domains.base import Domain
from ruplar.errors import UserError, unknown
from ruplar.fingerprints import fingerprint, fingerprint_questions, short_digest
from ruplar.mapped import NumberFile, repeated
from ruplar.types import Example

log = logging.getLogger(__name__)

SKIP_WITH = "set data.skip_bad: true"
"""How a recipe skips bad rows."""

WORDS = "answer in words"
"""Reason to report a row that is used: the domain cannot parse its answer."""

_SHOWN = 3
_MEANING = {
    BROKEN: "cannot be read",
    NO_STEP: "have no step",
    UNREADABLE: "have no readable answer",
    DUPLICATE: "repeat an earlier question",
    WORDS: "have an answer that the domain cannot parse, so it is compared word for word",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """A row that is unusable, or repeats a question."""

    reason: str
    source: str
    excerpt: str
    detail: str = ""

    def __str__(self) -> str:
        detail = f" ({self.detail})" if self.reason == BROKEN else ""
        return f'{self.source} "{self.excerpt}"{detail}'


@dataclass(slots=True)
class ReadResult:
    """The result of reading one source."""

    location: Location
    examples: Sequence[Example] = ()
    rows: int = 0  # number of rows read, including those left out
    left_out: dict[str, list[Problem]] = field(default_factory=dict)  # reason → the rows left out
    # rows that repeat an earlier question and are among the examples
    repeats: list[Problem] = field(default_factory=list)
    # rows whose answer the domain cannot parse; they are among the examples, and compared word for word
    in_words: list[Problem] = field(default_factory=list)

    def report(self) -> str:
        """Return one line per reason: `a.jsonl: 7,378 of 7,473 rows read. Left out: 95 of 7,473 rows have no step …`."""
        lines = [f"{self.location.name}: {len(self.examples):,} of {self.rows:,} rows read."]
        lines += [f"Left out: {_count(problems, self.rows)}." for problems in self.left_out.values()]
        lines += [f"Included: {_count(rows, self.rows)}." for rows in (self.repeats, self.in_words) if rows]
        return "\n  ".join(lines)

    def record(self) -> dict[str, Any]:
        """Return the entry of `run.json`: fingerprints of the source, and counts."""
        return {
            "source": self.location.path.name if self.location.path is not None else self.location.name,
            "sha256": fingerprint(self.location.path) if self.location.path is not None else None,
            "questions_sha256": fingerprint_questions(self.examples),
            "rows": self.rows,
            "examples": len(self.examples),
            "left_out": {reason: len(problems) for reason, problems in self.left_out.items()},
            "repeats_kept": len(self.repeats),
        }


def read(
    source: str | Path,
    domain: Domain,
    *,
    format: str | None = None,
    need_steps: bool = True,
    skip_bad: bool = False,
    limit: int | None = None,
    data_dir: str | Path | None = None,
    skip_with: str = SKIP_WITH,
) -> ReadResult:
    """Source → its examples, and a report on the other rows.

    Args:
        source: A path, a known name or a Hub address; see `locate`.
        domain: Finds the steps in a chain.
        format: One of `FORMATS`; None to detect it from the columns of the first row.
        need_steps: Treat a row without a step as bad; False for benchmarks.
        skip_bad: Skip and count bad rows instead of raising an error.
        limit: Stop after this many examples.
        data_dir: Folder with the files of known sets.
        skip_with: How the user can skip bad rows, for the error message.
    """
    location = locate(source, data_dir)
    reading = ReadResult(location)
    examples, keys = Spool(), NumberFile(dtype=np.uint64)
    for found in _scan(location, domain, format, need_steps):
        reading.rows += 1
        if isinstance(found, Example):
            examples.append(found)
            keys.append(short_digest(found.question))
            if domain.extract(found.answer) is None:
                reading.in_words.append(Problem(WORDS, found.source, shorten(found.answer, 60)))
        else:
            reading.left_out.setdefault(found.reason, []).append(found)
        if len(examples) == limit:
            break
    reading.examples = examples.done()
    repeats = (reading.examples[row] for row in repeated(keys.done()))
    reading.repeats = [Problem(DUPLICATE, found.source, shorten(found.question, 60)) for found in repeats]
    if reading.left_out and not skip_bad:
        raise UserError(*_bad_rows(reading.left_out, reading.rows, domain, skip_with), where=location.name)
    if not reading.examples:
        why = "; ".join(_count(problems, reading.rows) for problems in reading.left_out.values()) or "it has no rows"
        hint = f" {step_hint(domain, reading.left_out)}" if NO_STEP in reading.left_out else ""
        raise UserError(f"{location.name}: no usable row: {why}.{hint}")
    log.log(logging.WARNING if reading.left_out or reading.in_words else logging.INFO, "%s", reading.report())
    return reading


def _scan(location: Location, domain: Domain, format: str | None, need_steps: bool) -> Iterator[Example | Problem]:
    if format is not None and format not in FORMATS:
        raise UserError(f"format: {unknown('format', format, FORMATS)}")
    name = format
    for row in location.rows():
        if name is None and not row.fault:
            name = detect(row, row.source)
            log.info("%s: detected format '%s'", location.name, name)
        try:
            # a row with a fault is rejected whatever its format, so the format may still be unknown
            yield to_example(row, name or "plain", domain, need_steps)
        except BadRow as bad:
            yield Problem(bad.reason, row.source, shorten(bad.about or row.raw, 60), bad.detail)


def _count(problems: list[Problem], rows: int) -> str:
    """`95 of 7,473 rows have no step (first: gsm8k-train.jsonl:106 "…"; …)`."""
    shown = "; ".join(str(p) for p in problems[:_SHOWN])
    return f"{len(problems):,} of {rows:,} rows {_MEANING[problems[0].reason]} (first: {shown})"


def step_hint(domain: Domain, left_out: Mapping[str, list[Problem]] | None = None) -> str:
    """Return the column that rows without a step lack, if any, and a sentence that shows how the domain's steps are written."""
    name = type(domain).__module__.rpartition(".")[2]
    lacking = next((row for row in (left_out or {}).get(NO_STEP, ()) if row.detail != NO_STEP), None)
    column = f"{lacking.source}: {lacking.detail}. " if lacking is not None else ""
    return f"{column}The domain '{name}' reads steps written like this: {domain.EXAMPLE[0]}"


def _bad_rows(bad: dict[str, list[Problem]], rows: int, domain: Domain, skip_with: str) -> list[str]:
    skip = f"{skip_with} to leave them out"
    fixes = {NO_STEP: f"{step_hint(domain, bad)}. Choose another data.domain, or {skip}."}
    return [f"{_count(some, rows)}. {fixes.get(why, f'Correct them, or {skip}.')}" for why, some in bad.items()]
