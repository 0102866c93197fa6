"""A file of chains → what was understood of it: steps, results, what was left out, and which steps do not re-execute."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruplar.chains.read import Problem, read
from ruplar.domains.base import Domain


@dataclass
class ChainCheck:
    """What `check_chains` found.

    Attributes:
        source: Where it was read from.
        rows: Rows met.
        examples: Rows with a usable chain.
        step_counts: Steps in a chain → chains.
        left_out: Reason → rows left out.
        wrong_steps: `(file:line, what is wrong)` of steps that do not re-execute.
        wrong_ends: Chains whose last result is not the marked answer.
        no_result: Steps that state no result.
    """

    source: str
    rows: int = 0
    examples: int = 0
    step_counts: Counter[int] = field(default_factory=Counter)
    left_out: dict[str, list[Problem]] = field(default_factory=dict)
    wrong_steps: list[tuple[str, str]] = field(default_factory=list)
    wrong_ends: list[tuple[str, str]] = field(default_factory=list)
    no_result: list[tuple[str, str]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        pairs = lambda found: [{"at": at, "what": what} for at, what in found]  # noqa: E731
        return {
            "source": self.source,
            "rows": self.rows,
            "examples": self.examples,
            "steps": {str(n): c for n, c in sorted(self.step_counts.items())},
            "left_out": {r: [str(p) for p in rows] for r, rows in self.left_out.items()},
            "wrong_steps": pairs(self.wrong_steps),
            "wrong_ends": pairs(self.wrong_ends),
            "no_result": pairs(self.no_result),
        }

    def text(self, show: int = 5) -> str:
        """A page for a person: counts, then the first few of each kind of problem."""
        total = sum(n * c for n, c in self.step_counts.items())
        spread = "  ".join(f"{n}: {c:,}" for n, c in sorted(self.step_counts.items()))
        lines = [
            f"{self.source}: {self.examples:,} of {self.rows:,} rows have a usable chain",
            f"  {total:,} steps, {total / max(self.examples, 1):.2f} a chain   ({spread})",
        ]
        groups: list[tuple[str, list[str]]] = [
            (f"left out, {r}", [str(p) for p in rows]) for r, rows in self.left_out.items()
        ]
        for title, found in (
            ("steps that do not re-execute", self.wrong_steps),
            ("chains that do not end in their answer", self.wrong_ends),
            ("steps without a result", self.no_result),
        ):
            groups.append((title, [f"{at}  {what}" for at, what in found]))
        for title, shown in groups:
            lines.append(f"  {len(shown):,} {title}")
            lines += [f"    {line}" for line in shown[:show]]
        return "\n".join(lines)


def check_chains(
    source: str, domain: Domain, *, format: str | None = None, data_dir: str | Path | None = None
) -> ChainCheck:
    """Read a set under a domain and carry out every step again; nothing is refused, everything is located."""
    reading = read(source, domain, format=format, skip_bad=True, data_dir=data_dir)
    found = ChainCheck(reading.place.name, reading.rows, len(reading.examples), left_out=reading.left_out)
    for example in reading.examples:
        found.step_counts[len(example.steps)] += 1
        for step in example.steps:
            wrong = domain.check(step)
            if wrong:
                found.wrong_steps.append((example.source, f"{step}: {wrong}"))
            if not domain.result(step):
                found.no_result.append((example.source, step))
        last = "".join(domain.result(example.steps[-1]))
        if last and not domain.same(last, example.answer):
            found.wrong_ends.append((example.source, f"ends in {last}, marked {example.answer}"))
    return found
