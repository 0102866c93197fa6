"""Path or name → examples, with every row that gave none counted, located and shown.

    source –locate→ rows –format→ Example | Problem –policy→ Reading

Bad rows are never passed over in silence: they stop the reading with one message that names each kind, or, with
`skip_bad`, are left out, counted in the `Reading` and logged.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from ruplar.data.formats import BROKEN, DUPLICATE, NO_STEP, UNREADABLE, BadRow, detect, known, to_example
from ruplar.data.locations import SOURCES, Place, locate
from ruplar.domains.base import Domain
from ruplar.errors import UserError
from ruplar.fingerprints import digest, fingerprint, fingerprint_questions, overlap
from ruplar.types import Example

__all__ = [
    "SOURCES",
    "Problem",
    "ReadResult",
    "fingerprint",
    "fingerprint_questions",
    "iterate",
    "locate",
    "overlap",
    "read",
]

log = logging.getLogger(__name__)

SKIP_WITH = "set data.skip_bad: true"
"""How a recipe leaves bad rows out."""

Duplicates = Literal["keep", "drop", "refuse"]
"""Rows whose question stood before: kept and noted (benchmarks), left out and counted, or as bad as a broken row."""

WORDS = "answer in words"
"""Why a row is told though it is kept: its answer is none of the domain's."""

_SHOWN = 3
_MEANING = {
    BROKEN: "cannot be read",
    NO_STEP: "have no step",
    UNREADABLE: "have no readable answer",
    DUPLICATE: "repeat an earlier question",
    WORDS: "have an answer that the domain cannot read, so that it is compared word for word",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """A row that gave no example, or repeats one.

    Attributes:
        reason: `broken row`, `no step`, `unreadable answer` or `duplicate`.
        source: `file:line`.
        excerpt: The start of what stands there.
        detail: What is wrong with it.
    """

    reason: str
    source: str
    excerpt: str
    detail: str = ""

    def __str__(self) -> str:
        detail = f" ({self.detail})" if self.reason == BROKEN else ""
        return f'{self.source} "{self.excerpt}"{detail}'


@dataclass(slots=True)
class ReadResult:
    """What came out of reading one source.

    Attributes:
        place: Where it was read from.
        examples: In the order of the source.
        rows: Rows met, those left out included.
        left_out: Reason → the rows left out for it.
        repeats: Rows that repeat an earlier question and were kept.
        in_words: Rows whose answer the domain cannot read; they were kept, and their answers are compared as words.
    """

    place: Place
    examples: list[Example] = field(default_factory=list)
    rows: int = 0
    left_out: dict[str, list[Problem]] = field(default_factory=dict)
    repeats: list[Problem] = field(default_factory=list)
    in_words: list[Problem] = field(default_factory=list)

    def report(self) -> str:
        """One line a reason: `gsm8k-train.jsonl: 7,378 of 7,473 rows; 95 have no step (first: …)`."""
        lines = [f"{self.place.name}: {len(self.examples):,} of {self.rows:,} rows read."]
        lines += [f"Left out: {_count(problems, self.rows)}." for problems in self.left_out.values()]
        lines += [f"Kept: {_count(kept, self.rows)}." for kept in (self.repeats, self.in_words) if kept]
        return "\n  ".join(lines)

    def record(self) -> dict[str, Any]:
        """What `run.json` keeps of it: the source by fingerprint, and the counts."""
        return {
            "source": self.place.path.name if self.place.path is not None else self.place.name,
            "sha256": fingerprint(self.place.path) if self.place.path is not None else None,
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
    duplicates: Duplicates = "keep",
    data_dir: str | Path | None = None,
    skip_with: str = SKIP_WITH,
) -> ReadResult:
    """Source → its examples and an account of the rest.

    Args:
        source: A path, a known name (`SOURCES`) or a Hub address; see `chains/places.py`.
        domain: Finds the steps in a chain.
        format: One of `FORMATS`; without it the first row's columns decide.
        need_steps: Whether a row without a step is bad; false for benchmarks, whose rows need none.
        skip_bad: Leave bad rows out and count them, instead of refusing the source.
        limit: Stop after so many examples.
        duplicates: What to do with a row whose question stood before.
        data_dir: Folder with the files of known names.
        skip_with: How the user leaves bad rows out, for the message that refuses them.

    Raises:
        UserError: The source cannot be found or read, holds bad rows and `skip_bad` is off, or no example is left.
    """
    _check_limit(limit)
    place = locate(source, data_dir)
    reading = ReadResult(place)
    seen: set[bytes] = set()
    for found in _scan(place, domain, format, need_steps):
        reading.rows += 1
        if isinstance(found, Example):
            found = _unrepeated(found, seen, reading, duplicates)
        if isinstance(found, Example):
            reading.examples.append(found)
            if domain.extract(found.answer) is None:
                reading.in_words.append(Problem(WORDS, found.source, _excerpt(found.answer)))
        else:
            reading.left_out.setdefault(found.reason, []).append(found)
        if len(reading.examples) == limit:
            break
    bad = {r: p for r, p in reading.left_out.items() if r != DUPLICATE or duplicates == "refuse"}
    if bad and not skip_bad:
        raise UserError(*_refusal(bad, reading.rows, domain, skip_with), where=place.name)
    if not reading.examples:
        why = "; ".join(_count(problems, reading.rows) for problems in reading.left_out.values()) or "it holds no row"
        raise UserError(f"{place.name}: no example is left: {why}.")
    log.log(logging.WARNING if reading.left_out or reading.in_words else logging.INFO, "%s", reading.report())
    return reading


def iterate(
    source: str | Path,
    domain: Domain,
    *,
    format: str | None = None,
    need_steps: bool = True,
    skip_bad: bool = False,
    limit: int | None = None,
    data_dir: str | Path | None = None,
) -> Iterator[Example]:
    """Source → its examples one by one, none kept in memory; repeated questions are passed on.

    Args are those of `read`. Without `skip_bad` the first bad row stops the iteration; with it, what was left out is
    logged when the source ends.

    Raises:
        UserError: The source cannot be found or read, or holds a bad row and `skip_bad` is off.
    """
    _check_limit(limit)
    place = locate(source, data_dir)

    def examples() -> Iterator[Example]:
        reading = ReadResult(place)
        for found in _scan(place, domain, format, need_steps):
            reading.rows += 1
            if isinstance(found, Example):
                yield found
            elif skip_bad:
                reading.left_out.setdefault(found.reason, []).append(found)
            else:
                raise UserError(*_refusal({found.reason: [found]}, reading.rows, domain), where=place.name)
        for problems in reading.left_out.values():
            log.warning("%s: left out: %s.", place.name, _count(problems, reading.rows))

    return islice(examples(), limit)


def _check_limit(limit: int | None) -> None:
    if limit is not None and limit < 1:
        raise UserError(f"limit: must be at least 1, got {limit}. Leave it out to read everything.")


def _scan(place: Place, domain: Domain, format: str | None, need_steps: bool) -> Iterator[Example | Problem]:
    """Every row of a place → its example or its problem."""
    name = known(format) if format is not None else None
    for row in place.rows():
        if name is None and not row.fault:
            name = detect(row, row.source)
            log.info("%s is read as '%s'", place.name, name)
        try:
            # a row with a fault is refused before its format matters, so that none need be known yet
            yield to_example(row, name or "plain", domain, need_steps)
        except BadRow as bad:
            yield Problem(bad.reason, row.source, _excerpt(bad.about or row.raw), bad.detail)


def _unrepeated(example: Example, seen: set[bytes], reading: ReadResult, duplicates: Duplicates) -> Example | Problem:
    """The example, or the problem that its question stood before; where repeats are kept, noted and passed on."""
    key = digest(example.question)
    if key not in seen:
        seen.add(key)
        return example
    repeat = Problem(DUPLICATE, example.source, _excerpt(example.question))
    if duplicates != "keep":
        return repeat
    reading.repeats.append(repeat)
    return example


def _excerpt(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 60 else text[:57] + "..."


def _count(problems: list[Problem], rows: int) -> str:
    """`95 of 7,473 rows have no step (first: gsm8k-train.jsonl:106 "…"; …)`."""
    shown = "; ".join(str(p) for p in problems[:_SHOWN])
    return f"{len(problems):,} of {rows:,} rows {_MEANING[problems[0].reason]} (first: {shown})"


def _refusal(bad: dict[str, list[Problem]], rows: int, domain: Domain, skip_with: str = SKIP_WITH) -> list[str]:
    """One sentence a reason, each with the way out."""
    name = type(domain).__module__.rpartition(".")[2]
    hints = {
        NO_STEP: f"Domain '{name}' reads steps as in `{domain.EXAMPLE[0]}`. "
        f"{skip_with[:1].upper()}{skip_with[1:]} to leave them out, or choose another data.domain.",
        DUPLICATE: f"{skip_with[:1].upper()}{skip_with[1:]} to leave them out, or data.duplicates: keep.",
    }
    mend = f"Mend them, or {skip_with} to leave them out."
    return [f"{_count(problems, rows)}. {hints.get(reason, mend)}" for reason, problems in bad.items()]
