"""Prose → rows with chains: every row is converted, verified and stored; then OUTPUT and OUTPUT.rejected.jsonl are written."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from ruplar import plugins
from ruplar.data.convert.endpoint import Chat, Endpoint, NoReply, Refused
from ruplar.data.convert.journal import NO_REPLY, Entry, Journal, publish
from ruplar.data.convert.messages import Prompt, chain_in
from ruplar.data.convert.prose import Prose
from ruplar.data.convert.rules import rule_of
from ruplar.data.convert.verify import WRONG_END, Rejected, verify
from ruplar.domains.base import Domain
from ruplar.errors import UserError

BROKEN, NO_RULE, REFUSED = "broken row", "no rule matches", "the endpoint rejected it"
"""Why a row is rejected before there is a chain; `NO_REPLY` is another reason."""


@dataclass(frozen=True)
class ByModel:
    """Convert by a language model; `attempts` are the requests per row while its chain is wrong."""

    endpoint: Endpoint
    prompt: Prompt
    concurrency: int = 8
    attempts: int = 2

    def heading(self) -> dict[str, Any]:
        """Return the settings that the journal must match."""
        text = f"{self.prompt.system}\0{self.prompt.user}"
        return {"by": "llm", "model": self.endpoint.model, "prompt": hashlib.sha256(text.encode()).hexdigest()[:16]}


@dataclass
class ConversionProgress:
    """The progress: rows converted and rejected, by reason, in this run and earlier ones."""

    total: int
    converted: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    waiting: str = ""

    @property
    def done(self) -> int:
        """Rows that are finished."""
        return self.converted + sum(self.rejected.values())

    def count(self, entry: Entry) -> None:
        """Count one finished row."""
        if entry.get("reason"):
            self.rejected[entry["reason"]] += 1
        else:
            self.converted += 1


def rejected_file(output: Path) -> Path:
    """Return the file with the rejected rows of a conversion."""
    return output.with_name(f"{output.name}.rejected.jsonl")


def convert(
    rows: Sequence[Prose],
    output: Path,
    domain: str,
    by: ByModel | None = None,
    *,
    retry_rejected: bool = False,
    on_progress: Callable[[ConversionProgress], None] = lambda progress: None,
    rules: Callable[[Sequence[Prose], str], Iterable[Entry]] | None = None,
) -> ConversionProgress:
    """Convert every row that is not in the journal, then write `output` and, beside it, its journal and the rejected rows.

    `domain` verifies the chains; without `by`, its rule converts. `on_progress` is called after every row and every reply, and
    before a wait. After an error, finished rows are stored, and the same call resumes. `rules` replaces `by_rules`, on this
    machine.
    """
    checker = plugins.make("domains", domain)
    heading = {"domain": domain, **(by.heading() if by else {"by": "rules"})}
    with Journal(output.with_name(f"{output.name}.journal"), heading) as journal:
        if other := len(journal.entries.keys() - {row.key for row in rows}):
            raise UserError(
                f"{journal.path}: belongs to another input: {other:,} of its {len(journal.entries):,} rows are not in this one. "
                "Use that input again (and its --limit), name another OUTPUT, or start over with --force."
            )
        progress, left = ConversionProgress(len(rows)), []
        for row in rows:
            entry = journal.entries.get(row.key)
            if entry is None or (retry_rejected and entry.get("reason")):
                left.append(row)
            else:
                progress.count(entry)

        def store(row: Prose, entry: Entry) -> None:
            journal.add(row.key, entry, sync=by is not None)  # rules are fast, so their rows need no sync
            progress.waiting = ""
            if not entry.get("open"):
                progress.count(entry)
            on_progress(progress)

        def wait(seconds: float, why: str) -> None:
            progress.waiting = f"waiting {seconds:.0f} s ({why[:80]})"
            on_progress(progress)

        on_progress(progress)
        for row in left:
            if row.fault:
                store(row, {"reason": BROKEN, "detail": row.fault})
        left = [row for row in left if not row.fault]
        if by is None:
            for row, entry in zip(left, (rules or by_rules)(left, domain), strict=True):
                store(row, entry)
        else:
            workers = _Workers(by, checker, journal.open, store, progress)
            try:
                asyncio.run(workers.all(left, wait))
            except ExceptionGroup as found:  # not except*, from which Python 3.11.2 raises a group again
                raise next((error for error in found.exceptions if isinstance(error, UserError)), found) from None
        kept: list[Entry] = []
        rejected: list[Entry] = []
        for row in rows:
            entry = journal.entries[row.key]
            if "chain" in entry:
                kept.append({"problem": row.question, "solution": entry["chain"], "answer": row.answer})
            else:
                why = {"reason": entry["reason"], "detail": entry["detail"], "reply": entry.get("reply", "")}
                rejected.append({"row": row.source, "problem": row.question, "answer": row.answer, **why})
        publish(rejected_file(output), rejected)
        publish(output, kept)
    return progress


def by_rules(rows: Sequence[Prose], domain: str) -> Iterator[Entry]:
    """Convert rows by the rule of a domain; yields what finishes each."""
    read, checker = rule_of(domain), plugins.make("domains", domain)
    for row in rows:
        chain = read(row.question, row.reasoning)
        try:
            if chain is None:
                raise Rejected(NO_RULE, "neither its question nor its prose has a known form")
            yield {"chain": verify(chain, row.question, row.answer, checker)}
        except Rejected as why:
            yield {"reason": why.reason, "detail": why.detail, "reply": chain or ""}


@dataclass
class _Workers:
    """Workers that request the chains of rows; `earlier` are wrong replies of earlier runs, which count as attempts."""

    by: ByModel
    checker: Domain
    earlier: Mapping[str, Sequence[str]]
    store: Callable[[Prose, Entry], None]
    progress: ConversionProgress
    failures_in_a_row: int = 0

    def __post_init__(self):
        # an endpoint that never replied is not available, whatever the reason
        self.answered = self.progress.done > self.progress.rejected[BROKEN] + self.progress.rejected[NO_REPLY]

    async def all(self, rows: Sequence[Prose], on_wait: Callable[[float, str], None]) -> None:
        remaining = iter(rows)
        async with (
            Chat(self.by.endpoint, Random(0), self.by.concurrency, on_wait) as chat,
            asyncio.TaskGroup() as group,
        ):
            for _ in range(min(self.by.concurrency, len(rows))):
                group.create_task(self._work(chat, remaining))

    async def _work(self, chat: Chat, remaining: Iterator[Prose]) -> None:
        for row in remaining:
            try:
                entry = await self._entry(chat, row)
                self.failures_in_a_row = 0
                self.store(row, entry)
            except NoReply as failure:
                self.failures_in_a_row += 1
                self.store(row, {"reason": NO_REPLY, "detail": str(failure), "reply": failure.reply.text})
                # an endpoint that works may give a few unusable replies in a row
                if self.failures_in_a_row > self.by.concurrency and not (failure.reply.fault and self.answered):
                    raise UserError(
                        f"{self.by.endpoint.address} gives no usable reply ({failure}). Check --endpoint and --model. "
                        f"{self.progress.done:,} of {self.progress.total:,} rows are stored: run the same command again to resume, "
                        "with --retry-rejected to request rows without a reply again."
                    ) from None

    async def _entry(self, chat: Chat, row: Prose) -> Entry:
        """Send requests until the chain is right or no attempt is left; from the second on, the prompt includes the error."""
        messages = self.by.prompt.messages(row.question, row.reasoning)
        earlier = tuple(self.earlier.get(row.key, ()))
        most, text = max(self.by.attempts, len(earlier)), ""
        for number in range(most):
            if number < len(earlier):
                text = earlier[number]
            else:
                try:
                    text = (await chat.ask(messages)).text
                except Refused as no:
                    return self._refused(no) | {"reply": text}
                self.answered = True
            try:
                return {"chain": self._chain(text, row), "reply": text}
            except Rejected as found:
                why = found
            if number + 1 < most and number >= len(earlier):
                self.store(row, {"open": True, "reply": text})
            messages = [*messages, {"role": "assistant", "content": text}, self.by.prompt.retry(str(why))]
        return {"reason": why.reason, "detail": why.detail, "reply": text}

    def _refused(self, no: Refused) -> Entry:
        """Reject one row (it may be too long for the model), or stop if the key or the model name is wrong for all rows."""
        if no.status in (401, 403, 404, 405) or not self.answered:
            raise UserError(
                f"{self.by.endpoint.address} rejected the request: {no}. Check --endpoint, --model and --api-key."
            )
        return {"reason": REFUSED, "detail": str(no)}

    def _chain(self, text: str, row: Prose) -> str:
        chain, stated = chain_in(text)
        if stated and not self.checker.same(stated, row.answer):
            raise Rejected(WRONG_END, f"answers {stated[:60]}, marked {row.answer}")
        return verify(chain, row.question, row.answer, self.checker)
