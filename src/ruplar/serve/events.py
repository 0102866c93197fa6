"""An async stream of texts → server-sent events, ending with the client: what it leaves behind is cancelled."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import Response

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),  # proxies would hold the pieces back
]
GRACE = 5.0
"""Seconds a client that has stopped reading is waited for beyond the request's own time."""


def event(data: Any, name: str = "") -> bytes:
    """One event; `data` is written as JSON unless it is a text."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode("utf-8", "replace")


class Events(Response):
    """A response that sends events as they come.

    Args:
        source: Gives whole events; is closed when the client leaves.
        seconds: The whole may take so long.
    """

    def __init__(self, source: AsyncIterator[bytes], seconds: float):
        self.source, self.seconds = source, seconds
        self.status_code, self.background = 200, None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send them."""
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        try:
            async with asyncio.timeout(self.seconds + GRACE):
                async for part in self.source:
                    await send({"type": "http.response.body", "body": part, "more_body": True})
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except (TimeoutError, OSError):  # it has stopped reading, or has gone
            return
        finally:
            close = getattr(self.source, "aclose", None)
            if close is not None:
                await close()
