"""Training data and an index of test sets → what they share, counted and shown."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruplar.data.decontamination import RETOLD, Hit, Index
from ruplar.data.read import iterate
from ruplar.domains.base import Domain
from ruplar.errors import UserError

_MAY = " (for the record; may be trained on)"
_KEPT = 20
"""Pairs of each kind and test set that are kept to be shown."""


@dataclass
class Shared:
    """What one training set shares with the test sets.

    Attributes:
        source: The training set.
        rows: Its rows.
        hits: (kind, test set) → rows that equal one of its questions or share a passage with it.
        retold: Test set → rows that share a passage only when numbers are masked; these may be trained on.
        pairs: (training row, its question, what it shares) of the first ones of each kind.
    """

    source: str
    rows: int = 0
    hits: Counter[tuple[str, str]] = field(default_factory=Counter)
    retold: Counter[str] = field(default_factory=Counter)
    pairs: list[tuple[str, str, Hit]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "source": self.source,
            "rows": self.rows,
            "hits": [{"kind": kind, "set": name, "rows": n} for (kind, name), n in self.hits.items()],
            "but_for_numbers": dict(self.retold),
            "pairs": [{"at": at, "question": question, **hit._asdict()} for at, question, hit in self.pairs],
        }

    def text(self, show: int) -> str:
        """For a person: counts, then the first pairs of each kind."""
        lines = [f"{self.source}: {sum(self.hits.values()):,} of {self.rows:,} questions are shared with a test set"]
        counts = [(kind, name, n) for (kind, name), n in sorted(self.hits.items())]
        counts += [(RETOLD, name, n) for name, n in sorted(self.retold.items())]
        for kind, name, n in counts:
            lines.append(f"  {n:,} {kind}: {name}{_MAY if kind == RETOLD else ''}")
            same = [pair for pair in self.pairs if (pair[2].kind, pair[2].set) == (kind, name)]
            for at, question, hit in same[:show]:
                lines += [f"    {at}  {question}", f"    {hit.at}  {hit.question}", f'      both: "{hit.passage}"']
        return "\n".join(lines)


def share(
    source: str, index: Index, domain: Domain, *, format: str | None = None, data_dir: str | Path | None = None
) -> Shared:
    """Hold one training set against the index; rows that cannot be read as chains are passed over and logged.

    Raises:
        UserError: It cannot be found, or no row of it can be read: a check of nothing would pass.
    """
    found, kept = Shared(source), Counter[tuple[str, str]]()
    for example in iterate(source, domain, format=format, need_steps=False, skip_bad=True, data_dir=data_dir):
        found.rows += 1
        hit = index.hit(example.question)
        if hit is not None:
            found.hits[hit.kind, hit.set] += 1
        elif (hit := index.retold(example.question)) is not None:
            found.retold[hit.set] += 1
        if hit is not None and kept[hit.kind, hit.set] < _KEPT:
            kept[hit.kind, hit.set] += 1
            found.pairs.append((example.source, example.question, hit))
    if not found.rows:
        raise UserError(
            f"{source}: no question could be read of it, so there is nothing to compare. See `ruplar data check`."
        )
    return found
