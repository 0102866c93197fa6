"""Tickets in the engine's thread → news in the event loop; whoever leaves, fails or takes too long frees the slots.

async with Call(tickets …) as call:
    async for news in call.news(): …
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from typing import Any

from ruplar.engine.reference import Generation
from ruplar.engine.scheduler import EngineDead, Ticket
from ruplar.serve.errors import Refusal


class ClientLeft(Exception):
    """Nobody is listening any more."""


@dataclass
class News:
    """What one sample has come to.

    Attributes:
        index: Which sample.
        row: What there is so far; see `engine.options.Request`.
        ms: Milliseconds since it was given a slot.
        final: It is answered.
    """

    index: int
    row: Generation
    ms: float
    final: bool = False


@dataclass
class Call:
    """The samples of one request, while they are under way. Used as an async context: leaving it cancels the rest.

    Attributes:
        seconds: The whole call may take so long.
        receive: ASGI's, to hear of a client that leaves.
    """

    seconds: float
    receive: Callable[[], Any]
    tickets: list[Ticket] = field(default_factory=list, init=False)
    _inbox: asyncio.Queue = field(default_factory=asyncio.Queue, init=False, repr=False)
    _over: set[int] = field(default_factory=set, init=False, repr=False)

    def __post_init__(self):
        self._loop = asyncio.get_running_loop()
        self._ends = self._loop.time() + self.seconds
        self._gone: asyncio.Task | None = None

    def listener(self, index: int) -> Callable[[Generation], None]:
        """What the engine's thread calls with the news of a sample."""
        return lambda row: self._put((index, row, time.perf_counter(), False))

    def add(self, ticket: Ticket) -> None:
        """One more sample."""
        index = len(self.tickets)
        self.tickets.append(ticket)
        ticket.future.add_done_callback(lambda future: self._put((index, future, time.perf_counter(), True)))

    def drop(self, index: int) -> None:
        """Give one sample up: its answer is complete (a stop text was found). Frees its slot."""
        self._over.add(index)
        self.tickets[index].cancel()

    def _put(self, item: tuple) -> None:
        try:
            self._loop.call_soon_threadsafe(self._inbox.put_nowait, item)
        except RuntimeError:  # the event loop has been closed: the server is gone, and so is the client
            return

    async def __aenter__(self) -> Call:
        self._gone = asyncio.create_task(self._wait_until_gone())
        return self

    def cancel(self) -> None:
        """Give up what is not answered yet. Frees its slots and its places in the queue."""
        for ticket in self.tickets:
            if not ticket.done():
                ticket.cancel()

    async def __aexit__(self, *_) -> None:
        self.cancel()
        if self._gone is not None:
            self._gone.cancel()

    async def _wait_until_gone(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass
        await self._inbox.put((0, ClientLeft(), 0.0, False))

    async def news(self) -> AsyncIterator[News]:
        """Everything told of the samples, until all are answered.

        Raises:
            ClientLeft: The client has gone.
            Refusal: It took too long (504), the engine failed (500) or died (503), or the server is shutting down (503).
        """
        while len(self._over) < len(self.tickets):
            try:
                async with asyncio.timeout_at(self._ends):
                    index, item, at, final = await self._inbox.get()
            except TimeoutError:
                raise Refusal(
                    504, f"There was no answer within {self.seconds:g} s. Try again later.", None, "timeout"
                ) from None
            if isinstance(item, ClientLeft):
                raise item
            if index in self._over:
                continue
            if final:
                self._over.add(index)
                item = _result(item)
            yield News(index, item, 1000 * (at - (self.tickets[index].started or at)), final)


def _result(future: Any) -> Generation:
    try:
        return future.result()
    except CancelledError:
        raise Refusal(503, "The server is shutting down. Try again later.", None, "shutting_down") from None
    except EngineDead:
        raise Refusal(
            503, "The engine has stopped working; the server must be restarted.", None, "engine_dead"
        ) from None
    except Exception as error:  # the engine logged it; a client needs no traceback
        raise Refusal(500, "The engine failed on this question. Try again.", None, "engine_failed") from error
