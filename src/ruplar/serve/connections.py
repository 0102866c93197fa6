"""A TCP connection → requests: limits on headers, time and connections, enforced before the key is checked.

uvicorn's h11 protocol limits the size of a header and the time of an idle connection. Three additions: a header must arrive in
time, connections are counted (in total and per client address), and a shutdown answers pending requests.
"""

import asyncio
import contextlib
import logging
import socket
from typing import Any

import h11
from uvicorn import Server
from uvicorn.protocols.http.flow_control import CLOSE_HEADER
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from ruplar.serve.errors import RequestError
from ruplar.serve.schemas import Limits

log = logging.getLogger(__name__)
MAX_HEADER_BYTES = 32_768
HEADER_SECONDS = 10.0
DRAIN_SECONDS = 1.0
"""Seconds an idle connection stays open at shutdown, to answer a request already in flight."""
_RESERVED_FILES = 100  # descriptors for weights, pages and the event loop


def protocol_of(limits: Limits) -> type[H11Protocol]:
    """Return the protocol class with these limits; the limit on open files caps its connections."""
    most, per_client = limits.max_connections, limits.max_client_connections
    try:
        import resource

        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if files != resource.RLIM_INFINITY and files - _RESERVED_FILES < most:
            most = max(8, files - _RESERVED_FILES)
            per_client = min(per_client, most * 3 // 4)
            raised = limits.max_connections > Limits().max_connections
            level = logging.WARNING if raised else logging.INFO
            log.log(level, "at most %d connections: only %d files may be open. See `ulimit -n`.", most, files)
    except ImportError:  # Windows has no such limit
        pass
    return type("Protocol", (BoundedProtocol,), {"max_connections": most, "max_client_connections": per_client})


class DrainingServer(Server):
    """uvicorn's server, without losing requests at shutdown."""

    async def shutdown(self, sockets: Any = None) -> None:
        """Accept pending connections before the port closes."""
        loop, waiting = asyncio.get_running_loop(), []
        opened = [found for server in self.servers for found in server.sockets]
        listeners = [socket.fromfd(found.fileno(), found.family, found.type) for found in opened]
        for server in self.servers:
            server.close()
        for listener in listeners:
            listener.setblocking(False)
            with listener, contextlib.suppress(BlockingIOError):
                while True:
                    waiting.append(listener.accept()[0])
        for found in waiting:
            await loop.connect_accepted_socket(self._protocol, found)
        await super().shutdown(sockets)

    def _protocol(self) -> asyncio.Protocol:
        return self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )


class BoundedProtocol(H11Protocol):
    """One connection."""

    max_connections: int
    max_client_connections: int
    _header_timer: asyncio.TimerHandle | None = None

    @property
    def address(self) -> str:
        return self.client[0] if self.client else ""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._header_timer = self.loop.call_later(HEADER_SECONDS, self._header_is_late)
        same = [c for c in self.connections if isinstance(c, BoundedProtocol) and c.address == self.address]
        if len(self.connections) <= self.max_connections and len(same) <= self.max_client_connections:
            return
        # a new connection replaces one from the same address that has sent no request
        silent = [(c._header_timer.when(), c) for c in same if c is not self and not c.cycle and c._header_timer]
        if silent:
            min(silent, key=lambda pair: pair[0])[1].close()
        else:
            error = RequestError(429, "too_many_connections", "Too many open connections. Try again later.")
            error.headers["retry-after"] = "1"
            self._refuse(error)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        waiting = self.conn.their_state is h11.IDLE and not self.transport.is_closing()
        if not waiting:
            self._stop_header_timer()
        elif self._header_timer is None:
            self._header_timer = self.loop.call_later(HEADER_SECONDS, self._header_is_late)

    def send_400_response(self, msg: str) -> None:
        """Answer a request that cannot be parsed; uvicorn calls it."""
        error = RequestError(400, "invalid_request", msg)
        if len(self.conn.trailing_data[0]) > MAX_HEADER_BYTES:
            error = RequestError(431, "header_too_large", f"The header is larger than {MAX_HEADER_BYTES:,} bytes.")
        self._refuse(error)

    def on_response_complete(self) -> None:
        unread = self.cycle.more_body  # the route read no body; a client could send one forever
        super().on_response_complete()
        if unread:
            self.close()
        elif CLOSE_HEADER in self.server_state.default_headers:
            # a stream that began before the shutdown has no `connection: close` header
            self.loop.call_later(DRAIN_SECONDS, self._close_idle)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_header_timer()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        state = self.server_state
        if CLOSE_HEADER not in state.default_headers:  # every response from now on has this header
            state.default_headers = [*state.default_headers, CLOSE_HEADER]
        if self.cycle is None or self.cycle.response_complete:
            self.loop.call_later(DRAIN_SECONDS, self._close_idle)
        else:
            self.cycle.default_headers = state.default_headers

    def close(self) -> None:
        self._stop_header_timer()
        self.transport.close()

    def _close_idle(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.close()

    def _header_is_late(self) -> None:
        text = f"The request's header did not arrive within {HEADER_SECONDS:g} s."
        self._refuse(RequestError(408, "slow_header", text))

    def _stop_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _refuse(self, error: RequestError) -> None:
        """Send an error and close, without reading on."""
        if not self.transport.is_closing():
            response = error.response()
            lines = [b"HTTP/1.1 %d %s" % (error.status, STATUS_PHRASES[error.status]), b"connection: close"]
            lines += [name + b": " + value for name, value in response.raw_headers]
            self.transport.write(b"\r\n".join(lines) + b"\r\n\r\n" + bytes(response.body))
        self.close()
