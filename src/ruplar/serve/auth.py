"""ASGI middleware: checks host name, API key, body size and content type before anything is parsed.

The body is read here, up to the limit, so that no route can be made to hold more. Only `/health` needs no key. A browser
can send the key as the password of HTTP Basic, for which it shows its own prompt.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import ipaddress
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from ruplar.serve.errors import RequestError
from ruplar.serve.metrics import Metrics

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

PUBLIC = ("/health",)
LOCAL = ("127.0.0.1", "localhost", "::1")
MAX_HEADER_LINES = 100
_CHALLENGE = 'Basic realm="ruplar, any user name, the key as password"'  # with Bearer as a second scheme, Chromium shows no prompt


@dataclass
class AuthMiddleware:
    """ASGI middleware; see the module's docstring."""

    app: Any
    metrics: Metrics  # counts every request
    max_body: int  # maximum bytes of a body
    seconds: float  # timeout for receiving a body
    key: str | None = None  # the API key; None: no key is required
    hosts: HostNames | None = None  # names by which the server may be addressed; None: any

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.perf_counter(), 499  # the usual status for a client that disconnects early

        async def recording(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._pass(scope, receive, recording)
        finally:
            self.metrics.request(scope["path"], status, time.perf_counter() - start)

    async def _pass(self, scope: Message, receive: Receive, send: Send) -> None:
        headers = {k.lower(): v for k, v in scope["headers"]}
        try:
            if len(scope["headers"]) > MAX_HEADER_LINES:
                raise RequestError(431, "header_too_large", f"The header has more than {MAX_HEADER_LINES} lines.")
            if self.hosts is not None:
                self.hosts.check(headers.get(b"host", b""))
            self._check_key(scope["path"], headers)
            body = await self._body(scope["method"], headers, receive)
        except RequestError as error:
            error.headers.setdefault("connection", "close")  # the rest of the body is not read
            await error.response()(scope, receive, send)
            return
        if body is None:
            return  # the client has disconnected
        first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return first.pop() if first else await receive()

        await self.app(scope, replay, send)

    def _check_key(self, path: str, headers: dict[bytes, bytes]) -> None:
        if self.key is None or path in PUBLIC:
            return
        given = _credential(headers.get(b"authorization", b""))
        # digests have equal length and are compared in constant time
        if not hmac.compare_digest(_digest(given or b""), _digest(self.key.encode())) or given is None:
            problem = "Incorrect API key provided." if given else "No API key provided."
            fix = " Send it as 'Authorization: Bearer KEY'."
            raise RequestError(401, "invalid_api_key", problem + fix, headers={"www-authenticate": _CHALLENGE})

    async def _body(self, method: str, headers: dict[bytes, bytes], receive: Receive) -> bytes | None:
        """Return the body, b"" for methods without one; None when the client has disconnected."""
        if method in ("GET", "HEAD", "OPTIONS"):
            return b""
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and len(length) < 20 and int(length) <= self.max_body:
            kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
            if method == "POST" and kind != b"application/json":
                raise RequestError(415, "unsupported_media_type", "Send 'Content-Type: application/json'.")
            try:
                async with asyncio.timeout(self.seconds):
                    return await self._read(receive)
            except TimeoutError:
                raise RequestError(408, "slow_body", f"The body did not arrive within {self.seconds:g} s.") from None
        raise self._too_large()

    async def _read(self, receive: Receive) -> bytes | None:
        parts, size = [], 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            part = message.get("body", b"")
            size += len(part)
            if size > self.max_body:
                raise self._too_large()
            parts.append(part)
            if not message.get("more_body", False):
                return b"".join(parts)

    def _too_large(self) -> RequestError:
        return RequestError(413, "body_too_large", f"The body is larger than the {self.max_body:,} bytes allowed.")


@dataclass
class HostNames:
    """The names in a Host header that are accepted.

    Without a key, any other name is refused: a web page can let its own name point to 127.0.0.1 (DNS rebinding).
    """

    names: frozenset[str]
    any_address: bool = False  # accept every IP address, for a server that listens on all of them

    @classmethod
    def of(cls, host: str, allowed: Sequence[str]) -> HostNames:
        names = {_host_name(name) for name in (*LOCAL, host, *allowed)}
        return cls(frozenset(names), host in ("0.0.0.0", "::", ""))

    def check(self, header: bytes) -> None:
        name = _host_name(header.decode("latin-1"))
        if name in self.names or "*" in self.names or (self.any_address and _is_address(name)):
            return
        shown = name[:100].encode("ascii", "replace").decode()
        text = f"The server does not know itself as '{shown}'. Start it with --allowed-hosts {shown}, or with a key."
        raise RequestError(421, "unknown_host", text)


def _host_name(header: str) -> str:
    """Return a Host header without port and brackets."""
    name = header.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name if name.count(":") > 1 else name.partition(":")[0]


def _is_address(name: str) -> bool:
    try:
        return bool(ipaddress.ip_address(name))
    except ValueError:
        return False


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()


def _credential(header: bytes) -> bytes | None:
    """Return the key in an Authorization header (`Bearer KEY`, or the password of `Basic`), or None."""
    scheme, _, rest = header.partition(b" ")
    if scheme.lower() == b"bearer":
        return rest.strip()
    if scheme.lower() == b"basic":
        try:
            return base64.b64decode(rest.strip(), validate=True).partition(b":")[2]
        except (binascii.Error, ValueError):
            return None
    return None
