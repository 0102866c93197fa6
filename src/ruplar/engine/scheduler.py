"""Questions in a bounded queue → answers: continuous batching, a finished question's slot is refilled at once.

First come, first served. An answer does not depend on which other questions are in flight. Use it from one thread
(`run_all`), or start its own thread (`start`, `submit_samples` from any thread, `stop`).
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice

from ruplar.engine.fast import FastEngine
from ruplar.engine.options import Request
from ruplar.engine.prefix_sharing import admit_count, prefill_count
from ruplar.engine.reference import Generation
from ruplar.engine.sampling import Decoding, Key
from ruplar.errors import UserError
from ruplar.types import Prompt

log = logging.getLogger(__name__)


class QueueFull(UserError):
    """The queue is full; try again later."""


class EngineDead(RuntimeError):
    """The engine's thread has died; no question will be answered."""


@dataclass(eq=False)
class Ticket:
    """A submitted question, like a `concurrent.futures.Future`."""

    request: Request
    future: Future = field(default_factory=Future)  # receives the answer
    dropped: bool = False  # it was cancelled
    started: float | None = None  # `time.perf_counter()` when it was admitted to a slot; None while it waits

    def result(self, timeout: float | None = None) -> Generation:
        return self.future.result(timeout)

    def cancel(self) -> bool:
        """Cancel the question, in the queue or in flight; False if it is already answered."""
        self.dropped = True
        return self.future.cancel() or self.future.cancelled()

    def done(self) -> bool:
        return self.future.done()


@dataclass
class Scheduler:
    """A queue in front of the slots of one engine."""

    engine: FastEngine
    queue_limit: int = 1024  # maximum number of waiting questions
    seconds_each: float = field(init=False, default=0.1)  # moving average of the seconds from admission to answer
    queue: deque[Ticket] = field(init=False, default_factory=deque)
    in_flight: dict[int, Ticket] = field(init=False, default_factory=dict)  # slot → question in flight
    _change: threading.Condition = field(init=False, default_factory=threading.Condition, repr=False)
    _thread: threading.Thread | None = field(init=False, default=None, repr=False)
    _stopping: bool = field(init=False, default=False, repr=False)
    _dead: str | None = field(init=False, default=None, repr=False)  # why no question can be answered any more
    _turn_since: float | None = field(init=False, default=None, repr=False)

    def submit_samples(
        self,
        prompt: Prompt,
        keys: Sequence[Key],
        decoding: Decoding | None = None,
        listen: Sequence[Callable[[Generation], None] | None] | None = None,
    ) -> list[Ticket]:
        """Add samples of one question to the queue, all or none; they share one prefill.

        A key names a sample's random stream; a listener is called by the engine's thread (`options.Request`).
        """
        decoding = decoding or self.engine.decoding
        listeners = listen if listen is not None else [None] * len(keys)
        tickets = [
            Ticket(replace(self.engine.request(prompt, key, decoding), listen=listener))
            for key, listener in zip(keys, listeners, strict=True)
        ]
        need, room = self.engine.need(prompt, decoding), self.engine.decoder.columns
        if need > room:
            raise UserError(
                f"the question takes up to {need} positions ({len(prompt.ids)} of them its prompt), but the engine has "
                f"{room}. Shorten it, or create the engine with more columns."
            )
        with self._change:
            if self._dead is not None:
                raise EngineDead(self._dead)
            if self._stopping:
                raise UserError("the scheduler has been stopped and accepts no more questions.")
            self._remove_cancelled()
            if len(self.queue) + len(tickets) > self.queue_limit:
                raise QueueFull(f"{len(self.queue)} questions are already waiting, the limit. Try again later.")
            self.queue.extend(tickets)
            self._change.notify()
        return tickets

    def run_all(
        self,
        prompts: Sequence[Prompt],
        keys: Sequence[Key] | None = None,
        on_done: Callable[[int], None] | None = None,
    ) -> list[Generation]:
        """Answer many questions in this thread; results are in the order of the prompts.

        Whatever interrupts it, Ctrl-C too, leaves queue and slots empty.
        """
        assert self._thread is None, "its own thread is running"
        engine = self.engine
        engine.reserve(max((engine.need(p, engine.decoding) for p in prompts), default=0))
        names = keys if keys is not None else range(len(prompts))
        tickets = [Ticket(engine.request(p, name)) for p, name in zip(prompts, names, strict=True)]
        # prompts of similar length prefill with little padding
        self.queue.extend(sorted(tickets, key=lambda t: len(t.request.prompt.ids)))
        try:
            while self.queue or self.in_flight:
                count = self.turn()
                if on_done and count:
                    on_done(count)
        except BaseException as error:
            self.engine.drop(self._fail(error, waiting=True))
            raise
        return [ticket.result() for ticket in tickets]

    def turn(self) -> int:
        """One round: drop cancelled questions, refill free slots, one decode step, return answers → how many."""
        with self._change:
            self._remove_cancelled()
        cancelled = [slot for slot, ticket in self.in_flight.items() if ticket.dropped]
        self.engine.drop(cancelled)
        for slot in cancelled:
            self.in_flight.pop(slot, None)
        self._refill()
        self.engine.step()
        found = self.engine.harvest()
        for slot, generation in found:
            if (ticket := self.in_flight.pop(slot, None)) is None:
                continue  # `stop` has given it up
            _end(ticket, generation)
            if ticket.started is not None:
                self.seconds_each += 0.05 * (time.perf_counter() - ticket.started - self.seconds_each)
        return len(found)

    def _remove_cancelled(self) -> None:
        if any(ticket.dropped for ticket in self.queue):
            waiting = [ticket for ticket in self.queue if not ticket.dropped]
            self.queue.clear()
            self.queue.extend(waiting)

    def _refill(self) -> None:
        free = [slot for slot in range(self.engine.slots) if slot not in self.in_flight]
        with self._change:
            if not (self.queue and free):
                return
            nearest = islice(self.queue, len(free) + self.engine.slots + 1)
            count = admit_count([ticket.request.prompt for ticket in nearest], len(free), self.engine.slots)
            admitted = [self.queue.popleft() for _ in range(count)]
            admitted.sort(key=lambda ticket: len(ticket.request.prompt.ids))  # similar lengths together
            self.in_flight.update(zip(free, admitted, strict=False))  # all of them, in case a prefill fails
        while admitted:
            count = prefill_count([ticket.request.prompt.ids for ticket in admitted], self.engine.prefill_tokens)
            group, admitted = admitted[:count], admitted[count:]
            slots, free = free[: len(group)], free[len(group) :]
            for ticket in group:
                ticket.started = time.perf_counter()
            self.engine.admit(slots, [ticket.request for ticket in group])

    def start(self) -> None:
        if self._dead is not None:
            raise EngineDead(self._dead)
        assert self._thread is None, "already started"
        self._stopping = False
        self._thread = threading.Thread(target=self._run_thread, name="ruplar-scheduler", daemon=True)
        self._thread.start()

    def stop(self, timeout: float | None = None) -> None:
        """Finish questions in flight, cancel waiting ones and end the thread; no question is accepted until `start`.

        If the thread hangs for longer than `timeout` seconds, its questions fail, and this scheduler cannot be started again.
        """
        with self._change:
            self._stopping = True
            for ticket in self.queue:
                ticket.cancel()
            self._change.notify()
        if self._thread is not None:
            self._thread.join(timeout)
            if not self._thread.is_alive():
                self._thread = None
            elif self._dead is None:
                self._die(f"the engine hung for {timeout:g} s when it was stopped")

    @property
    def alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive() and self._dead is None

    def stuck_for(self) -> float:
        """Seconds since the current round started; 0 between rounds. Rounds take milliseconds."""
        since = self._turn_since
        return time.perf_counter() - since if since is not None else 0.0

    def _run_thread(self) -> None:
        try:
            self._run_rounds()
        except BaseException as error:
            log.exception("the engine's thread has died")
            self._die(f"the engine's thread has died: {error!r}")

    def _die(self, why: str) -> None:
        """Accept no more questions, and fail those in flight and in the queue."""
        with self._change:
            self._dead = why
        self._fail(EngineDead(why), waiting=True)

    def _run_rounds(self) -> None:
        while True:
            with self._change:
                self._remove_cancelled()
                while not (self.queue or self.in_flight or self._stopping):
                    self._change.wait()
                if self._dead is not None or (self._stopping and not self.in_flight):
                    return
            try:
                self._turn_since = time.perf_counter()
                self.turn()
            except Exception as error:  # the thread survives; the questions in flight get the error
                log.exception("the engine failed; the questions in flight fail with it")
                self.engine.drop(self._fail(error))  # last: if this fails too, the thread ends
            finally:
                self._turn_since = None

    def _fail(self, error: BaseException, waiting: bool = False) -> list[int]:
        """Fail the questions in flight, and with `waiting` those in the queue → the slots to free."""
        with self._change:
            slots, lost = list(self.in_flight), list(self.in_flight.values())
            self.in_flight.clear()
            if waiting:
                lost += self.queue
                self.queue.clear()
        for ticket in lost:
            _end(ticket, error)
        return slots


def _end(ticket: Ticket, result: Generation | BaseException) -> None:
    """Set the answer or an error, unless the question has been cancelled or has failed in the meantime."""
    with suppress(InvalidStateError):
        if not ticket.future.done() and ticket.future.set_running_or_notify_cancel():
            if isinstance(result, BaseException):
                ticket.future.set_exception(result)
            else:
                ticket.future.set_result(result)
