"""Rows of prose → a chain of each by a language model behind an endpoint; every reply is handed on as soon as it is there."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from ruplar.data.convert.endpoint import Chat, Endpoint, NoReply, Refused, Unusable
from ruplar.data.convert.prompt import Prompt, chain_in
from ruplar.data.convert.prose import Prose
from ruplar.data.convert.reply import Reply
from ruplar.data.convert.tally import BROKEN, REFUSED, UNANSWERED, UNUSABLE, ConversionProgress, Entry
from ruplar.data.convert.verify import WRONG_END, Rejected, verify
from ruplar.domains.base import Domain
from ruplar.errors import UserError

_HOPELESS = 20
"""Rows in a row whose replies cannot be used after which it is the endpoint that is wrong, where none could be used before."""

_OR_WITHOUT = ", with --set-aside-unanswered to finish without rows that get no reply"


@dataclass(frozen=True)
class ByModel:
    """Convert by a language model.

    Attributes:
        endpoint: Where it is.
        prompt: What it is told.
        concurrency: Requests in flight.
        attempts: Times a row is asked when its chain does not hold; from the second on the fault is told.
        seed: Of the jitter between retries.
        set_aside_unanswered: Finish without the rows that got no reply, setting them aside, instead of stopping.
    """

    endpoint: Endpoint
    prompt: Prompt
    concurrency: int = 8
    attempts: int = 2
    seed: int = 0
    set_aside_unanswered: bool = False

    def heading(self) -> dict[str, Any]:
        """What the journal must agree on."""
        told = f"{self.prompt.system}\0{self.prompt.user}"
        return {"by": "llm", "model": self.endpoint.model, "prompt": hashlib.sha256(told.encode()).hexdigest()[:16]}


@dataclass(frozen=True)
class ConversionQueue:
    """Where workers hand in what they have.

    Attributes:
        tally: What is done.
        earlier: Key of a row → replies of runs before this one whose chains did not hold; they need not be paid for again.
        keep: Called with a row and a line of its journal.
        tell: Called when the tally has changed.
    """

    tally: ConversionProgress
    earlier: Mapping[str, Sequence[str]]
    keep: Callable[[Prose, Entry], None]
    tell: Callable[[], None]


def ask_all(rows: Sequence[Prose], by: ByModel, checker: Domain, desk: ConversionQueue) -> None:
    """Ask for the chain of every row.

    Raises:
        UserError: The endpoint cannot be used, or some rows got no reply and are not to be set aside.
    """
    asker = _Asker(by, checker, desk)
    try:
        asyncio.run(asker.all(rows))
    except* UserError as found:
        raise _first(found) from None
    if asker.unanswered and not by.set_aside_unanswered:
        failure = asker.unanswered[-1][1]
        raise UserError(
            f"{len(asker.unanswered):,} of {desk.tally.total:,} rows got no reply ({failure}). The others are kept: run the "
            f"same command again to go on{_OR_WITHOUT}."
        )
    for row, failure in asker.unanswered:
        desk.keep(row, {"reason": UNANSWERED, "detail": failure})


def _first(group: BaseExceptionGroup) -> UserError:
    found = group.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found  # type: ignore[return-value]


class _Asker:
    """Workers that take rows from one queue and ask for their chains."""

    def __init__(self, by: ByModel, checker: Domain, desk: ConversionQueue):
        self.by, self.checker, self.desk = by, checker, desk
        self.unanswered: list[tuple[Prose, str]] = []
        self.failures_in_a_row, self.answered = 0, desk.tally.judged

    async def all(self, rows: Sequence[Prose]) -> None:
        queue = iter(rows)
        async with (
            Chat(self.by.endpoint, Random(self.by.seed), self.by.concurrency, self._waits) as chat,
            asyncio.TaskGroup() as group,
        ):
            for _ in range(min(self.by.concurrency, len(rows))):
                group.create_task(self._work(chat, queue))

    async def _work(self, chat: Chat, queue: Iterator[Prose]) -> None:
        for row in queue:
            if row.fault:
                self.desk.keep(row, {"reason": BROKEN, "detail": row.fault})
                continue
            try:
                entry = await self._entry(chat, row)
            except NoReply as failure:
                self._no_reply(row, str(failure))
            except Unusable as failure:
                self.desk.keep(row, {"reason": UNUSABLE, "detail": str(failure), "reply": failure.text})
                self._no_use(str(failure))
            else:
                self.failures_in_a_row = 0
                self.desk.keep(row, entry)

    def _waits(self, seconds: float, why: str) -> None:
        self.desk.tally.waiting = f"waiting {seconds:.0f} s ({why[:80]})"
        self.desk.tell()

    def _no_reply(self, row: Prose, failure: str) -> None:
        tally = self.desk.tally
        tally.unanswered += 1
        self.unanswered.append((row, failure))
        self.failures_in_a_row += 1
        # who wants to finish without such rows may have none but such rows left; yet one that never answered is not there
        if self.failures_in_a_row > self.by.concurrency and not (self.by.set_aside_unanswered and self.answered):
            raise UserError(
                f"{self.by.endpoint.address} does not answer ({failure}). {tally.done:,} of {tally.total:,} rows are "
                f"done and kept: run the same command again to go on{_OR_WITHOUT if self.answered else ''}."
            )

    def _no_use(self, failure: str) -> None:
        self.failures_in_a_row += 1
        if not self.answered and self.failures_in_a_row > max(self.by.concurrency, _HOPELESS):
            raise UserError(
                f"{self.by.endpoint.address} has given no reply that can be used ({failure}). Check --endpoint and --model. The "
                "same command goes on; --retry-rejected tries the rows again that were set aside."
            )

    async def _entry(self, chat: Chat, row: Prose) -> Entry:
        """Ask until the chain holds, or the attempts are used up; replies of an earlier run come first."""
        messages = self.by.prompt.messages(row.question, row.reasoning)
        earlier = tuple(self.desk.earlier.get(row.key, ()))
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
                self.desk.keep(row, {"open": True, "reply": text} | used)
            messages = [*messages, {"role": "assistant", "content": text}, self.by.prompt.again(str(why))]
        return {"reason": why.reason, "detail": why.detail, "reply": text} | used

    def _wasted(self, row: Prose, reply: Reply) -> None:
        self.desk.keep(row, {"open": True, "unusable": reply.fault} | reply.used)

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
