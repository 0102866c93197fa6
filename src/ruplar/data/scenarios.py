"""Readings → the rows whose chains are wrong, and the part of a set that no scenario shares with another part.

Date Understanding has 369 questions about 41 scenarios, nine a scenario; divided at random, as the paper divides it, every scenario of
the test is trained on with another question. Here whole scenarios are divided: about one in five for testing, one in ten for
validation. Which one goes where depends on its text and on the others of its set alone.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from typing import Any

from ruplar.data.read import SOURCES, Problem, ReadResult, read
from ruplar.domains.base import Domain, faults
from ruplar.errors import UserError
from ruplar.fingerprints import fingerprint_questions
from ruplar.problems.seeding import Split

log = logging.getLogger(__name__)

JOINED = {"date-understanding-by-scenario": ("date-understanding-train", "date-understanding")}
"""Sets that are read from several known ones and then divided by scenario."""

WRONG = "wrong chain"
_TEST, _VALID = 2, 1
"""Tenths of all scenarios."""


def part_of_scenario(scenario: str) -> Split:
    """The part a scenario belongs to, by its own text alone.

    So it does not matter which other rows were read, or left out: no scenario can be trained on by one reading and tested by another.
    """
    draw = int.from_bytes(hashlib.sha256(scenario.encode()).digest()[:8]) % 10
    return "test" if draw < _TEST else "valid" if draw < _TEST + _VALID else "train"


def keep_part(readings: Sequence[ReadResult], domain: Domain, split: Split, name: str) -> None:
    """Leave only the examples of one part in what was read.

    Raises:
        UserError: The domain cannot tell scenarios, or the part is empty.
    """
    of = getattr(domain, "scenario", None)
    if of is None:
        raise UserError(
            f"split_by: the domain '{type(domain).__module__.rpartition('.')[2]}' does not say what a scenario is (`scenario`)."
        )
    for reading in readings:
        reading.examples = [e for e in reading.examples if part_of_scenario(of(e.question)) == split]
    if not any(reading.examples for reading in readings):
        raise UserError(f"{name}: has too few scenarios to be divided; no row is left for '{split}'.")


def record_of(readings: Sequence[ReadResult], domain: Any, split: Split, name: str) -> dict[str, Any]:
    """What run.json keeps of a part."""
    examples = [example for reading in readings for example in reading.examples]
    left_out: dict[str, int] = {}
    for reading in readings:
        for reason, problems in reading.left_out.items():
            left_out[reason] = left_out.get(reason, 0) + len(problems)
    return {
        "source": name,
        "questions_sha256": fingerprint_questions(examples),
        "rows": sum(reading.rows for reading in readings),
        "examples": len(examples),
        "left_out": left_out,
        "split": split,
        "split_by": "scenario",
        "scenarios": len({domain.scenario(example.question) for example in examples}),
    }


def remarks(reading: ReadResult, domain: Domain) -> list[str]:
    """What is to be said of a set as a whole: questions that share a scenario, and scenarios another known set has too."""
    of = getattr(domain, "scenario", None)
    if of is None:
        return []
    told = [of(example.question) for example in reading.examples]
    found = []
    if len(set(told)) < len(told):
        found.append(
            f"{len(told)} questions tell {len(set(told))} scenarios: divided at random, a test would ask what was trained on. "
            "Divide them with split_by: scenario."
        )
    for joined, names in JOINED.items():
        for name in names:
            shared = _shared(reading, told, domain, name, names)
            if shared:
                found.append(
                    f"the paper's split leaks: {shared} of these {len(told)} questions tell a scenario that '{name}' tells too. "
                    f"'{joined}' has no scenario in two parts."
                )
    return found


def _shared(reading: ReadResult, told: Sequence[str], domain: Any, other: str, names: Sequence[str]) -> int:
    """Questions of a known set whose scenario stands in another set of the same family; 0 where it is none of them."""
    path = reading.place.path
    here = next((name for name in names if path is not None and SOURCES[name].file == path.name), None)
    if path is None or here in (None, other) or not (path.parent / SOURCES[other].file).is_file():
        return 0
    theirs = read(path.parent / SOURCES[other].file, domain, skip_bad=True, need_steps=False)
    known = {domain.scenario(example.question) for example in theirs.examples}
    return sum(scenario in known for scenario in told)


def wrong_chains(readings: Sequence[ReadResult], domain: Domain) -> dict[str, str]:
    """Where a chain does not re-execute, or not to its answer → what is wrong with it; empty for a domain that refuses none."""
    if not getattr(domain, "REFUSES_WRONG", False):
        return {}
    found = {e.source: wrong for reading in readings for e in reading.examples if (wrong := faults(domain, e))}
    return {source: wrong[0] for source, wrong in found.items()}


def leave_out_wrong(readings: Sequence[ReadResult], wrong: dict[str, str], skip_bad: bool) -> None:
    """Take the wrong chains out of what is read for training, counted and located.

    Raises:
        UserError: There are some, and they may not be left out; or no other is left.
    """
    for reading in readings:
        bad = [e for e in reading.examples if e.source in wrong]
        if not bad:
            continue
        first = f"{bad[0].source} {wrong[bad[0].source]}"
        count = f"{len(bad)} of {reading.rows} chains are wrong (first: {first})"
        if not skip_bad:
            raise UserError(
                f"{count}. `ruplar data check` lists them. Mend them, or set data.skip_bad: true to leave them out.",
                where=reading.place.name,
            )
        log.warning("%s: left out: %s.", reading.place.name, count)
        reading.left_out[WRONG] = [Problem(WRONG, e.source, e.chain[:60], wrong[e.source]) for e in bad]
        reading.examples = [e for e in reading.examples if e.source not in wrong]
    if not any(reading.examples for reading in readings):
        raise UserError(f"{readings[0].place.name}: no example is left: every chain is wrong.")
