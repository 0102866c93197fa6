"""A run's samples → its marks, one a question, and which of its questions are about the same scenario.

Questions that share a scenario (`domain.scenario`: what a question tells before it asks) stand or fall together: BIG-bench's
Date Understanding asks nine of each. Ten scenarios asked nine times are then not ninety independent questions, and what is said
of their mean must count scenarios. Which is which is read off the questions on record; records need not say it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from pydantic import ValidationError

from ruplar.errors import UserError
from ruplar.evaluate.record import SAMPLES, BenchmarkResult, RunRecord, read_samples
from ruplar.evaluate.stats import Grouped, clustered_variance
from ruplar.report.thoughts import domain_of

log = logging.getLogger(__name__)

Question = tuple[int, str]
"""Its place in the set and its words."""


def marks_of(folder: Path, result: BenchmarkResult) -> dict[Question, bool]:
    """Question → right or wrong in one result, read from the samples beside it.

    Raises:
        UserError: The samples are not those of all its answers.
    """
    file = folder / SAMPLES
    known = _samples(folder, file.stat().st_mtime_ns if file.is_file() else None)
    asked = result.name, result.seed, result.lenient
    # rows of older runs do not say how they were decoded; they were decoded in one way
    found = known.get((*asked, result.decoding)) or known.get((*asked, "")) or {}
    if len(found) != result.n:
        raise UserError(
            f"{folder}: {SAMPLES} holds {len(found):,} of the {result.n:,} answers on {result.name}; "
            "without them methods cannot be compared question by question. Evaluate again, or leave --tests out."
        )
    return found


@lru_cache(maxsize=256)
def _samples(folder: Path, written: int | None) -> Mapping[tuple[str, int, bool, str], dict[Question, bool]]:
    """(Benchmark, seed of the decoding, lenient, decoding) → question → right or wrong; {} where none were `written`."""
    found: dict[tuple[str, int, bool, str], dict[Question, bool]] = {}
    for row in () if written is None else read_samples(folder):
        key = row["benchmark"], row["seed"], row.get("lenient", False), row.get("decoding", "")
        found.setdefault(key, {})[row["index"], row["question"]] = bool(row["correct"])
    return found


def groups_of(record: RunRecord, questions: Iterable[Question]) -> list[int] | None:
    """Questions → the number of each one's scenario, from 0 on; None where each has its own, or no scenario is known."""
    told = _teller(record)
    if told is None:
        return None
    numbers: dict[str, int] = {}
    # what tells nothing before it asks shares nothing with another
    groups = [numbers.setdefault(told(words) or words, len(numbers)) for _, words in questions]
    return groups if len(numbers) < len(groups) else None


def in_groups(runs: Sequence[tuple[Path, RunRecord, BenchmarkResult]]) -> Grouped | None:
    """Results of one row, one a seed → the mean of their clustered variances, and their scenarios; None where none is shared.

    A seed's own variance, not that of the means over seeds: as `over_seeds` has it of questions that share nothing.
    """
    found = []
    for folder, record, result in runs:
        if _teller(record) is None:
            return None
        try:
            marks = marks_of(folder, result)
        except UserError:
            log.warning(
                "%s: %s does not hold the answers on %s, so its interval takes the questions as independent, whatever they share.",
                folder, SAMPLES, result.name,
            )  # fmt: skip
            return None
        groups = groups_of(record, marks) or range(result.n)
        count = max(groups) + 1
        found.append(Grouped(clustered_variance(list(marks.values()), groups) if count > 1 else 0.0, count))
    if all(one.groups == result.n for one, (_, _, result) in zip(found, runs, strict=True)):
        return None
    return Grouped(sum(one.variance for one in found) / len(found), min(one.groups for one in found))


def _teller(record: RunRecord) -> Callable[[str], str] | None:
    """What tells a question's scenario in the domain of a run; None where nothing does."""
    named = record.config.get("domain") or record.config.get("data", {}).get("domain")
    if not named:  # records of older runs
        return None
    try:
        return getattr(domain_of(record), "scenario", None)
    except (UserError, ValidationError):  # a domain from elsewhere, or of a later version
        _warn_unknown(str(named["name"]))
        return None


@lru_cache(maxsize=256)
def _warn_unknown(domain: str) -> None:
    """Once a domain, not once a run."""
    log.warning(
        "domain '%s' cannot be loaded here, so its questions are taken as independent, whatever they share.", domain
    )
