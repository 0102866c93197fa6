"""Conversion results: the verification of a chain, the reasons to reject a row, and the progress of a conversion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ruplar.domains.base import Domain, ends_as_marked, how_it_ends
from ruplar.types import Example

BROKEN, NO_RULE, REFUSED, UNUSABLE, UNANSWERED = (
    "broken row",
    "no rule matches",
    "the endpoint rejected it",
    "the reply cannot be used",
    "no reply",
)
"""Why a row is rejected before there is a chain."""
NO_STEP, UNCHECKED, WRONG_STEP, WRONG_END, MISMATCH = (
    "no step",
    "a step cannot be checked",
    "a step is wrong",
    "the last result is not the marked answer",
    "the chain does not match its question",
)
"""Why a chain is rejected."""

Entry = dict[str, Any]


@dataclass
class ConversionProgress:
    """The progress of a conversion.

    Attributes:
        total: Number of rows.
        converted: Rows with a chain.
        rejected: Reason → number of rejected rows.
        unanswered: Rows without a reply in this run.
        tokens_in: Prompt tokens of all replies, in this run and earlier ones.
        tokens_out: Completion tokens of all replies, including those that cannot be used.
        uncounted: Replies without a token count.
        waiting: Why and how long the conversion waits; "" if it does not.
    """

    total: int
    converted: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    unanswered: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    uncounted: int = 0
    waiting: str = ""

    @property
    def done(self) -> int:
        """Rows that are finished."""
        return self.converted + sum(self.rejected.values())

    @property
    def judged(self) -> int:
        """Rows with a readable reply, right or wrong."""
        return self.done - sum(self.rejected[reason] for reason in (BROKEN, UNUSABLE, UNANSWERED))

    def cost(self, price_in: float, price_out: float) -> float:
        """Return the cost so far, at prices per million tokens."""
        return (self.tokens_in * price_in + self.tokens_out * price_out) / 1e6

    def settle(self, entry: Entry) -> None:
        """Count one finished row."""
        if entry.get("reason"):
            self.rejected[entry["reason"]] += 1
        else:
            self.converted += 1

    def spend(self, used: Mapping[str, Any]) -> None:
        """Add the tokens of one or more replies."""
        self.tokens_in += used.get("tokens_in", 0)
        self.tokens_out += used.get("tokens_out", 0)
        self.uncounted += used.get("uncounted", 0)


class Rejected(Exception):
    """A rejected row: `reason` is one of the above, `detail` says what is wrong with this row."""

    def __init__(self, reason: str, detail: str):
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail


def verify(chain: str, question: str, answer: str, domain: Domain) -> str:
    """Check a chain and return it in plain form: only its `<<…>>` if it has any.

    Raises:
        Rejected: It has no step, a step is wrong or cannot be checked, it does not end in the marked answer, or it does not
            match its question (`check_chain` of the domain).
    """
    steps = domain.split(chain)
    if not steps:
        raise Rejected(NO_STEP, f"none in '{_short(chain)}'")
    for number, step in enumerate(steps, start=1):
        if wrong := domain.check(step):
            raise Rejected(WRONG_STEP, f"step {number}: {wrong}")
        if why := domain.unchecked(step):
            raise Rejected(UNCHECKED, f"step {number}, '{_short(step)}': {why}")
        if not domain.result(step):
            raise Rejected(UNCHECKED, f"step {number}, '{_short(step)}', has no result")
    plain = " ".join(f"<<{step}>>" for step in steps) if "<<" in chain else chain.strip()
    example = Example(question, tuple(steps), answer, chain=plain)
    if not ends_as_marked(domain, example):
        raise Rejected(WRONG_END, how_it_ends(domain, example))
    check_chain: Any = getattr(domain, "check_chain", None)
    for fault in check_chain(example) if check_chain else ():
        raise Rejected(MISMATCH, fault)
    return plain


def _short(text: str, width: int = 80) -> str:
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 3] + "..."
