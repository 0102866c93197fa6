"""A connection → the application, once its key, size and type are in order: nothing is parsed before that.

The whole body is read here, up to the limit, so that no route can be made to hold more. `/health` alone is open when a
key is set. A browser may give the key as the password of HTTP Basic, which it asks for by itself.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from ruplar.serve.errors import Refusal
from ruplar.serve.metrics import Metrics

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

OPEN = ("/health",)
_ASK = 'Basic realm="ruplar, any user name, the key as password"'  # Bearer beside it, and Chromium asks for neither


@dataclass
class AuthMiddleware:
    """ASGI middleware; see the module's docstring.

    Attributes:
        app: What comes behind.
        metrics: Hears of every request.
        max_body: Bytes.
        seconds: A body must have arrived after so long.
        key: None: no key is asked for.
    """

    app: Any
    metrics: Metrics
    max_body: int
    seconds: float
    key: str | None = None

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """One connection."""
        if scope["type"] == "websocket":  # there is no such route, and none may be found without a key
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.perf_counter(), 499  # what proxies call a client that left before it was answered

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._pass(scope, receive, noting)
        finally:
            self.metrics.request(scope["path"], status, time.perf_counter() - start)

    async def _pass(self, scope: Message, receive: Receive, send: Send) -> None:
        headers = {k.lower(): v for k, v in scope["headers"]}
        try:
            self._check_key(scope["path"], headers)
            body = await self._body(scope["method"], headers, receive)
        except Refusal as refusal:
            refusal.headers.setdefault("connection", "close")  # a body may still be on its way
            await refusal.response()(scope, receive, send)
            return
        if body is None:
            return  # the client left
        first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return first.pop() if first else await receive()

        await self.app(scope, replay, send)

    def _check_key(self, path: str, headers: dict[bytes, bytes]) -> None:
        if self.key is None or path in OPEN:
            return
        given = _credential(headers.get(b"authorization", b""))
        # of equal length whatever was given, and compared in constant time
        if not hmac.compare_digest(_digest(given or b""), _digest(self.key.encode())) or given is None:
            said = "Incorrect API key provided." if given else "No API key provided."
            way = " Send it as 'Authorization: Bearer KEY'."
            raise Refusal(401, said + way, None, "invalid_api_key", {"www-authenticate": _ASK})

    async def _body(self, method: str, headers: dict[bytes, bytes], receive: Receive) -> bytes | None:
        """The body, b"" where none is read; None when the client left."""
        if method in ("GET", "HEAD", "OPTIONS"):
            return b""
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and len(length) < 20 and int(length) <= self.max_body:
            kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
            if method == "POST" and kind != b"application/json":
                raise Refusal(415, "Send 'Content-Type: application/json'.", None, "unsupported_media_type")
            try:
                async with asyncio.timeout(self.seconds):
                    return await self._read(receive)
            except TimeoutError:
                raise Refusal(408, f"The body did not arrive within {self.seconds:g} s.", None, "slow_body") from None
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

    def _too_large(self) -> Refusal:
        return Refusal(413, f"The body is larger than the {self.max_body:,} bytes allowed.", None, "body_too_large")


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()


def _credential(header: bytes) -> bytes | None:
    """The key in an Authorization header: after `Bearer`, or the password of `Basic`; None when there is none."""
    scheme, _, rest = header.partition(b" ")
    if scheme.lower() == b"bearer":
        return rest.strip()
    if scheme.lower() == b"basic":
        try:
            return base64.b64decode(rest.strip(), validate=True).partition(b":")[2]
        except (binascii.Error, ValueError):
            return None
    return None
