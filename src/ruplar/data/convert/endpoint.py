"""Messages → reply of an OpenAI-compatible chat endpoint, with time-outs, retries with back-off and jitter, and Retry-After.

The environment (proxies) is used only with `trust_env`, which the command line sets.
"""

from __future__ import annotations

import asyncio
import email.utils
import importlib
import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from ruplar.data.convert.messages import Message, Reply, error_message, read_reply
from ruplar.errors import UserError, install_extra

log = logging.getLogger(__name__)

_TRANSIENT = {408, 409, 425, 429}
"""Client errors that are retried, like every 5xx."""


@dataclass(frozen=True)
class Endpoint:
    """An endpoint and its retry policy."""

    url: str  # up to `/v1`, or the whole address of `chat/completions`
    model: str
    key: str = field(default="", repr=False)
    timeout: float = 60.0
    retries: int = 6
    # seconds before the first retry; doubled each time, minus a random part, up to `longest_wait`
    backoff: float = 1.0
    longest_wait: float = 60.0
    longest_retry_after: float = 300.0  # maximum seconds of a Retry-After; a longer one stops the run
    max_tokens: int = 1024  # maximum tokens of a reply; 0 for the endpoint's default
    trust_env: bool = False

    @property
    def address(self) -> str:
        """The address of requests."""
        url = self.url.rstrip("/")
        return url if url.endswith("/chat/completions") else f"{url}/chat/completions"


class Refused(Exception):
    """The endpoint rejects this request, and a retry would not help: `status` and its message."""

    def __init__(self, status: int, message: str):
        super().__init__(f"HTTP {status}: {message}")
        self.status = status


class NoReply(Exception):
    """Every request failed; `reply` is that of the last one, if it had any."""

    def __init__(self, what: str, reply: Reply):
        super().__init__(what)
        self.reply = reply


class _Transient(Exception):
    """A transient failure, with the seconds of its Retry-After."""

    def __init__(self, what: str, wait: float = 0.0):
        super().__init__(what)
        self.wait = wait


class Chat:
    """An open connection pool to one endpoint: `async with Chat(endpoint, rng) as chat: await chat.ask(messages)`.

    `rng` draws the jitter; `on_wait` is called before every wait with its seconds and its cause.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        rng: Random,
        connections: int = 8,
        on_wait: Callable[[float, str], None] = lambda seconds, why: None,
    ):
        self.endpoint, self.rng, self.connections, self.on_wait = endpoint, rng, connections, on_wait
        self._not_before = 0.0
        self._client: Any = None

    async def __aenter__(self) -> Chat:
        httpx = _httpx()
        key = self.endpoint.key
        try:
            self._client = httpx.AsyncClient(
                headers={"Authorization": f"Bearer {key}"} if key else {},
                timeout=httpx.Timeout(self.endpoint.timeout, connect=min(15.0, self.endpoint.timeout)),
                limits=httpx.Limits(max_connections=self.connections, max_keepalive_connections=self.connections),
                trust_env=self.endpoint.trust_env,
            )
            httpx.URL(self.endpoint.address)
        except (httpx.InvalidURL, UnicodeEncodeError) as error:
            raise UserError(f"--endpoint or --api-key: cannot be used ({error}).") from None
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._client.aclose()

    async def ask(self, messages: Sequence[Message]) -> Reply:
        """Return a chat completion.

        Raises:
            Refused: The endpoint rejects the request.
            NoReply: All requests failed.
            UserError: Retry-After is longer than `longest_retry_after`.
        """
        for attempt in range(self.endpoint.retries + 1):
            while (left := self._not_before - time.monotonic()) > 0:
                await asyncio.sleep(left)
            retry_after, reply = 0.0, Reply("")
            try:
                reply = await self._once(messages)
                if not reply.fault:
                    return reply
                what = f"the reply is not a chat completion ({reply.fault})"
            except _Transient as failure:
                what, retry_after = str(failure), failure.wait
            if attempt < self.endpoint.retries:
                wait = self._wait(attempt, retry_after)
                log.info("%s; retrying in %.1f s", what, wait)
                self.on_wait(wait, what)
                await asyncio.sleep(wait)
        raise NoReply(f"{self.endpoint.retries + 1} requests failed; the last one: {what}", reply)

    def _wait(self, attempt: int, retry_after: float) -> float:
        """Return the exponential back-off, its upper half random so that workers spread out; at least the Retry-After."""
        longest = min(self.endpoint.longest_wait, self.endpoint.backoff * 2**attempt)
        if retry_after:  # all workers wait
            self._not_before = max(self._not_before, time.monotonic() + retry_after)
        return max(retry_after, longest * (0.5 + 0.5 * self.rng.random()))

    async def _once(self, messages: Sequence[Message]) -> Reply:
        httpx = _httpx()
        body: dict[str, Any] = {"model": self.endpoint.model, "messages": list(messages), "temperature": 0.0}
        if self.endpoint.max_tokens:
            body["max_tokens"] = self.endpoint.max_tokens
        try:
            # the time-out of the client is per chunk of a reply; this one is for all of it
            async with asyncio.timeout(self.endpoint.timeout):
                answer = await self._client.post(self.endpoint.address, json=body)
        except (TimeoutError, httpx.TimeoutException):
            raise _Transient(f"no reply within {self.endpoint.timeout:g} s") from None
        except httpx.UnsupportedProtocol as error:
            raise UserError(f"--endpoint: '{self.endpoint.url}' is not an address: {error}") from None
        except httpx.DecodingError as error:  # a reply that cannot be decompressed
            return Reply("", f"{type(error).__name__}: {error}")
        except httpx.TransportError as error:
            raise _Transient(f"{type(error).__name__}: {error or 'the connection broke'}") from None
        said = error_message(answer.text)
        if answer.status_code in _TRANSIENT or answer.status_code >= 500:
            wait = retry_after(answer.headers.get("Retry-After", ""))
            if wait > self.endpoint.longest_retry_after:
                raise UserError(
                    f"{self.endpoint.address} asks to wait {wait:,.0f} s (Retry-After; HTTP {answer.status_code}: {said}), more "
                    f"than the limit of {self.endpoint.longest_retry_after:g} s. Finished rows are stored: run the same command "
                    "again later."
                )
            raise _Transient(f"HTTP {answer.status_code}: {said}", wait)
        if answer.status_code != 200:
            raise Refused(answer.status_code, said)
        return read_reply(answer.text)


def retry_after(text: str) -> float:
    """Retry-After header (seconds or an HTTP date) → seconds; 0 if it is missing, unreadable or in the past."""
    try:
        wait = float(text)
    except ValueError:
        try:
            wait = email.utils.parsedate_to_datetime(text).timestamp() - time.time()
        except (TypeError, ValueError, OverflowError, OSError):
            return 0.0
    return wait if math.isfinite(wait) and wait > 0 else 0.0


def _httpx() -> Any:
    try:
        return importlib.import_module("httpx")
    except ImportError as error:
        raise UserError(f"--by llm needs the package httpx. {install_extra('convert')}") from error
