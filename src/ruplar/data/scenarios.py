"""Examples → a train/valid/test split by scenario, and the rows whose chains are wrong.

Date Understanding has 369 questions about 41 scenarios, nine per scenario. In a random split, such as the paper's, every
test scenario also occurs in training, with another question. Here a scenario is in one split only: about one in five is in
test, one in ten in valid. The split of a scenario depends only on its text.
"""

import hashlib
import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ruplar.data.read import Problem, ReadResult
from ruplar.data.stored import Spool
from ruplar.domains.base import Domain, faults
from ruplar.errors import UserError
from ruplar.fingerprints import fingerprint_questions
from ruplar.problems.seeding import Split

log = logging.getLogger(__name__)

JOINED = {"date-understanding-by-scenario": ("date-understanding-train", "date-understanding")}
"""Sets that are joined from several known sets and then split by scenario."""

WRONG = "wrong chain"
_TEST, _VALID = 2, 1
"""Tenths of the scenarios in test and valid."""


def part_of_scenario(scenario: str) -> Split:
    """Return the split of a scenario. It depends only on its text, so it is the same whatever other rows are read."""
    draw = int.from_bytes(hashlib.sha256(scenario.encode()).digest()[:8]) % 10
    return "test" if draw < _TEST else "valid" if draw < _TEST + _VALID else "train"


def keep_part(results: Sequence[ReadResult], domain: Domain, split: Split, name: str) -> None:
    """Remove the examples of the other splits."""
    of = getattr(domain, "scenario", None)
    if of is None:
        raise UserError(
            f"split_by: the domain '{type(domain).__module__.rpartition('.')[2]}' does not define scenarios (`scenario`)."
        )
    for result in results:
        result.examples = Spool(e for e in result.examples if part_of_scenario(of(e.question)) == split).done()
    if not any(result.examples for result in results):
        raise UserError(f"{name}: has too few scenarios to split; no row is in '{split}'.")


def record_of(results: Sequence[ReadResult], domain: Any, split: Split, name: str) -> dict[str, Any]:
    """Return the entry of `run.json` for one split."""
    examples = [example for result in results for example in result.examples]
    left_out: Counter[str] = Counter()
    for result in results:
        left_out.update({reason: len(problems) for reason, problems in result.left_out.items()})
    return {
        "source": name,
        "questions_sha256": fingerprint_questions(examples),
        "rows": sum(result.rows for result in results),
        "examples": len(examples),
        "left_out": dict(left_out),
        "split": split,
        "split_by": "scenario",
        "scenarios": len({domain.scenario(example.question) for example in examples}),
    }


def wrong_chains(results: Sequence[ReadResult], domain: Domain) -> dict[str, str]:
    """Location of each wrong chain → what is wrong with it; empty for a domain that accepts wrong chains."""
    if not getattr(domain, "REFUSES_WRONG", False):
        return {}
    found = {e.source: wrong for result in results for e in result.examples if (wrong := faults(domain, e))}
    return {source: wrong[0] for source, wrong in found.items()}


def leave_out_wrong(results: Sequence[ReadResult], wrong: dict[str, str], skip_bad: bool) -> None:
    """Remove wrong chains and record them as left out."""
    for result in results:
        bad = [e for e in result.examples if e.source in wrong]
        if not bad:
            continue
        first = f"{bad[0].source} {wrong[bad[0].source]}"
        count = f"{len(bad)} of {result.rows} chains are wrong (first: {first})"
        if not skip_bad:
            raise UserError(
                f"{count}. `ruplar data check` lists them. Correct them, or set data.skip_bad: true to leave them out.",
                where=result.location.name,
            )
        log.warning("%s: left out: %s.", result.location.name, count)
        result.left_out[WRONG] = [Problem(WRONG, e.source, e.chain[:60], wrong[e.source]) for e in bad]
        result.examples = Spool(e for e in result.examples if e.source not in wrong).done()
    if not any(result.examples for result in results):
        raise UserError(f"{results[0].location.name}: no usable row: every chain is wrong.")
