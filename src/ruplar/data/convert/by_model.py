"""Rows of prose → chains by a language model behind an endpoint; every reply is stored as soon as it arrives."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from ruplar.data.convert.endpoint import Chat, Endpoint, NoReply, Refused, Unusable
from ruplar.data.convert.messages import Prompt, Reply, chain_in
from ruplar.data.convert.prose import Prose
from ruplar.data.convert.verify import (
    BROKEN,
    REFUSED,
    UNANSWERED,
    UNUSABLE,
    WRONG_END,
    ConversionProgress,
    Entry,
    Rejected,
    verify,
)
from ruplar.domains.base import Domain
from ruplar.errors import UserError

_MAX_UNUSABLE = 20
"""Consecutive unusable replies, without a usable one before them, after which the conversion stops."""

_OR_WITHOUT = ", or with --set-aside-unanswered to reject rows without a reply"


@dataclass(frozen=True)
class ByModel:
    """Convert by a language model.

    Attributes:
        endpoint: The endpoint.
        prompt: The prompt.
        concurrency: Requests in flight.
        attempts: Requests per row while its chain is wrong; from the second on, the prompt includes the error.
        seed: Random seed of the jitter between retries.
        set_aside_unanswered: Reject rows without a reply, instead of stopping.
    """

    endpoint: Endpoint
    prompt: Prompt
    concurrency: int = 8
    attempts: int = 2
    seed: int = 0
    set_aside_unanswered: bool = False

    def heading(self) -> dict[str, Any]:
        """Return the settings that the journal must match."""
        text = f"{self.prompt.system}\0{self.prompt.user}"
        return {"by": "llm", "model": self.endpoint.model, "prompt": hashlib.sha256(text.encode()).hexdigest()[:16]}


@dataclass(frozen=True)
class ConversionQueue:
    """Where workers report their results.

    Attributes:
        progress: The progress.
        earlier: Key of a row → its wrong replies of earlier runs, which are not requested again.
        store: Called with a row and its journal entry.
        on_progress: Called when the progress has changed.
    """

    progress: ConversionProgress
    earlier: Mapping[str, Sequence[str]]
    store: Callable[[Prose, Entry], None]
    on_progress: Callable[[], None]


def ask_all(rows: Sequence[Prose], by: ByModel, checker: Domain, queue: ConversionQueue) -> None:
    """Request the chain of every row.

    Raises:
        UserError: The endpoint cannot be used, or rows have no reply and `set_aside_unanswered` is off.
    """
    workers = _Workers(by, checker, queue)
    try:
        asyncio.run(workers.all(rows))
    except* UserError as found:
        raise _first(found) from None
    if workers.unanswered and not by.set_aside_unanswered:
        failure = workers.unanswered[-1][1]
        raise UserError(
            f"{len(workers.unanswered):,} of {queue.progress.total:,} rows have no reply ({failure}). The others are stored: run "
            f"the same command again to resume{_OR_WITHOUT}."
        )
    for row, failure in workers.unanswered:
        queue.store(row, {"reason": UNANSWERED, "detail": failure})


def _first(group: BaseExceptionGroup) -> UserError:
    found = group.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found  # type: ignore[return-value]


class _Workers:
    """Workers that request the chains of rows from one queue."""

    def __init__(self, by: ByModel, checker: Domain, queue: ConversionQueue):
        self.by, self.checker, self.queue = by, checker, queue
        self.unanswered: list[tuple[Prose, str]] = []
        self.failures_in_a_row, self.answered = 0, queue.progress.judged

    async def all(self, rows: Sequence[Prose]) -> None:
        remaining = iter(rows)
        async with (
            Chat(self.by.endpoint, Random(self.by.seed), self.by.concurrency, self._waits) as chat,
            asyncio.TaskGroup() as group,
        ):
            for _ in range(min(self.by.concurrency, len(rows))):
                group.create_task(self._work(chat, remaining))

    async def _work(self, chat: Chat, remaining: Iterator[Prose]) -> None:
        for row in remaining:
            if row.fault:
                self.queue.store(row, {"reason": BROKEN, "detail": row.fault})
                continue
            try:
                entry = await self._entry(chat, row)
            except NoReply as failure:
                self._no_reply(row, str(failure))
            except Unusable as failure:
                self.queue.store(row, {"reason": UNUSABLE, "detail": str(failure), "reply": failure.text})
                self._no_use(str(failure))
            else:
                self.failures_in_a_row = 0
                self.queue.store(row, entry)

    def _waits(self, seconds: float, why: str) -> None:
        self.queue.progress.waiting = f"waiting {seconds:.0f} s ({why[:80]})"
        self.queue.on_progress()

    def _no_reply(self, row: Prose, failure: str) -> None:
        progress = self.queue.progress
        progress.unanswered += 1
        self.unanswered.append((row, failure))
        self.failures_in_a_row += 1
        # with set_aside_unanswered, only such rows may remain; but an endpoint that never replied is not available
        if self.failures_in_a_row > self.by.concurrency and not (self.by.set_aside_unanswered and self.answered):
            raise UserError(
                f"{self.by.endpoint.address} does not respond ({failure}). {progress.done:,} of {progress.total:,} rows "
                f"are done and stored: run the same command again to resume{_OR_WITHOUT if self.answered else ''}."
            )

    def _no_use(self, failure: str) -> None:
        self.failures_in_a_row += 1
        if not self.answered and self.failures_in_a_row > max(self.by.concurrency, _MAX_UNUSABLE):
            raise UserError(
                f"{self.by.endpoint.address} gave no usable reply ({failure}). Check --endpoint and --model. The same "
                "command resumes; --retry-rejected requests rejected rows again."
            )

    async def _entry(self, chat: Chat, row: Prose) -> Entry:
        """Send requests until the chain is right or no attempt is left; replies of earlier runs count as attempts."""
        messages = self.by.prompt.messages(row.question, row.reasoning)
        earlier = tuple(self.queue.earlier.get(row.key, ()))
        most, text = max(self.by.attempts, len(earlier)), ""
        for number in range(most):
            used: dict[str, int] = {}
            if number < len(earlier):
                text = earlier[number]
            else:
                try:
                    reply = await chat.ask(messages, lambda reply: self._wasted(row, reply))
                except Refused as no:
                    return self._refused(no) | {"reply": text}
                self.answered += 1
                text, used = reply.text, reply.used
            try:
                return {"chain": self._chain(text, row), "reply": text} | used
            except Rejected as found:
                why = found
            if number + 1 < most and number >= len(earlier):
                self.queue.store(row, {"open": True, "reply": text} | used)
            messages = [*messages, {"role": "assistant", "content": text}, self.by.prompt.retry(str(why))]
        return {"reason": why.reason, "detail": why.detail, "reply": text} | used

    def _wasted(self, row: Prose, reply: Reply) -> None:
        self.queue.store(row, {"open": True, "unusable": reply.fault} | reply.used)

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
