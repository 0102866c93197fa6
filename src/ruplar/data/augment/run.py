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

from ruplar.data.augment.bind import bind
from ruplar.data.augment.template import NotAugmentable, Template
from ruplar.data.augment.variants import VariantPlan, attempt, is_large, make_plan, write
from ruplar.data.stored import ExampleView
from ruplar.types import Example

log = logging.getLogger(__name__)

Drawn = list[tuple[int, Example]]
"""Problems of one chain, each with its attempt number."""

# differs from the paper: D70. Instead of GSM8k-Aug, the numbers of GSM8K's own chains are resampled.
REPEATED = "repeats an earlier question with other numbers"
LARGE = 0.05
"""Share of problems with a number of four to seven digits, as in GSM-Hard."""
_TRIES = 16
"""Attempts per requested problem of a chain before giving up."""


@dataclass
class AugmentReport:
    """Counts of an augmentation."""

    rows: int = 0
    used: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)  # reason → the first chain that was left out
    written: int = 0
    short: int = 0


class Work:
    """The expensive part of an augmentation, done in this process; `cluster.rows` does it on many machines."""

    window = 1
    """Chains that are drawn from at a time."""

    def plans(self, chains: Sequence[tuple[int, Example]]) -> Iterable[VariantPlan | str]:
        """Return the plan of each row and its chain, or why there is none."""
        return (plan_of(row, example) for row, example in chains)

    def drawn(self, wanted: Sequence[tuple[VariantPlan, int]], seed: int, large: float) -> Iterable[Drawn]:
        """Return the problems of each plan, as many as wanted or possible."""
        return (list(attempts(plan, seed, count, large)) for plan, count in wanted)


def plan_of(row: int, example: Example) -> VariantPlan | str:
    """Return the plan of a chain, or why it cannot be augmented."""
    try:
        return make_plan(bind(example), row)
    except NotAugmentable as why:
        return str(why)


def make_plans(
    examples: Iterable[Example],
    report: AugmentReport,
    refuse: Callable[[Example], str | None] | None = None,
    work: Work | None = None,
) -> list[VariantPlan]:
    """Chains → plans, those with the fewest possible numbers first."""
    plans: list[tuple[int, VariantPlan]] = []
    seen: set[bytes] = set()
    chains = list(examples)
    report.rows += len(chains)
    refused = [refuse(example) if refuse else None for example in chains]
    made = iter(
        (work or Work()).plans([pair for pair, no in zip(enumerate(chains), refused, strict=True) if no is None])
    )
    for example, no in zip(chains, refused, strict=True):
        found = next(made) if no is None else no
        reason, plan = (found, None) if isinstance(found, str) else (None, found)
        if plan is not None:
            key = _masked_question(plan.template)
            reason = REPEATED if key in seen else None
            seen.add(key)
        if plan is None or reason is not None:
            report.left_out[reason or ""] += 1
            report.first.setdefault(reason or "", f"{example.source}  {example.question}")
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
    for number in range(_TRIES * max(0, count)):
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
    work: Work | None = None,
) -> Iterator[tuple[int, int, Example]]:
    """Yield (plan index, attempt, problem), evenly over the chains.

    How many problems a chain should give depends on how many the chains before it gave. Within a window this is first
    expected to be all they should, and chains of which more is wanted then are drawn from again.
    """
    work = work or Work()
    for first in range(0, len(plans), work.window):
        window, drawn = plans[first : first + work.window], dict[int, tuple[int, Drawn]]()
        while True:
            wanted, written = [], report.written
            for at in range(len(window)):
                left = per_chain if count is None else -(-(count - written) // (len(plans) - first - at))
                wanted.append(min(per_chain, left))
                known = drawn.get(at)
                written += len(known[1]) if known and known[0] == wanted[at] else max(0, wanted[at])
            todo = [at for at, number in enumerate(wanted) if drawn.get(at, (None,))[0] != number]
            if not todo:
                break
            found = work.drawn([(window[at], wanted[at]) for at in todo], seed, large)
            drawn.update((at, (wanted[at], some)) for at, some in zip(todo, found, strict=True))
        for at, number in enumerate(wanted):
            report.short += len(drawn[at][1]) < number
            for attempted, example in drawn[at][1]:
                report.written += 1
                yield first + at, attempted, example


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
