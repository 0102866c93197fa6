"""Messages → reply of any OpenAI-compatible chat endpoint: time-outs, retries with back-off and jitter, Retry-After honoured.

Nothing is read from the environment unless `trust_env` is set (proxies), which the command line does.
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

from ruplar.data.convert.reply import Reply, read_reply, said
from ruplar.errors import UserError, install_extra

log = logging.getLogger(__name__)

Message = dict[str, str]

_AGAIN = {408, 409, 425, 429}
"""Client errors that pass by themselves; with every 5xx they are tried again."""

_LONG = 5.0
"""Seconds of a pause from which on it is told without being asked."""


@dataclass(frozen=True)
class Endpoint:
    """Where to ask, and with how much patience.

    Attributes:
        url: Up to `/v1`, or the whole address of `chat/completions`.
        model: The model's name there.
        key: Sent as a bearer token; "" where none is needed.
        timeout: Seconds a reply may take, all of it.
        retries: Times a request is sent again after it failed in a way that may pass.
        backoff: Seconds before the first retry; doubled each time, less a random part, up to `longest_wait`.
        longest_wait: Most seconds between two tries, but for a longer Retry-After.
        longest_asked: Most seconds a Retry-After may ask for; one that asks for more stops the run.
        max_tokens: Most tokens of a reply; 0 leaves it to the endpoint.
        temperature: Of sampling.
        trust_env: Use the proxies that the environment names.
    """

    url: str
    model: str
    key: str = field(default="", repr=False)
    timeout: float = 60.0
    retries: int = 6
    backoff: float = 1.0
    longest_wait: float = 60.0
    longest_asked: float = 300.0
    max_tokens: int = 1024
    temperature: float = 0.0
    trust_env: bool = False

    @property
    def address(self) -> str:
        """Where requests go."""
        url = self.url.rstrip("/")
        return url if url.endswith("/chat/completions") else f"{url}/chat/completions"


class Refused(Exception):
    """The endpoint will not answer this request, however often it is asked: `status` and what it said."""

    def __init__(self, status: int, said: str):
        super().__init__(f"HTTP {status}: {said}")
        self.status = status


class NoReply(Exception):
    """Every try failed in a way that may pass; the message says how the last one did."""


class Unusable(Exception):
    """Every try failed, the last one with a reply that is no chat completion: `text` is what it holds."""

    def __init__(self, what: str, text: str):
        super().__init__(what)
        self.text = text


class _Passing(Exception):
    """A failure that may pass, with the seconds the endpoint asks to wait."""

    def __init__(self, what: str, wait: float = 0.0):
        super().__init__(what)
        self.wait = wait


class Chat:
    """An open connection pool to one endpoint: `async with Chat(endpoint, rng) as chat: await chat.ask(messages)`.

    Args:
        endpoint: Where to ask.
        rng: Of the jitter.
        connections: Open at once.
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
        """One reply that is a chat completion.

        Args:
            messages: What is asked.
            on_unusable: Called with every reply that is none, as it comes: it was paid for too.

        Raises:
            Refused: The endpoint says no for good.
            Unusable: All tries failed, the last one with a reply that cannot be used.
            NoReply: All tries failed, the last one without a reply.
            UserError: The endpoint asks for a longer pause than `longest_asked`.
        """
        for attempt in range(self.endpoint.retries + 1):
            await self._hold()
            what, asked, reply = "", 0.0, None
            try:
                reply = await self._once(messages)
                if not reply.fault:
                    return reply
                what = f"the reply is no chat completion ({reply.fault})"
                if on_unusable:
                    on_unusable(reply)
            except _Passing as failure:
                what, asked = str(failure), failure.wait
            if attempt < self.endpoint.retries:
                wait = self._wait(attempt, asked)
                log.info("%s; trying again in %.1f s", what, wait)
                if self.on_wait:
                    self.on_wait(wait, what)
                await asyncio.sleep(wait)
        told = f"{self.endpoint.retries + 1} tries failed, the last one so: {what}"
        raise Unusable(told, reply.text) if reply else NoReply(told)

    def _wait(self, attempt: int, asked: float) -> float:
        """Exponential, with the upper half at random so that many do not come back together; never less than asked for."""
        longest = min(self.endpoint.longest_wait, self.endpoint.backoff * 2**attempt)
        if asked:
            # everybody waits, not only the one who was told; and of many who are told at once one says so
            until = time.monotonic() + asked
            if asked >= _LONG and until > self._not_before + _LONG:
                log.warning("%s asks for a pause (Retry-After); going on in %s.", self.endpoint.address, _span(asked))
            self._not_before = max(self._not_before, until)
        return max(asked, longest * (0.5 + 0.5 * self.rng.random()))

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
            # the client's own time-out is for each piece of a reply; this one is for all of it
            async with asyncio.timeout(self.endpoint.timeout):
                answer = await self._client.post(self.endpoint.address, json=body)
        except (TimeoutError, httpx.TimeoutException):
            raise _Passing(f"no reply within {self.endpoint.timeout:g} s") from None
        except httpx.UnsupportedProtocol as error:
            raise UserError(f"--endpoint: '{self.endpoint.url}' is no address: {error}") from None
        except httpx.DecodingError as error:  # a reply all the same, packed in a way that cannot be undone
            return Reply("", fault=f"{type(error).__name__}: {error}")
        except httpx.TransportError as error:
            raise _Passing(f"{type(error).__name__}: {error or 'the connection broke'}") from None
        what = f"HTTP {answer.status_code}: {said(answer.text)}"
        if answer.status_code in _AGAIN or answer.status_code >= 500:
            raise _Passing(what, self._asked(what, answer.headers.get("Retry-After")))
        if answer.status_code != 200:
            raise Refused(answer.status_code, said(answer.text))
        return read_reply(answer.text)

    def _asked(self, what: str, header: str | None) -> float:
        """Seconds the endpoint asks to wait, 0 where it does not say."""
        wait = _retry_after(header)
        if wait > self.endpoint.longest_asked:
            raise UserError(
                f"{self.endpoint.address} asks to wait {_span(wait)} (Retry-After: {said(header or '')}; {what}); "
                f"{_span(self.endpoint.longest_asked)} is the most that is waited. What is done is kept: run the same command "
                "again then."
            )
        return wait


def _retry_after(text: str | None) -> float:
    """Seconds, or an HTTP date, from a Retry-After header; 0 when there is none that can be read and lies ahead."""
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
