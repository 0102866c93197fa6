"""A file of chains → a report: the steps found, the rows left out and why, and the steps and chains that are wrong."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruplar.data.formats import NO_STEP
from ruplar.data.read import Problem, read, step_hint
from ruplar.data.scenarios import wrong_chains
from ruplar.domains.base import Domain, how_it_ends

Found = list[tuple[str, str]]
"""Locations (`file:line`), each with a message."""

KINDS = {
    "wrong_steps": "wrong steps",
    "unchecked": "steps that cannot be checked",
    "wrong_ends": "chains that do not end in their answer",
    "no_result": "steps without a result",
    "wrong_chains": "chains that do not match their question",
    "unread_answers": "answers that the domain cannot parse, compared word for word",
    "repeats": "rows that repeat an earlier question",
}
"""Kind of finding → its title."""


@dataclass
class ChainCheck:
    """The report of `check_chains`."""

    source: str
    rows: int
    examples: int  # rows with a chain that can be trained on
    refused: Found  # rows with a wrong chain, if the domain rejects these in training
    left_out: dict[str, list[Problem]]
    hint: str  # how steps are written, if a row has none
    step_counts: Counter[int] = field(default_factory=Counter)  # number of steps → number of chains
    right: int = 0  # steps that were recomputed and are right
    # kind (one of `KINDS`) → the findings
    found: dict[str, Found] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    parsed: list[dict[str, Any]] = field(default_factory=list)  # the first rows as the domain reads them

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "source": self.source,
            "rows": self.rows,
            "examples": self.examples,
            "refused": [{"at": at, "what": what} for at, what in self.refused],
            "steps": {str(n): c for n, c in sorted(self.step_counts.items())},
            "right_steps": self.right,
            "left_out": {r: [str(p) for p in rows] for r, rows in self.left_out.items()},
            **{kind: [{"at": at, "what": what} for at, what in found] for kind, found in self.found.items()},
            "parsed": self.parsed,
        }

    def text(self, show: int = 5) -> str:
        """Return the report as text: counts, then the first few problems of each kind."""
        total, chains = sum(n * c for n, c in self.step_counts.items()), sum(self.step_counts.values())
        spread = "  ".join(f"{n}: {c:,}" for n, c in sorted(self.step_counts.items()))
        refused = ""
        if self.refused:
            refused = f"; {len(self.refused):,} have a wrong one, which training rejects or, with data.skip_bad: true, leaves out"
        lines = [line for row in self.parsed for line in _row_lines(row)]
        lines += [
            f"{self.source}: {self.examples:,} of {self.rows:,} rows have a usable chain{refused}",
            f"  {total:,} steps, {total / max(chains, 1):.2f} per chain   ({spread})",
            f"  {self.right:,} steps recomputed and right",
        ]
        groups = [(f"left out, {r}", [str(p) for p in rows]) for r, rows in self.left_out.items()]
        for kind, found in self.found.items():
            rows = len({at for at, _ in found})
            within = f", in {rows:,} row{'s' if rows > 1 else ''}" if rows < len(found) else ""
            groups.append((KINDS[kind] + within, [f"{at}  {what}" for at, what in found]))
        for title, shown in groups:
            lines.append(f"  {len(shown):,} {title}")
            lines += [f"    {line}" for line in shown[:show]]
            if 0 < show < len(shown):
                lines.append(f"    … and {len(shown) - show:,} more (--show {len(shown)})")
        lines += [f"  {self.hint}"] if self.hint else []
        if not self.parsed:
            lines.append("  --rows N shows how each of the first N chains is parsed")
        return "\n".join(lines)


def check_chains(
    source: str, domain: Domain, *, format: str | None = None, data_dir: str | Path | None = None, rows: int = 0
) -> ChainCheck:
    """Read a set and recompute every step; the first `rows` are reported in detail."""
    reading = read(source, domain, format=format, skip_bad=True, data_dir=data_dir)
    refused = list(wrong_chains([reading], domain).items())
    hint = step_hint(domain, reading.left_out) if NO_STEP in reading.left_out else ""
    usable = len(reading.examples) - len(refused)
    check = ChainCheck(reading.location.name, reading.rows, usable, refused, reading.left_out, hint)
    check.found["repeats"] = [(repeat.source, repeat.excerpt) for repeat in reading.repeats]
    check_chain: Any = getattr(domain, "check_chain", lambda example: [])
    unchecked_chain: Any = getattr(domain, "unchecked_chain", lambda example: None)
    for example in reading.examples:
        at, steps = example.source, [_read_step(step, domain, unchecked_chain(example)) for step in example.steps]
        if wrong := check_chain(example):
            check.found["wrong_chains"].append((at, "; ".join(wrong)))
        if domain.extract(example.answer) is None:
            check.found["unread_answers"].append((at, example.answer))
        for step in steps:
            verdict, _, what = step["verdict"].partition(": ")
            check.right += verdict == "right"
            if verdict != "right":
                kind = "wrong_steps" if verdict == "wrong" else "unchecked"
                check.found[kind].append((at, f"{step['step']}: {what}"))
            if not step["result"]:
                check.found["no_result"].append((at, step["step"]))
        end = how_it_ends(domain, example)
        if steps and steps[-1]["result"] and not end.endswith(", as marked"):
            check.found["wrong_ends"].append((at, end))
        check.step_counts[len(steps)] += 1
        if len(check.parsed) < rows:
            row = {"at": at, "question": example.question, "answer": example.answer, "steps": steps, "end": end}
            check.parsed.append(row)
    return check


def _read_step(step: str, domain: Domain, chain_unchecked: str | None) -> dict[str, Any]:
    if wrong := domain.check(step):
        verdict = f"wrong: {wrong}"
    elif why := domain.unchecked(step) or chain_unchecked:
        verdict = f"not checked: {why}"
    else:
        verdict = "right"
    return {"step": step, "symbols": [*domain.symbols(step)], "result": [*domain.result(step)], "verdict": verdict}


def _row_lines(row: dict[str, Any]) -> list[str]:
    lines = [f"{row['at']}  {row['question']}"]
    for number, step in enumerate(row["steps"], start=1):
        lines.append(f"  {number}  {' '.join(step['symbols'])}   result: {' '.join(step['result']) or 'none'}")
        lines.append(f"     {step['verdict']}")
    return [*lines, f"  {row['end']}", ""]
