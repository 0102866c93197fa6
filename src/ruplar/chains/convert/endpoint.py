"""Messages → reply of any OpenAI-compatible chat endpoint: time-outs, retries with back-off and jitter, Retry-After honoured.

Nothing is read from the environment unless `trust_env` is set (proxies), which the command line does.
"""

from __future__ import annotations

import asyncio
import email.utils
import importlib
import json
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from ruplar.errors import UserError

log = logging.getLogger(__name__)

Message = dict[str, str]

_AGAIN = {408, 409, 425, 429}
"""Client errors that pass by themselves; with every 5xx they are tried again."""


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
    max_tokens: int = 1024
    temperature: float = 0.0
    trust_env: bool = False

    @property
    def address(self) -> str:
        """Where requests go."""
        url = self.url.rstrip("/")
        return url if url.endswith("/chat/completions") else f"{url}/chat/completions"


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back, and what it cost; None where the endpoint does not say."""

    text: str
    tokens_in: int | None = None
    tokens_out: int | None = None


class Refused(Exception):
    """The endpoint will not answer this request, however often it is asked: `status` and what it said."""

    def __init__(self, status: int, said: str):
        super().__init__(f"HTTP {status}: {said}")
        self.status = status


class NoReply(Exception):
    """Every try failed in a way that may pass; the message says how the last one did."""


class _Passing(Exception):
    """A failure that may pass, with the seconds the endpoint asks to wait."""

    def __init__(self, what: str, wait: float = 0.0):
        super().__init__(what)
        self.wait = wait


class Chat:
    """An open connection pool to one endpoint: `async with Chat(endpoint, rng) as chat: await chat.ask(messages)`."""

    def __init__(self, endpoint: Endpoint, rng: Random, connections: int = 8):
        self.endpoint, self.rng, self.connections = endpoint, rng, connections
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
        """One reply.

        Raises:
            Refused: The endpoint says no for good.
            NoReply: All tries failed.
        """
        for attempt in range(self.endpoint.retries + 1):
            await self._hold()
            try:
                return await self._once(messages)
            except _Passing as failure:
                last = failure
            if attempt < self.endpoint.retries:
                wait = self._wait(attempt, last.wait)
                log.info("%s; trying again in %.1f s", last, wait)
                await asyncio.sleep(wait)
        raise NoReply(f"{self.endpoint.retries + 1} tries failed, the last one so: {last}")

    def _wait(self, attempt: int, asked: float) -> float:
        """Exponential, with the upper half at random so that many do not come back together; never less than asked for."""
        longest = min(self.endpoint.longest_wait, self.endpoint.backoff * 2**attempt)
        if asked:
            # everybody waits, not only the one who was told
            self._not_before = max(self._not_before, time.monotonic() + asked)
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
        except httpx.TransportError as error:
            raise _Passing(f"{type(error).__name__}: {error or 'the connection broke'}") from None
        if answer.status_code in _AGAIN or answer.status_code >= 500:
            raise _Passing(
                f"HTTP {answer.status_code}: {_said(answer.text)}", _retry_after(answer.headers.get("Retry-After"))
            )
        if answer.status_code != 200:
            raise Refused(answer.status_code, _said(answer.text))
        return _reply(answer.text)


def _reply(text: str) -> Reply:
    try:
        body = json.loads(text)
        content = body["choices"][0]["message"]["content"]
        usage = body.get("usage") or {}
        if not isinstance(content, str):
            raise TypeError(f"content is a {type(content).__name__}")
        content = content.encode("utf-8", "replace").decode()  # half of a character could not be written down
        return Reply(content, _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")))
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise _Passing(f"the reply is no chat completion ({type(error).__name__}: {error}): {_said(text)}") from None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None


def _retry_after(text: str | None) -> float:
    """Seconds, or an HTTP date, from a Retry-After header; 0 when there is none that can be read."""
    if not text:
        return 0.0
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError):
        return 0.0


def _said(text: str) -> str:
    """What an error body says, in one short line."""
    try:
        found = json.loads(text)
        text = found["error"]["message"] if isinstance(found.get("error"), dict) else str(found.get("error") or text)
    except (ValueError, KeyError, AttributeError):
        pass
    line = " ".join(str(text).split())
    return (line if len(line) <= 200 else line[:197] + "...") or "nothing"


def _httpx() -> Any:
    try:
        return importlib.import_module("httpx")
    except ImportError as error:
        raise UserError('--by llm needs the package httpx. Install it: pip install "ruplar[convert]".') from error
