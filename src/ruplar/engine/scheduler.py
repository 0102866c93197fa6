"""Questions in a bounded queue → answers: a finished question's slot is refilled at once.

First come, first served. What a question answers does not depend on which others are in flight. Use it from one thread
(`run_all`), or let a thread of its own do the work (`start`, `submit` from any thread, `stop`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from ruplar.engine.fast import FastEngine
from ruplar.engine.options import Request
from ruplar.engine.prefix_sharing import split, together
from ruplar.engine.reference import Generation
from ruplar.engine.sampling import Decoding, Key
from ruplar.errors import UserError
from ruplar.types import Prompt

log = logging.getLogger(__name__)


class QueueFull(UserError):
    """The queue holds as many questions as it may; try again later."""


class EngineDead(RuntimeError):
    """The thread that did the work has died; no question will be answered."""


@dataclass(eq=False)
class Ticket:
    """A question on its way, like a `concurrent.futures.Future`.

    Attributes:
        request: The question.
        future: Where its answer will be.
        dropped: Nobody wants the answer any more.
        started: `time.perf_counter()` when it was given a slot; None while it waits.
        ended: The same when it was answered.
    """

    request: Request
    future: Future = field(default_factory=Future)
    dropped: bool = False
    started: float | None = None
    ended: float | None = None

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
        seconds_each: What a question has taken of late, from slot to answer.
    """

    engine: FastEngine
    queue_limit: int = 1024
    refill_at: int = 1
    seconds_each: float = field(init=False, default=0.1)
    queue: deque[Ticket] = field(init=False, default_factory=deque)
    flying: dict[int, Ticket] = field(init=False, default_factory=dict)
    _change: threading.Condition = field(init=False, default_factory=threading.Condition, repr=False)
    _thread: threading.Thread | None = field(init=False, default=None, repr=False)
    _stopping: bool = field(init=False, default=False, repr=False)
    _dead: BaseException | None = field(init=False, default=None, repr=False)
    _turn_since: float | None = field(init=False, default=None, repr=False)

    def submit(
        self,
        prompt: Prompt,
        key: Key = 0,
        decoding: Decoding | None = None,
        listen: Callable[[Generation], None] | None = None,
    ) -> Ticket:
        """Put a question into the queue.

        Args:
            prompt: The question.
            key: Names its random stream, when it samples or thinks noisily: a number, or (number, sample).
            decoding: How it is decoded, its seed and its noise; the engine's own way when None.
            listen: Called by the thread that does the work, with what there is so far; see `options.Request`.

        Raises:
            QueueFull: `queue_limit` questions are waiting.
            UserError: The question does not fit into the engine's columns.
            EngineDead: The thread that did the work has died.
        """
        return self.submit_samples(prompt, [key], decoding, [listen])[0]

    def submit_samples(
        self,
        prompt: Prompt,
        keys: Sequence[Key],
        decoding: Decoding | None = None,
        listen: Sequence[Callable[[Generation], None] | None] | None = None,
    ) -> list[Ticket]:
        """Put a question into the queue several times at once, so that its samples share one prefill: all, or none.

        Takes a key a sample and, where given, a listener a sample; otherwise as `submit`.
        """
        decoding = decoding or self.engine.decoding
        listeners = listen if listen is not None else [None] * len(keys)
        tickets = [
            Ticket(replace(self.engine.request(prompt, key, decoding), listen=heard))
            for key, heard in zip(keys, listeners, strict=True)
        ]
        need, room = self.engine.need(prompt, decoding), self.engine.decoder.columns
        if need > room:
            raise UserError(
                f"the question takes up to {need} positions ({len(prompt.ids)} of them its prompt), but the engine was "
                f"made for {room}. Shorten it, or make the engine with more columns."
            )
        with self._change:
            if self._dead is not None:
                raise EngineDead(f"the engine's thread has died: {self._dead!r}")
            if self._stopping:
                raise UserError("the scheduler has been stopped and takes no more questions.")
            self._sweep()
            if len(self.queue) + len(tickets) > self.queue_limit:
                raise QueueFull(f"{len(self.queue)} questions are already waiting, the most allowed. Try again later.")
            self.queue.extend(tickets)
            self._change.notify()
        return tickets

    def run_all(
        self,
        prompts: Sequence[Prompt],
        keys: Sequence[Key] | None = None,
        on_done: Callable[[int], None] | None = None,
    ) -> list[Generation]:
        """Answer many questions in this thread, in their own order.

        Args:
            prompts: The questions; the queue's bound does not hold for them. A prompt that stands several times in a row,
                once a sample, is read once.
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
            ticket = self.flying.pop(slot)
            _settle(ticket, generation)
            if ticket.started is not None and ticket.ended is not None:
                self.seconds_each += 0.05 * (ticket.ended - ticket.started - self.seconds_each)
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
            taken = [self.queue.popleft() for _ in range(together(self.queue, len(free), self.engine.slots))]
        taken.sort(key=lambda ticket: len(ticket.request.prompt.ids))  # like lengths together
        while taken:
            group, taken = split(taken, self.engine.prefill_tokens)
            slots, free = free[: len(group)], free[len(group) :]
            self.flying.update(zip(slots, group, strict=True))
            for ticket in group:
                ticket.started = time.perf_counter()
            self.engine.admit(slots, [ticket.request for ticket in group])

    def start(self) -> None:
        """Begin to work in a thread of its own."""
        assert self._thread is None, "already started"
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name="ruplar-scheduler", daemon=True)
        self._thread.start()

    def stop(self, timeout: float | None = None) -> None:
        """Finish what is in flight, cancel what waits, end the thread; one that hangs is left behind after `timeout` seconds."""
        with self._change:
            self._stopping = True
            for ticket in self.queue:
                ticket.cancel()
            self._change.notify()
        if self._thread is not None:
            self._thread.join(timeout)
            self._thread = None
        self._stopping = False

    @property
    def alive(self) -> bool:
        """Its own thread is running."""
        return self._thread is not None and self._thread.is_alive() and self._dead is None

    def stuck_for(self) -> float:
        """Seconds the round under way has taken so far; 0 when there is none. Rounds take milliseconds."""
        since = self._turn_since
        return time.perf_counter() - since if since is not None else 0.0

    def _work(self) -> None:
        try:
            self._rounds()
        except BaseException as error:  # whoever waits must hear of it, whatever it was
            log.exception("the engine's thread has died")
            with self._change:
                self._dead = error
                waiting = [*self.flying.values(), *self.queue]
                self.flying.clear()
                self.queue.clear()
            for ticket in waiting:
                _fail_one(ticket, EngineDead(f"the engine's thread has died: {error!r}"))

    def _rounds(self) -> None:
        while True:
            with self._change:
                self._sweep()
                while not (self.queue or self.flying or self._stopping):
                    self._change.wait()
                if self._stopping and not self.flying:
                    return
            try:
                self._turn_since = time.perf_counter()
                self.turn()
            except Exception as error:  # the thread must outlive it, and each waiting question must hear of it
                log.exception("the engine failed; the questions in flight fail with it")
                self._fail(error)
            finally:
                self._turn_since = None

    def _fail(self, error: Exception) -> None:
        lost = dict(self.flying)
        self.flying.clear()
        for ticket in lost.values():
            _fail_one(ticket, error)
        self.engine.drop(list(lost))  # last: an engine that cannot even do this is beyond repair, and the thread ends


def _fail_one(ticket: Ticket, error: BaseException) -> None:
    """Tell who waits that no answer will come, unless it was cancelled this very moment."""
    if not ticket.future.done() and ticket.future.set_running_or_notify_cancel():
        ticket.future.set_exception(error)


def _settle(ticket: Ticket, generation: Generation) -> None:
    """Hand an answer out, unless it was cancelled this very moment."""
    ticket.ended = time.perf_counter()
    if ticket.future.set_running_or_notify_cancel():
        ticket.future.set_result(generation)
