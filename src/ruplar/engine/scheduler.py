"""Questions in a bounded queue → answers: a finished question's slot is refilled at once.

First come, first served. What a question answers does not depend on which others are in flight. Use it from one thread
(`run_all`), or let a thread of its own do the work (`start`, `submit` from any thread, `stop`).
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from ruplar.backbone.load import Backbone
from ruplar.engine.fast import FastEngine
from ruplar.engine.options import Request
from ruplar.engine.reference import Generation, generate
from ruplar.engine.sampling import Decoding
from ruplar.engine.thinker import Thinker
from ruplar.errors import UserError
from ruplar.records import Prompt

log = logging.getLogger(__name__)


class QueueFull(UserError):
    """The queue holds as many questions as it may; try again later."""


@dataclass(eq=False)
class Ticket:
    """A question on its way, like a `concurrent.futures.Future`."""

    request: Request
    future: Future = field(default_factory=Future)
    dropped: bool = False

    def result(self, timeout: float | None = None) -> Generation:
        """Wait for the answer.

        Raises:
            TimeoutError: It took longer than `timeout` seconds.
            concurrent.futures.CancelledError: It was cancelled.
        """
        return self.future.result(timeout)

    def cancel(self) -> bool:
        """Give the question up, in the queue or in flight; False when it is already answered."""
        self.dropped = True
        return self.future.cancel() or self.future.cancelled()

    def done(self) -> bool:
        """Answered, failed or cancelled."""
        return self.future.done()


@dataclass
class Scheduler:
    """Slots of one engine, kept full.

    Attributes:
        engine: Does the work.
        queue_limit: Most questions waiting.
        refill_at: Free slots before a refill, while others are in flight: 1 answers soonest, more prefill in larger,
            cheaper groups.
    """

    engine: FastEngine
    queue_limit: int = 1024
    refill_at: int = 1
    queue: deque[Ticket] = field(init=False, default_factory=deque)
    flying: dict[int, Ticket] = field(init=False, default_factory=dict)
    _change: threading.Condition = field(init=False, default_factory=threading.Condition, repr=False)
    _thread: threading.Thread | None = field(init=False, default=None, repr=False)
    _stopping: bool = field(init=False, default=False, repr=False)

    def submit(self, prompt: Prompt, key: int = 0, decoding: Decoding | None = None) -> Ticket:
        """Put a question into the queue.

        Args:
            prompt: The question.
            key: Names its random stream, when it samples.
            decoding: How it is decoded; the engine's own way when None.

        Raises:
            QueueFull: `queue_limit` questions are waiting.
            UserError: The question does not fit into the engine's columns.
        """
        ticket = Ticket(self.engine.request(prompt, key, decoding))
        need, room = self.engine.need(prompt, ticket.request.decoding), self.engine.decoder.columns
        if need > room:
            raise UserError(
                f"the question takes up to {need} positions ({len(prompt.ids)} of them its prompt), but the engine was "
                f"made for {room}. Shorten it, or make the engine with more columns."
            )
        with self._change:
            if self._stopping:
                raise UserError("the scheduler has been stopped and takes no more questions.")
            self._sweep()
            if len(self.queue) >= self.queue_limit:
                raise QueueFull(f"{len(self.queue)} questions are already waiting, the most allowed. Try again later.")
            self.queue.append(ticket)
            self._change.notify()
        return ticket

    def run_all(
        self,
        prompts: Sequence[Prompt],
        keys: Sequence[int] | None = None,
        on_done: Callable[[int], None] | None = None,
    ) -> list[Generation]:
        """Answer many questions in this thread, in their own order.

        Args:
            prompts: The questions; the queue's bound does not hold for them.
            keys: Names their random streams; their places when None.
            on_done: Called with the number of questions just answered.
        """
        assert self._thread is None, "its own thread is doing the work"
        engine = self.engine
        engine.reserve(max((engine.need(p, engine.decoding) for p in prompts), default=0))
        requests = [
            engine.request(p, keys[i] if keys is not None else i, place=i) for i, p in enumerate(prompts)
        ]  # fmt: skip
        tickets = [Ticket(request) for request in requests]
        # together, questions of like length prefill with little padding; nobody waits for one in particular
        self.queue.extend(sorted(tickets, key=lambda t: len(t.request.prompt.ids)))
        while self.queue or self.flying:
            count = self.turn()
            if on_done and count:
                on_done(count)
        return [ticket.result() for ticket in tickets]

    def turn(self) -> int:
        """One round: give up what was cancelled, refill free slots, feed all, hand out answers → how many."""
        with self._change:
            self._sweep()
        given_up = [slot for slot, ticket in self.flying.items() if ticket.dropped]
        self.engine.drop(given_up)
        for slot in given_up:
            del self.flying[slot]
        self._refill()
        self.engine.step()
        found = self.engine.harvest()
        for slot, generation in found:
            _settle(self.flying.pop(slot), generation)
        return len(found)

    def _sweep(self) -> None:
        """Take cancelled questions out of the queue."""
        if any(ticket.dropped for ticket in self.queue):
            kept = [ticket for ticket in self.queue if not ticket.dropped]
            self.queue.clear()
            self.queue.extend(kept)

    def _refill(self) -> None:
        free = [slot for slot in range(self.engine.slots) if slot not in self.flying]
        with self._change:
            if not self.queue or (self.flying and len(free) < min(self.refill_at, len(self.queue))):
                return
            taken = [self.queue.popleft() for _ in range(min(len(free), len(self.queue)))]
        taken.sort(key=lambda ticket: len(ticket.request.prompt.ids))  # like lengths together
        while taken:
            group, taken = _split(taken, self.engine.prefill_tokens)
            slots, free = free[: len(group)], free[len(group) :]
            self.flying.update(zip(slots, group, strict=True))
            self.engine.admit(slots, [ticket.request for ticket in group])

    def start(self) -> None:
        """Begin to work in a thread of its own."""
        assert self._thread is None, "already started"
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name="ruplar-scheduler", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Finish what is in flight, cancel what waits, end the thread."""
        with self._change:
            self._stopping = True
            for ticket in self.queue:
                ticket.cancel()
            self._change.notify()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._stopping = False

    def _work(self) -> None:
        while True:
            with self._change:
                self._sweep()
                while not (self.queue or self.flying or self._stopping):
                    self._change.wait()
                if self._stopping and not self.flying:
                    return
            try:
                self.turn()
            except Exception as error:  # the thread must outlive it, and each waiting question must hear of it
                log.exception("the engine failed; the questions in flight fail with it")
                self._fail(error)

    def _fail(self, error: Exception) -> None:
        self.engine.drop(list(self.flying))
        for ticket in self.flying.values():
            if not ticket.future.done():
                ticket.future.set_exception(error)
        self.flying.clear()


def _split(tickets: list[Ticket], tokens: int) -> tuple[list[Ticket], list[Ticket]]:
    """Sorted by length: the shortest questions that prefill together in at most so many padded tokens, and the rest."""
    count = 1
    while count < len(tickets) and (count + 1) * (len(tickets[count].request.prompt.ids) + 2) <= tokens:
        count += 1
    return tickets[:count], tickets[count:]


def _settle(ticket: Ticket, generation: Generation) -> None:
    """Hand an answer out, unless it was cancelled this very moment."""
    if ticket.future.set_running_or_notify_cancel():
        ticket.future.set_result(generation)


def generate_fast(
    engine: FastEngine | None,
    backbone: Backbone,
    thinker: Thinker,
    prompts: Sequence[Prompt],
    decoding: Decoding,
    keys: Sequence[int] | None = None,
) -> list[Generation]:
    """`reference.generate` through an engine; through the plain loop where there is none.

    Args:
        engine: Made for this backbone and thinker, or None.
        backbone: As for `reference.generate`.
        thinker: As for `reference.generate`.
        prompts: As for `reference.generate`.
        decoding: As for `reference.generate`.
        keys: As for `reference.generate`.
    """
    if engine is None:
        return generate(backbone, thinker, prompts, decoding, keys)
    return Scheduler(engine).run_all(prompts, keys)
