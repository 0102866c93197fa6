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

_LONG = 5.0
"""Pauses from this many seconds are logged as warnings."""


@dataclass(frozen=True)
class Endpoint:
    """An endpoint and its retry policy.

    Attributes:
        url: Up to `/v1`, or the whole address of `chat/completions`.
        model: Name of the model.
        key: Sent as a bearer token; "" if none is needed.
        timeout: Maximum seconds for a whole reply.
        retries: Retries after a transient failure.
        backoff: Seconds before the first retry; doubled each time, minus a random part, up to `longest_wait`.
        longest_wait: Maximum seconds between two requests, unless Retry-After is longer.
        longest_retry_after: Maximum seconds of a Retry-After; a longer one stops the run.
        max_tokens: Maximum tokens of a reply; 0 for the endpoint's default.
        temperature: Sampling temperature.
        trust_env: Use the proxies of the environment.
    """

    url: str
    model: str
    key: str = field(default="", repr=False)
    timeout: float = 60.0
    retries: int = 6
    backoff: float = 1.0
    longest_wait: float = 60.0
    longest_retry_after: float = 300.0
    max_tokens: int = 1024
    temperature: float = 0.0
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
    """Every request failed, the last one without a reply; the message says how."""


class Unusable(Exception):
    """Every request failed, the last one with a reply that is not a chat completion: `text` is its content."""

    def __init__(self, what: str, text: str):
        super().__init__(what)
        self.text = text


class _Transient(Exception):
    """A transient failure, with the seconds of its Retry-After."""

    def __init__(self, what: str, wait: float = 0.0):
        super().__init__(what)
        self.wait = wait


class Chat:
    """An open connection pool to one endpoint: `async with Chat(endpoint, rng) as chat: await chat.ask(messages)`.

    Args:
        endpoint: The endpoint.
        rng: Random generator of the jitter.
        connections: Maximum number of connections.
        on_wait: Called before every wait with its seconds and its cause.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        rng: Random,
        connections: int = 8,
        on_wait: Callable[[float, str], None] | None = None,
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

    async def ask(self, messages: Sequence[Message], on_unusable: Callable[[Reply], None] | None = None) -> Reply:
        """Return a chat completion.

        Args:
            messages: The messages.
            on_unusable: Called with every reply that is not a chat completion; it still costs tokens.

        Raises:
            Refused: The endpoint rejects the request.
            Unusable: All requests failed, the last one with a reply that cannot be used.
            NoReply: All requests failed, the last one without a reply.
            UserError: Retry-After is longer than `longest_retry_after`.
        """
        for attempt in range(self.endpoint.retries + 1):
            await self._hold()
            what, retry_after, reply = "", 0.0, None
            try:
                reply = await self._once(messages)
                if not reply.fault:
                    return reply
                what = f"the reply is not a chat completion ({reply.fault})"
                if on_unusable:
                    on_unusable(reply)
            except _Transient as failure:
                what, retry_after = str(failure), failure.wait
            if attempt < self.endpoint.retries:
                wait = self._wait(attempt, retry_after)
                log.info("%s; retrying in %.1f s", what, wait)
                if self.on_wait:
                    self.on_wait(wait, what)
                await asyncio.sleep(wait)
        message = f"{self.endpoint.retries + 1} requests failed; the last one: {what}"
        raise Unusable(message, reply.text) if reply else NoReply(message)

    def _wait(self, attempt: int, retry_after: float) -> float:
        """Return the exponential back-off, its upper half random so that workers spread out; at least the Retry-After."""
        longest = min(self.endpoint.longest_wait, self.endpoint.backoff * 2**attempt)
        if retry_after:
            # all workers wait, and only one of them logs it
            until = time.monotonic() + retry_after
            if retry_after >= _LONG and until > self._not_before + _LONG:
                log.warning(
                    "%s asks for a pause (Retry-After); resuming in %s.", self.endpoint.address, _span(retry_after)
                )
            self._not_before = max(self._not_before, until)
        return max(retry_after, longest * (0.5 + 0.5 * self.rng.random()))

    async def _hold(self) -> None:
        while (left := self._not_before - time.monotonic()) > 0:
            await asyncio.sleep(left)

    async def _once(self, messages: Sequence[Message]) -> Reply:
        httpx = _httpx()
        body: dict[str, Any] = {"model": self.endpoint.model, "messages": list(messages)}
        body["temperature"] = self.endpoint.temperature
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
            return Reply("", fault=f"{type(error).__name__}: {error}")
        except httpx.TransportError as error:
            raise _Transient(f"{type(error).__name__}: {error or 'the connection broke'}") from None
        what = f"HTTP {answer.status_code}: {error_message(answer.text)}"
        if answer.status_code in _TRANSIENT or answer.status_code >= 500:
            raise _Transient(what, self._checked_retry_after(what, answer.headers.get("Retry-After")))
        if answer.status_code != 200:
            raise Refused(answer.status_code, error_message(answer.text))
        return read_reply(answer.text)

    def _checked_retry_after(self, what: str, header: str | None) -> float:
        """Return the seconds of a Retry-After header, 0 without one."""
        wait = _retry_after(header)
        if wait > self.endpoint.longest_retry_after:
            raise UserError(
                f"{self.endpoint.address} asks to wait {_span(wait)} (Retry-After: {error_message(header or '')}; {what}), "
                f"more than the limit of {_span(self.endpoint.longest_retry_after)}. Finished rows are stored: run the same command "
                "again later."
            )
        return wait


def _retry_after(text: str | None) -> float:
    """Retry-After header (seconds or an HTTP date) → seconds; 0 if it is missing, unreadable or in the past."""
    if not text:
        return 0.0
    try:
        wait = float(text)
    except ValueError:
        try:
            wait = email.utils.parsedate_to_datetime(text).timestamp() - time.time()
        except (TypeError, ValueError, OverflowError, OSError):
            return 0.0
    return wait if math.isfinite(wait) and wait > 0 else 0.0


def _span(seconds: float) -> str:
    """`45 s`, `5 min`, `27.8 hours`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:,.1f} hours" if seconds < 1e8 else "for years"


def _httpx() -> Any:
    try:
        return importlib.import_module("httpx")
    except ImportError as error:
        raise UserError(f"--by llm needs the package httpx. {install_extra('convert')}") from error
