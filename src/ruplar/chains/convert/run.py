"""Prose → rows with chains: every row converted, checked and journalled; then OUTPUT and OUTPUT.rejected.jsonl at once."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from ruplar import plugins
from ruplar.chains.convert.endpoint import Chat, Endpoint, Message, NoReply, Refused, Reply
from ruplar.chains.convert.journal import Journal, publish
from ruplar.chains.convert.prompt import Prompt, chain_in
from ruplar.chains.convert.prose import Prose
from ruplar.chains.convert.rules import rule_of
from ruplar.chains.convert.verify import WRONG_END, Rejected, verify
from ruplar.domains.base import Domain
from ruplar.errors import UserError

BROKEN, NO_RULE, REFUSED = "broken row", "no rule reads it", "the endpoint refused it"
"""Why a row is set aside before there is a chain."""

Entry = dict[str, Any]


@dataclass
class Tally:
    """How far a conversion is: rows in all, kept and rejected, and what the endpoint has used."""

    total: int
    kept: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    unanswered: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    uncounted: int = 0

    @property
    def done(self) -> int:
        """Rows that need not be done again."""
        return self.kept + sum(self.rejected.values())

    def cost(self, price_in: float, price_out: float) -> float:
        """What the tokens cost so far, at prices a million."""
        return (self.tokens_in * price_in + self.tokens_out * price_out) / 1e6

    def count(self, entry: Entry) -> None:
        """One more row."""
        if entry.get("reason"):
            self.rejected[entry["reason"]] += 1
        else:
            self.kept += 1
        self.tokens_in += entry.get("tokens_in", 0)
        self.tokens_out += entry.get("tokens_out", 0)
        self.uncounted += entry.get("uncounted", 0)


@dataclass(frozen=True)
class ByRules:
    """Convert by the domain's rule."""

    def heading(self) -> dict[str, Any]:
        """What the journal must agree on."""
        return {"by": "rules"}


@dataclass(frozen=True)
class ByModel:
    """Convert by a language model.

    Attributes:
        endpoint: Where it is.
        prompt: What it is told.
        concurrency: Requests in flight.
        attempts: Times a row is asked when its chain does not hold; from the second on the fault is told.
        seed: Of the jitter between retries.
    """

    endpoint: Endpoint
    prompt: Prompt
    concurrency: int = 8
    attempts: int = 2
    seed: int = 0

    def heading(self) -> dict[str, Any]:
        """What the journal must agree on."""
        told = f"{self.prompt.system}\0{self.prompt.user}"
        return {"by": "llm", "model": self.endpoint.model, "prompt": hashlib.sha256(told.encode()).hexdigest()[:16]}


@dataclass(frozen=True)
class Outcome:
    """What a conversion did: its counts, and the files it wrote."""

    tally: Tally
    output: Path
    rejected: Path


def convert(
    rows: Sequence[Prose],
    output: Path,
    domain: str,
    by: ByRules | ByModel,
    *,
    retry_rejected: bool = False,
    on_progress: Callable[[Tally], None] | None = None,
) -> Outcome:
    """Convert every row that is not in the journal yet, then write the two files.

    Args:
        rows: What to convert.
        output: The file to write; its journal and the rejected rows lie beside it.
        domain: Name of the domain that parses and re-executes the chains.
        by: The way.
        retry_rejected: Try rows again that were set aside.
        on_progress: Called after every row.

    Raises:
        UserError: The journal was begun otherwise, the endpoint cannot be used, or some rows got no reply; what is done is
            kept and the same call goes on.
    """
    rule = plugins.make("domains", domain)
    rejected = output.with_name(f"{output.name}.rejected.jsonl")
    with Journal(output.with_name(f"{output.name}.journal"), {"domain": domain, **by.heading()}) as journal:
        tally, left = Tally(len(rows)), []
        for row in rows:
            entry = journal.entries.get(row.key)
            if entry is None or (retry_rejected and entry.get("reason")):
                left.append(row)
            else:
                tally.count(entry)

        def done(row: Prose, entry: Entry) -> None:
            # what a rule did is done again in no time; only a loss of power could take it
            journal.add(row.key, entry, sync=isinstance(by, ByModel))
            tally.count(entry)
            if on_progress:
                on_progress(tally)

        if on_progress:
            on_progress(tally)
        if isinstance(by, ByRules):
            _by_rules(left, domain, rule, done)
        else:
            _by_model(left, by, rule, tally, done)
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


def _by_model(
    rows: Sequence[Prose], by: ByModel, checker: Domain, tally: Tally, done: Callable[[Prose, Entry], None]
) -> None:
    asker = _Asker(by, checker, tally, done)
    try:
        asyncio.run(asker.all(rows))
    except* UserError as found:
        raise _first(found) from None
    if tally.unanswered:
        raise UserError(
            f"{tally.unanswered:,} of {tally.total:,} rows got no reply ({asker.last_failure}). The others are kept: run the "
            "same command again to go on."
        )


def _first(group: BaseExceptionGroup) -> UserError:
    found = group.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found  # type: ignore[return-value]


class _Asker:
    """Workers that take rows from one queue and ask for their chains."""

    def __init__(self, by: ByModel, checker: Domain, tally: Tally, done: Callable[[Prose, Entry], None]):
        self.by, self.checker, self.tally, self.done = by, checker, tally, done
        self.last_failure, self.failures_in_a_row, self.answered = "", 0, tally.done

    async def all(self, rows: Sequence[Prose]) -> None:
        queue = iter(rows)
        async with (
            Chat(self.by.endpoint, Random(self.by.seed), self.by.concurrency) as chat,
            asyncio.TaskGroup() as group,
        ):
            for _ in range(min(self.by.concurrency, len(rows))):
                group.create_task(self._work(chat, queue))

    async def _work(self, chat: Chat, queue: Iterator[Prose]) -> None:
        for row in queue:
            if row.fault:
                self.done(row, {"reason": BROKEN, "detail": row.fault})
                continue
            try:
                entry = await self._entry(chat, row)
            except NoReply as failure:
                self._unanswered(failure)
            else:
                self.failures_in_a_row = 0
                self.done(row, entry)

    def _unanswered(self, failure: NoReply) -> None:
        self.tally.unanswered += 1
        self.last_failure = str(failure)
        self.failures_in_a_row += 1
        if self.failures_in_a_row > self.by.concurrency:
            raise UserError(
                f"{self.by.endpoint.address} does not answer ({failure}). {self.tally.done:,} of {self.tally.total:,} rows are "
                "done and kept: run the same command again to go on."
            )

    async def _entry(self, chat: Chat, row: Prose) -> Entry:
        """Ask until the chain holds, or the attempts are used up."""
        messages: list[Message] = self.by.prompt.messages(row.question, row.reasoning)
        used = {"tokens_in": 0, "tokens_out": 0, "uncounted": 0}
        why, text = Rejected("", ""), ""
        for _ in range(self.by.attempts):
            try:
                reply = await chat.ask(messages)
            except Refused as no:
                return self._refused(no) | used
            self.answered += 1
            _add(used, reply)
            text = reply.text
            try:
                return {"chain": self._chain(text, row)} | used
            except Rejected as found:
                why = found
            messages = [*messages, {"role": "assistant", "content": text}, self.by.prompt.again(str(why))]
        return {"reason": why.reason, "detail": why.detail, "reply": text} | used

    def _refused(self, no: Refused) -> Entry:
        """One row may be too long for the model; but a key or a name that is wrong is wrong for all of them."""
        if no.status in (401, 403, 404, 405) or not self.answered:
            raise UserError(
                f"{self.by.endpoint.address} refused the request: {no}. Check --endpoint, --model and --api-key."
            )
        return {"reason": REFUSED, "detail": str(no)}

    def _chain(self, text: str, row: Prose) -> str:
        chain, stated = chain_in(text)
        if stated and not self.checker.same(stated, row.answer):
            raise Rejected(WRONG_END, f"answers {stated[:60]}, marked {row.answer}")
        return verify(chain, row.question, row.answer, self.checker)


def _add(used: dict[str, int], reply: Reply) -> None:
    used["tokens_in"] += reply.tokens_in or 0
    used["tokens_out"] += reply.tokens_out or 0
    used["uncounted"] += reply.tokens_in is None or reply.tokens_out is None
