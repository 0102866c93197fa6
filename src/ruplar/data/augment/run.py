"""Chains → augmented problems with resampled numbers, and an account of the chains that cannot be augmented.

    examples –bind→ templates –attempt→ numbers –write→ problems

The problems depend only on the chains, the seed and the options. Each is stored as (row, attempt) and written again on
access, so millions take little memory.
"""

from __future__ import annotations

import hashlib
import logging
import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ruplar.data.augment.bind import bind
from ruplar.data.augment.template import NotAugmentable, Template
from ruplar.data.augment.variants import VariantPlan, attempt, is_large, make_plan, write
from ruplar.data.stored import ExampleView
from ruplar.types import Example

log = logging.getLogger(__name__)

# differs from the paper: D70. Instead of GSM8k-Aug, the numbers of GSM8K's own chains are resampled.
REPEATED = "repeats an earlier question with other numbers"
LARGE = 0.05
"""Share of problems with a number of four to seven digits, as in GSM-Hard."""
_TRIES = 16
"""Attempts per requested problem of a chain before giving up."""
_SHOWN = 3


@dataclass
class AugmentReport:
    """Counts of an augmentation."""

    rows: int = 0
    used: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    shown: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    written: int = 0
    short: int = 0

    def leave_out(self, reason: str, example: Example) -> None:
        """Count one chain that cannot be augmented."""
        self.left_out[reason] += 1
        shown = self.shown.setdefault(reason, [])
        if len(shown) < _SHOWN:
            shown.append((example.source, example.question))

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "rows": self.rows,
            "used": self.used,
            "written": self.written,
            "short": self.short,
            "left_out": dict(self.left_out.most_common()),
            "shown": {why: [{"at": at, "question": q} for at, q in rows] for why, rows in self.shown.items()},
        }


def make_plans(
    examples: Iterable[Example], report: AugmentReport, refuse: Callable[[Example], str | None] | None = None
) -> list[VariantPlan]:
    """Chains → plans, those with the fewest possible numbers first."""
    plans: list[tuple[int, VariantPlan]] = []
    seen: set[bytes] = set()
    for row, example in enumerate(examples):
        report.rows += 1
        try:
            reason = refuse(example) if refuse else None
            plan = make_plan(bind(example), row) if reason is None else None
        except NotAugmentable as why:
            reason, plan = str(why), None
        if plan is not None:
            key = _masked_question(plan.template)
            reason = REPEATED if key in seen else None
            seen.add(key)
        if plan is None or reason is not None:
            report.leave_out(reason or "", example)
            continue
        plans.append((math.prod(len(r.grid) for r in plan.ranges), plan))
    report.used = len(plans)
    # if a chain gives fewer problems than requested, the later ones make up for it
    return [plan for _, plan in sorted(plans, key=lambda pair: (pair[0], pair[1].row))]


def _masked_question(template: Template) -> bytes:
    """Return a hash of the question without its numbers: two chains with the same could give the same problem."""
    text, at, parts = template.example.question, 0, []
    for mention in template.mentions:
        parts.append(text[at : mention.start])
        at = mention.end
    return hashlib.blake2b("#".join((*parts, text[at:])).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def attempts(plan: VariantPlan, seed: int, count: int, large: float = LARGE) -> Iterator[tuple[int, Example]]:
    """Yield up to `count` different problems of one chain, each with its attempt number."""
    seen = set()
    found = 0
    # there are always more large numbers but not more small ones: without a limit, large ones would fill the gap
    most_large = math.ceil(large * count)
    for number in range(_TRIES * count):
        values = attempt(plan, seed, number, large)
        if values is None or values in seen:
            continue
        seen.add(values)
        if is_large(plan, values):
            most_large -= 1
            if most_large < 0:
                continue
        example = write(plan, values)
        if example is not None:
            yield number, replace(example, source=f"{example.source}#{number}")
            found += 1
            if found == count:
                return


def generate(
    plans: Sequence[VariantPlan],
    seed: int,
    report: AugmentReport,
    *,
    count: int | None,
    per_chain: int,
    large: float = LARGE,
) -> Iterator[tuple[int, int, Example]]:
    """Yield (plan index, attempt, problem), evenly over the chains."""
    for at, plan in enumerate(plans):
        left = per_chain if count is None else -(-(count - report.written) // (len(plans) - at))
        wanted = min(per_chain, left)
        got = 0
        for number, example in attempts(plan, seed, wanted, large) if wanted > 0 else ():
            got += 1
            report.written += 1
            yield at, number, example
        report.short += got < wanted


@dataclass(frozen=True)
class Variants(ExampleView):
    """Augmented problems as a sequence that writes each problem on access."""

    plans: Sequence[VariantPlan]
    rows: array[int]
    numbers: array[int]
    seed: int
    large: float
    sha256: str

    def __len__(self) -> int:
        return len(self.rows)

    def _one(self, row: int) -> Example:
        plan, number = self.plans[self.rows[row]], self.numbers[row]
        values = attempt(plan, self.seed, number, self.large)
        example = write(plan, values) if values is not None else None
        assert example is not None, "an attempt is a function of its number"
        return replace(example, source=f"{example.source}#{number}")


def build(
    examples: Iterable[Example],
    seed: int,
    *,
    count: int | None,
    per_chain: int,
    large: float = LARGE,
    refuse: Callable[[Example], str | None] | None = None,
) -> tuple[Variants, AugmentReport]:
    """Chains → all augmented problems and the report; args as in `make_plans` and `generate`."""
    report = AugmentReport()
    plans = make_plans(examples, report, refuse)
    rows, numbers, total = array("I"), array("I"), hashlib.sha256()
    for at, number, example in generate(plans, seed, report, count=count, per_chain=per_chain, large=large):
        rows.append(at)
        numbers.append(number)
        total.update(f"{example.question}\n{example.chain}\n".encode("utf-8", "surrogatepass"))
    log.info("%s problems from %s of %s chains", f"{report.written:,}", f"{report.used:,}", f"{report.rows:,}")
    return Variants(plans, rows, numbers, seed, large, total.hexdigest()), report
