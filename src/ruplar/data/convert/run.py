"""Prose → rows with chains: every row is converted, verified and stored; then OUTPUT and OUTPUT.rejected.jsonl are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruplar import plugins
from ruplar.data.convert.by_model import ByModel, ConversionQueue, ask_all
from ruplar.data.convert.journal import Journal, publish
from ruplar.data.convert.prose import Prose
from ruplar.data.convert.rules import rule_of
from ruplar.data.convert.verify import BROKEN, NO_RULE, ConversionProgress, Entry, Rejected, verify
from ruplar.domains.base import Domain


@dataclass(frozen=True)
class ByRules:
    """Convert by the rule of the domain."""

    def heading(self) -> dict[str, Any]:
        """Return the settings that the journal must match."""
        return {"by": "rules"}


@dataclass(frozen=True)
class Outcome:
    """The result of a conversion: its counts and its files."""

    progress: ConversionProgress
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
    """Convert every row that is not in the journal, then write the two files.

    Args:
        rows: The rows.
        output: The file to write; its journal and the rejected rows are written beside it.
        domain: Name of the domain that verifies the chains.
        by: How to convert.
        retry_rejected: Convert rejected rows again.
        on_progress: Called after every row and every reply, and before a wait.

    Raises:
        UserError: The journal has other settings or another input, the endpoint cannot be used, or rows have no reply.
            Finished rows are stored, and the same call resumes.
    """
    rule = plugins.make("domains", domain)
    rejected = output.with_name(f"{output.name}.rejected.jsonl")
    keys = [row.key for row in rows]
    with Journal(output.with_name(f"{output.name}.journal"), {"domain": domain, **by.heading()}, keys) as journal:
        progress, left = ConversionProgress(len(rows)), []
        progress.spend(journal.used)
        for row in rows:
            entry = journal.entries.get(row.key)
            if entry is None or (retry_rejected and entry.get("reason")):
                left.append(row)
            else:
                progress.settle(entry)

        def report() -> None:
            if on_progress:
                on_progress(progress)

        def store(row: Prose, entry: Entry) -> None:
            # rules are fast, so their rows need no sync
            journal.add(row.key, entry, sync=isinstance(by, ByModel))
            progress.spend(entry)
            progress.waiting = ""
            if not entry.get("open"):
                progress.settle(entry)
            report()

        report()
        if isinstance(by, ByRules):
            _by_rules(left, domain, rule, store)
        else:
            ask_all(left, by, rule, ConversionQueue(progress, journal.open, store, report))
        publish(rejected, _rejected_rows(rows, journal.entries))
        publish(output, _kept_rows(rows, journal.entries))
    return Outcome(progress, output, rejected)


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
                raise Rejected(NO_RULE, "neither its question nor its prose has a known form")
            done(row, {"chain": verify(chain, row.question, row.answer, checker)})
        except Rejected as why:
            done(row, {"reason": why.reason, "detail": why.detail, "reply": chain or ""})
