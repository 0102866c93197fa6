"""A file of chains → what was understood of it: steps, results, what was left out and why, which steps do not re-execute."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ruplar.data.read import Problem, read
from ruplar.data.scenarios import remarks, wrong_chains
from ruplar.domains.base import Domain, how_it_ends
from ruplar.types import Example

Found = list[tuple[str, str]]
"""Places (`file:line`) and what is to be said of each."""


@dataclass(frozen=True, slots=True)
class StepRead:
    """What a domain makes of one step.

    Attributes:
        step: As written.
        symbols: What it consists of.
        result: The symbols it states.
        verdict: `sound`, `wrong: …` or `not carried out: …`.
        passed_over: Words and numbers of it that are no symbol, where symbols stand as they are written.
    """

    step: str
    symbols: tuple[str, ...]
    result: tuple[str, ...]
    verdict: str
    passed_over: str = ""


@dataclass(frozen=True, slots=True)
class RowRead:
    """What a domain makes of one row: its steps, the text of the chain that is in none of them, and how it ends."""

    at: str
    question: str
    answer: str
    steps: tuple[StepRead, ...]
    outside: str
    end: str

    def lines(self) -> list[str]:
        """For a person."""
        out = [f"{self.at}  {self.question}"]
        for number, step in enumerate(self.steps, start=1):
            passed = f"   passed over: {step.passed_over}" if step.passed_over else ""
            out.append(f"  {number}  {' '.join(step.symbols)}   gives {' '.join(step.result) or 'nothing'}")
            out.append(f"     {step.verdict}{passed}")
        out += [f"  in no step: {self.outside}"] if self.outside else []
        return [*out, f"  {self.end}"]


@dataclass
class ChainCheck:
    """What `check_chains` found.

    Attributes:
        source: Where it was read from.
        rows: Rows met.
        examples: Rows with a usable chain: one that training takes.
        refused: Rows whose chain is wrong, by domains under which training refuses it.
        step_counts: Steps in a chain → chains.
        sound: Steps that were carried out again and are right.
        left_out: Reason → rows left out.
        wrong_steps: Steps that do not re-execute.
        unchecked: Steps that cannot be carried out again, and why.
        wrong_ends: Chains whose last result is not the marked answer.
        no_result: Steps that state no result.
        wrong_chains: Chains that do not fit their question, by domains that can tell; one entry a chain.
        unread_answers: Marked answers the domain cannot read; they are compared word for word.
        repeats: Rows whose question stood before.
        remarks: What is to be said of the set as a whole.
        understood: The first rows in full, as many as were asked for.
    """

    source: str
    rows: int = 0
    examples: int = 0
    refused: Found = field(default_factory=list)
    step_counts: Counter[int] = field(default_factory=Counter)
    sound: int = 0
    left_out: dict[str, list[Problem]] = field(default_factory=dict)
    wrong_steps: Found = field(default_factory=list)
    unchecked: Found = field(default_factory=list)
    wrong_ends: Found = field(default_factory=list)
    no_result: Found = field(default_factory=list)
    wrong_chains: Found = field(default_factory=list)
    unread_answers: Found = field(default_factory=list)
    repeats: Found = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    understood: list[RowRead] = field(default_factory=list)

    _KINDS = {
        "wrong_steps": "steps that do not re-execute",
        "unchecked": "steps that cannot be carried out again",
        "wrong_ends": "chains that do not end in their answer",
        "no_result": "steps without a result",
        "wrong_chains": "chains that do not fit their question",
        "unread_answers": "answers that the domain cannot read, compared word for word",
        "repeats": "rows that repeat an earlier question",
    }

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "source": self.source,
            "rows": self.rows,
            "examples": self.examples,
            "refused": [{"at": at, "what": what} for at, what in self.refused],
            "steps": {str(n): c for n, c in sorted(self.step_counts.items())},
            "sound_steps": self.sound,
            "left_out": {r: [str(p) for p in rows] for r, rows in self.left_out.items()},
            **{kind: [{"at": at, "what": what} for at, what in getattr(self, kind)] for kind in self._KINDS},
            "remarks": self.remarks,
            "understood": [asdict(row) for row in self.understood],
        }

    def text(self, show: int = 5) -> str:
        """A page for a person: counts, then the first few of each kind of problem, and how to see the others."""
        total, chains = sum(n * c for n, c in self.step_counts.items()), sum(self.step_counts.values())
        spread = "  ".join(f"{n}: {c:,}" for n, c in sorted(self.step_counts.items()))
        lines = [line for row in self.understood for line in (*row.lines(), "")]
        lines += [
            f"{self.source}: {self.examples:,} of {self.rows:,} rows have a usable chain" + self._refused(),
            f"  {total:,} steps, {total / max(chains, 1):.2f} a chain   ({spread})",
            f"  {self.sound:,} steps carried out again and right",
        ]
        groups = [(f"left out, {r}", [str(p) for p in rows]) for r, rows in self.left_out.items()]
        for kind, title in self._KINDS.items():
            found = getattr(self, kind)
            rows = len({at for at, _ in found})
            within = f", in {rows:,} row{'s' if rows > 1 else ''}" if rows < len(found) else ""
            groups.append((title + within, [f"{at}  {what}" for at, what in found]))
        for title, shown in groups:
            lines.append(f"  {len(shown):,} {title}")
            lines += [f"    {line}" for line in shown[:show]]
            if 0 < show < len(shown):
                lines.append(f"    … and {len(shown) - show:,} more (--show {len(shown)})")
        lines += [f"  {remark}" for remark in self.remarks]
        if not self.understood:
            lines.append("  --rows N shows what was understood of each of the first N chains")
        return "\n".join(lines)

    def _refused(self) -> str:
        if not self.refused:
            return ""
        return f"; {len(self.refused):,} have a wrong one, which training refuses or, with data.skip_bad: true, leaves out"


def check_chains(
    source: str, domain: Domain, *, format: str | None = None, data_dir: str | Path | None = None, rows: int = 0
) -> ChainCheck:
    """Read a set under a domain and carry out every step again; nothing is refused, everything is located.

    Args:
        source: A path, a known name or a Hub address.
        domain: What a step is.
        format: Shape of the rows; found out when None.
        data_dir: Folder with the files of known names.
        rows: Keep what was understood of so many of the first rows.
    """
    reading = read(source, domain, format=format, skip_bad=True, data_dir=data_dir)
    refused = list(wrong_chains([reading], domain).items())
    usable = len(reading.examples) - len(refused)
    found = ChainCheck(reading.place.name, reading.rows, usable, refused, left_out=reading.left_out)
    found.remarks = remarks(reading, domain)
    found.repeats = [(repeat.source, repeat.excerpt) for repeat in reading.repeats]
    whole: Any = getattr(domain, "check_chain", lambda example: [])
    for example in reading.examples:
        if wrong := whole(example):
            found.wrong_chains.append((example.source, "; ".join(wrong)))
        if domain.extract(example.answer) is None:
            found.unread_answers.append((example.source, example.answer))
        row = read_row(example, domain)
        _count(found, row)
        if len(found.understood) < rows:
            found.understood.append(row)
    return found


def read_row(example: Example, domain: Domain) -> RowRead:
    """One example → what the domain makes of it."""
    unfollowed: Any = getattr(domain, "unchecked_chain", lambda example: None)
    steps = tuple(_read_step(step, domain, unfollowed(example)) for step in example.steps)
    return RowRead(
        example.source, example.question, example.answer, steps, _outside(example), how_it_ends(domain, example)
    )


def _read_step(step: str, domain: Domain, unfollowed: str | None) -> StepRead:
    """One step; `unfollowed` says why the whole chain cannot be followed, in domains where a step alone cannot be judged."""
    symbols = tuple(domain.symbols(step))
    if wrong := domain.check(step):
        verdict = f"wrong: {wrong}"
    elif why := domain.unchecked(step) or unfollowed:
        verdict = f"not carried out: {why}"
    else:
        verdict = "sound"
    return StepRead(step, symbols, tuple(domain.result(step)), verdict, _passed_over(step, symbols))


def _count(found: ChainCheck, row: RowRead) -> None:
    found.step_counts[len(row.steps)] += 1
    for step in row.steps:
        verdict, _, what = step.verdict.partition(": ")
        if verdict == "sound":
            found.sound += 1
        else:
            kind = found.wrong_steps if verdict == "wrong" else found.unchecked
            kind.append((row.at, f"{step.step}: {what}"))
        if not step.result:
            found.no_result.append((row.at, step.step))
    if row.steps and row.steps[-1].result and not row.end.endswith(", as marked"):
        found.wrong_ends.append((row.at, row.end))


def _outside(example: Example) -> str:
    """The text of a chain that stands in none of its steps, `…` where a step was."""
    rest, kept = example.chain, []
    for step in example.steps:
        before, there, after = rest.partition(step)
        if not there:
            return ""  # the steps were given as a list, or written in another way
        kept.append(before)
        rest = after
    parts = (" ".join(part.replace("<<", " ").replace(">>", " ").split()).strip(" ;,.") for part in (*kept, rest))
    return " … ".join(part for part in parts if part)


def _passed_over(step: str, symbols: tuple[str, ...]) -> str:
    """Words and numbers of a step between its symbols; "" where a symbol is not written as it stands (dates)."""
    at, gaps = 0, []
    for symbol in symbols:
        place = step.find(symbol.strip(), at)
        if place < 0:
            return ""
        gaps.append(step[at:place])
        at = place + len(symbol.strip())
    gaps.append(step[at:])
    return " ".join(word for gap in gaps for word in gap.split() if any(letter.isalnum() for letter in word))
