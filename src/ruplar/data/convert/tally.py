"""Lines of a journal → how far a conversion is, and what it used; and the reasons a row may have before there is a chain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

BROKEN, NO_RULE, REFUSED, UNUSABLE, UNANSWERED = (
    "broken row",
    "no rule reads it",
    "the endpoint refused it",
    "its reply cannot be used",
    "it got no reply",
)
"""Why a row is set aside before there is a chain."""

Entry = dict[str, Any]


@dataclass
class ConversionProgress:
    """How far a conversion is.

    Attributes:
        total: Rows in all.
        kept: Rows with a chain.
        rejected: Reason → rows set aside for it.
        unanswered: Rows that got no reply in this run.
        tokens_in: Of all prompts that were answered, in this run and those before it.
        tokens_out: Of all replies, those that could not be used among them.
        uncounted: Replies that did not say what they used.
        waiting: What is waited for, "" when nothing is.
    """

    total: int
    kept: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    unanswered: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    uncounted: int = 0
    waiting: str = ""

    @property
    def done(self) -> int:
        """Rows that need not be done again."""
        return self.kept + sum(self.rejected.values())

    @property
    def judged(self) -> int:
        """Rows whose reply could be read, right or wrong."""
        return self.done - sum(self.rejected[reason] for reason in (BROKEN, UNUSABLE, UNANSWERED))

    def cost(self, price_in: float, price_out: float) -> float:
        """What the tokens cost so far, at prices a million."""
        return (self.tokens_in * price_in + self.tokens_out * price_out) / 1e6

    def settle(self, entry: Entry) -> None:
        """One more row is done."""
        if entry.get("reason"):
            self.rejected[entry["reason"]] += 1
        else:
            self.kept += 1

    def spend(self, used: Mapping[str, Any]) -> None:
        """What one or many replies used."""
        self.tokens_in += used.get("tokens_in", 0)
        self.tokens_out += used.get("tokens_out", 0)
        self.uncounted += used.get("uncounted", 0)
