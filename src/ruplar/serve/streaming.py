"""Engine thread → event loop → client: updates of a running request, and server-sent events.

async with wanted.start(receive, listen) as running:
    async for update in running.updates(): …

A request that fails, times out or whose client disconnects frees its slots.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import StreamingResponse

from ruplar.engine.reference import Generation
from ruplar.engine.scheduler import EngineDead, Ticket
from ruplar.serve.errors import RequestError
from ruplar.serve.outputs import OutputDelta, SampleOutput

_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",  # or proxies would buffer the events
}
GRACE = 5.0
"""Seconds beyond the request's timeout after which a client that has stopped reading is dropped."""


class ClientDisconnected(ConnectionError):
    """The client has closed the connection."""


@dataclass
class SampleUpdate:
    """Progress of one sample of a request."""

    index: int
    sample: SampleOutput  # everything so far
    delta: OutputDelta  # what is new
    ms: float  # milliseconds since the sample was given a slot


@dataclass
class RunningRequest:
    """The samples of one request while they are generated; leaving the async context cancels the unfinished ones."""

    seconds: float  # timeout of the request
    receive: Callable[[], Any]  # ASGI's receive function, to notice a client that disconnects
    tickets: list[Ticket] = field(default_factory=list, init=False)
    samples: list[SampleOutput] = field(default_factory=list, init=False)  # the output of each ticket
    _inbox: asyncio.Queue = field(default_factory=asyncio.Queue, init=False, repr=False)
    _finished: set[int] = field(default_factory=set, init=False, repr=False)

    def __post_init__(self):
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + self.seconds
        self._watcher: asyncio.Task | None = None

    def listener(self, index: int) -> Callable[[Generation], None]:
        """Return the function that the engine thread calls with the progress of a sample."""
        return lambda row: self._put((index, row, time.perf_counter(), False))

    def add(self, ticket: Ticket) -> None:
        index = len(self.tickets)
        self.tickets.append(ticket)
        ticket.future.add_done_callback(lambda future: self._put((index, future, time.perf_counter(), True)))

    def _put(self, item: tuple) -> None:
        try:
            self._loop.call_soon_threadsafe(self._inbox.put_nowait, item)
        except RuntimeError:  # the event loop is closed: the server and the client are gone
            return

    async def __aenter__(self) -> RunningRequest:
        self._watcher = asyncio.create_task(self._watch_client())
        return self

    def cancel(self) -> None:
        """Cancel the unfinished samples; frees their slots and queue places."""
        for ticket in self.tickets:
            if not ticket.done():
                ticket.cancel()

    async def __aexit__(self, *_) -> None:
        self.cancel()
        if self._watcher is not None:
            self._watcher.cancel()

    async def _watch_client(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass
        await self._inbox.put((0, ClientDisconnected(), 0.0, False))

    async def updates(self) -> AsyncIterator[SampleUpdate]:
        """Yield updates until all samples are finished; raise if it takes too long, the engine fails or the client leaves."""
        while len(self._finished) < len(self.tickets):
            try:
                async with asyncio.timeout_at(self._deadline):
                    index, item, at, final = await self._inbox.get()
            except TimeoutError:
                raise RequestError(504, "timeout", f"No answer within {self.seconds:g} s. Try again later.") from None
            if isinstance(item, ClientDisconnected):
                raise item
            if index in self._finished:
                continue
            ticket, sample = self.tickets[index], self.samples[index]
            delta = sample.update(_result(item) if final else item, final)
            if delta.finish:
                self._finished.add(index)
                ticket.cancel()  # after a stop string its slot is still in use
            yield SampleUpdate(index, sample, delta, 1000 * (at - (ticket.started or at)))


def _result(future: Any) -> Generation:
    try:
        return future.result()
    except CancelledError:
        raise RequestError(503, "shutting_down", "The server is shutting down. Try again later.") from None
    except EngineDead:
        raise engine_dead() from None
    except Exception as error:  # the engine has logged it; clients get no traceback
        raise RequestError(500, "engine_failed", "The engine failed on this question. Try again.") from error


def engine_dead() -> RequestError:
    return RequestError(503, "engine_dead", "The engine has stopped working; the server must be restarted.")


def sse(data: Any, name: str = "") -> bytes:
    """Encode one server-sent event; `data` is written as JSON unless it is a string."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode("utf-8", "replace")


class EventStream(StreamingResponse):
    """A response that sends events as they are produced; the source notices by itself that the client disconnects."""

    def __init__(self, source: AsyncGenerator[bytes, None], seconds: float, headers: Mapping[str, str] | None = None):
        super().__init__(source, headers={**_HEADERS, **(headers or {})})
        self.source, self.seconds = source, seconds

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            async with asyncio.timeout(self.seconds + GRACE):
                await self.stream_response(send)
        except (TimeoutError, OSError):  # the client has stopped reading or has disconnected
            return
        finally:
            await self.source.aclose()
