"""Prose → rows with chains: every row converted, checked and journalled; then OUTPUT and OUTPUT.rejected.jsonl at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruplar import plugins
from ruplar.data.convert.asker import ByModel, ConversionQueue, ask_all
from ruplar.data.convert.journal import Journal, publish
from ruplar.data.convert.prose import Prose
from ruplar.data.convert.rules import rule_of
from ruplar.data.convert.tally import BROKEN, NO_RULE, ConversionProgress, Entry
from ruplar.data.convert.verify import Rejected, verify
from ruplar.domains.base import Domain


@dataclass(frozen=True)
class ByRules:
    """Convert by the domain's rule."""

    def heading(self) -> dict[str, Any]:
        """What the journal must agree on."""
        return {"by": "rules"}


@dataclass(frozen=True)
class Outcome:
    """What a conversion did: its counts, and the files it wrote."""

    tally: ConversionProgress
    output: Path
    rejected: Path


def convert(
    rows: Sequence[Prose],
    output: Path,
    domain: str,
    by: ByRules | ByModel,
    *,
    retry_rejected: bool = False,
    on_progress: Callable[[ConversionProgress], None] | None = None,
) -> Outcome:
    """Convert every row that is not in the journal yet, then write the two files.

    Args:
        rows: What to convert.
        output: The file to write; its journal and the rejected rows lie beside it.
        domain: Name of the domain that parses and re-executes the chains.
        by: The way.
        retry_rejected: Try rows again that were set aside.
        on_progress: Called after every row and every reply, and before a wait.

    Raises:
        UserError: The journal was begun otherwise or with another input, the endpoint cannot be used, or some rows got no
            reply; what is done is kept and the same call goes on.
    """
    rule = plugins.make("domains", domain)
    rejected = output.with_name(f"{output.name}.rejected.jsonl")
    keys = [row.key for row in rows]
    with Journal(output.with_name(f"{output.name}.journal"), {"domain": domain, **by.heading()}, keys) as journal:
        tally, left = ConversionProgress(len(rows)), []
        tally.spend(journal.used)
        for row in rows:
            entry = journal.entries.get(row.key)
            if entry is None or (retry_rejected and entry.get("reason")):
                left.append(row)
            else:
                tally.settle(entry)

        def tell() -> None:
            if on_progress:
                on_progress(tally)

        def keep(row: Prose, entry: Entry) -> None:
            # what a rule did is done again in no time; only a loss of power could take it
            journal.add(row.key, entry, sync=isinstance(by, ByModel))
            tally.spend(entry)
            tally.waiting = ""
            if not entry.get("open"):
                tally.settle(entry)
            tell()

        tell()
        if isinstance(by, ByRules):
            _by_rules(left, domain, rule, keep)
        else:
            ask_all(left, by, rule, ConversionQueue(tally, journal.open, keep, tell))
        publish(rejected, _rejected_rows(rows, journal.entries))
        publish(output, _kept_rows(rows, journal.entries))
    return Outcome(tally, output, rejected)


def _kept_rows(rows: Sequence[Prose], entries: dict[str, Entry]) -> Iterator[dict[str, Any]]:
    for row in rows:
        entry = entries[row.key]
        if not entry.get("reason"):
            yield {"problem": row.question, "solution": entry["chain"], "answer": row.answer}


def _rejected_rows(rows: Sequence[Prose], entries: dict[str, Entry]) -> Iterator[dict[str, Any]]:
    for row in rows:
        entry = entries[row.key]
        if entry.get("reason"):
            yield {
                "row": row.source,
                "problem": row.question,
                "answer": row.answer,
                "reason": entry["reason"],
                "detail": entry["detail"],
                "reply": entry.get("reply", ""),
            }


def _by_rules(rows: Sequence[Prose], domain: str, checker: Domain, done: Callable[[Prose, Entry], None]) -> None:
    read = rule_of(domain)
    for row in rows:
        chain = None if row.fault else read(row.question, row.reasoning)
        try:
            if row.fault:
                raise Rejected(BROKEN, row.fault)
            if chain is None:
                raise Rejected(NO_RULE, "neither its question nor its prose has a form that is known")
            done(row, {"chain": verify(chain, row.question, row.answer, checker)})
        except Rejected as why:
            done(row, {"reason": why.reason, "detail": why.detail, "reply": chain or ""})
