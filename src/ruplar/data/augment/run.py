"""Chains → many problems that tell the same with other numbers, and an account of the chains that gave none.

    examples –bind→ templates –attempt→ numbers –write→ problems

Which problems come out depends on the chains, the seed and what is asked for alone. Nothing grows with their number: each is
known by its row and its attempt, from which it is written again.
"""

from __future__ import annotations

import hashlib
import logging
import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

from ruplar.data.augment.bind import bind
from ruplar.data.augment.template import Template, Unbound
from ruplar.data.augment.variants import VariantPlan, attempt, is_large, make_plan, write
from ruplar.types import Example

log = logging.getLogger(__name__)

# differs from the paper: D70. GSM8k-Aug is not needed: GSM8K's own chains are multiplied by their numbers alone.
REPEATED = "tells what an earlier one tells, with other numbers"
LARGE = 0.05
"""Share of problems in which one number has four to seven digits, as in GSM-Hard."""
_TRIES = 16
"""Attempts for each problem that is wanted of a chain, before its numbers count as used up."""
_SHOWN = 3


@dataclass
class AugmentReport:
    """What became of the chains.

    Attributes:
        rows: Chains met.
        used: Those that can be told with other numbers.
        left_out: Why the others cannot → how many.
        shown: Why → the first of them, `file:line` and question.
        written: Problems written.
        short: Chains that gave fewer than were asked of them.
    """

    rows: int = 0
    used: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    shown: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    written: int = 0
    short: int = 0

    def leave_out(self, reason: str, example: Example) -> None:
        """Count one chain that is not used."""
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
    examples: Iterable[Example], tally: AugmentReport, refuse: Callable[[Example], str | None] | None = None
) -> list[VariantPlan]:
    """Chains → plans, those with the fewest numbers to draw from first; the rest is counted.

    Args:
        examples: The chains.
        tally: Where they are counted.
        refuse: Says why a chain may not be used at all (it stands in a test set); None where it may.
    """
    plans: list[tuple[int, VariantPlan]] = []
    seen: set[bytes] = set()
    for row, example in enumerate(examples):
        tally.rows += 1
        try:
            reason = refuse(example) if refuse else None
            plan = make_plan(bind(example), row) if reason is None else None
        except Unbound as why:
            reason, plan = str(why), None
        if plan is not None:
            key = _told(plan.template)
            reason = REPEATED if key in seen else None
            seen.add(key)
        if plan is None or reason is not None:
            tally.leave_out(reason or "", example)
            continue
        plans.append((math.prod(len(r.grid) for r in plan.ranges), plan))
    tally.used = len(plans)
    # where numbers run out early, what is missing is asked of the chains behind
    return [plan for _, plan in sorted(plans, key=lambda pair: (pair[0], pair[1].row))]


def _told(template: Template) -> bytes:
    """The question without its numbers: two chains that tell the same could give the same problem."""
    text, at, parts = template.example.question, 0, []
    for mention in template.mentions:
        parts.append(text[at : mention.start])
        at = mention.end
    return hashlib.blake2b("#".join((*parts, text[at:])).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def attempts(plan: VariantPlan, seed: int, count: int, large: float = LARGE) -> Iterator[tuple[int, Example]]:
    """One chain → up to `count` different problems, each with the number of the attempt that gave it."""
    seen = set()
    found = 0
    # large numbers never run out and small ones do: without a limit they would fill up what is missing
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
            yield number, _named(example, number)
            found += 1
            if found == count:
                return


def _named(example: Example, number: int) -> Example:
    return replace(example, source=f"{example.source}#{number}")


def deal(
    plans: Sequence[VariantPlan],
    seed: int,
    tally: AugmentReport,
    *,
    count: int | None,
    per_chain: int,
    large: float = LARGE,
) -> Iterator[tuple[int, int, Example]]:
    """Plans → (which plan, which attempt, problem), evenly over the chains.

    Args:
        plans: From `make_plans`.
        seed: Which problems.
        tally: Where they are counted.
        count: How many in all; None for as many as `per_chain` allows.
        per_chain: Most of one chain.
        large: Share with a large number.
    """
    for at, plan in enumerate(plans):
        left = per_chain if count is None else -(-(count - tally.written) // (len(plans) - at))
        wanted = min(per_chain, left)
        got = 0
        for number, example in attempts(plan, seed, wanted, large) if wanted > 0 else ():
            got += 1
            tally.written += 1
            yield at, number, example
        tally.short += got < wanted


@dataclass(frozen=True)
class Variants(Sequence):
    """Problems that are written when they are asked for.

    Attributes:
        plans: What they are made of.
        rows: For each problem its plan.
        numbers: For each problem its attempt.
        seed: Which problems.
        large: Share with a large number.
        sha256: Of all questions and chains in order.
    """

    plans: Sequence[VariantPlan]
    rows: array[int]
    numbers: array[int]
    seed: int
    large: float
    sha256: str

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> list[Example]: ...
    def __getitem__(self, index: int | slice) -> Example | list[Example]:
        """One problem, or several."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        plan, number = self.plans[self.rows[index]], self.numbers[index]
        values = attempt(plan, self.seed, number, self.large)
        example = write(plan, values) if values is not None else None
        assert example is not None, "an attempt is a function of its number"
        return _named(example, number)


def build(
    examples: Iterable[Example],
    seed: int,
    *,
    count: int | None,
    per_chain: int,
    large: float = LARGE,
    refuse: Callable[[Example], str | None] | None = None,
) -> tuple[Variants, AugmentReport]:
    """Chains → all problems, known by row and attempt, and what became of the chains. Args as in `make_plans` and `deal`."""
    tally = AugmentReport()
    plans = make_plans(examples, tally, refuse)
    rows, numbers, total = array("I"), array("I"), hashlib.sha256()
    for at, number, example in deal(plans, seed, tally, count=count, per_chain=per_chain, large=large):
        rows.append(at)
        numbers.append(number)
        total.update(f"{example.question}\n{example.chain}\n".encode("utf-8", "surrogatepass"))
    log.info("%s problems from %s of %s chains", f"{tally.written:,}", f"{tally.used:,}", f"{tally.rows:,}")
    return Variants(plans, rows, numbers, seed, large, total.hexdigest()), tally
