"""Body of an HTTP reply → text of a chat completion, or why it is none; and what it used, which is read first.

A reply that cannot be used has been paid for all the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_LONGEST = 2000
_BAD = (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back, and what it used.

    Attributes:
        text: What the model says; the start of the body where it is no chat completion.
        tokens_in: Of the prompt; None where the endpoint does not say.
        tokens_out: Of the reply; None where the endpoint does not say.
        fault: Why it is no chat completion; "" when it is one.
    """

    text: str
    tokens_in: int | None = None
    tokens_out: int | None = None
    fault: str = ""

    @property
    def used(self) -> dict[str, int]:
        """What it used, as the journal has it."""
        silent = self.tokens_in is None or self.tokens_out is None
        return {"tokens_in": self.tokens_in or 0, "tokens_out": self.tokens_out or 0, "uncounted": int(silent)}


def read_reply(body: str) -> Reply:
    """The reply of a body that came with HTTP 200."""
    try:
        found = json.loads(body)
    except _BAD as error:
        return Reply(whole(body)[:_LONGEST], fault=_fault(error, body))
    usage = found.get("usage") if isinstance(found, Mapping) else None
    usage = usage if isinstance(usage, Mapping) else {}
    counts = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    try:
        content = found["choices"][0]["message"]["content"]
        if not isinstance(content, str):
            raise TypeError(f"content is {'null' if content is None else f'a {type(content).__name__}'}")
    except _BAD as error:
        return Reply(whole(body)[:_LONGEST], *counts, fault=_fault(error, body))
    return Reply(whole(content), *counts)


def said(text: str) -> str:
    """What an error body says, in one short line."""
    try:
        found = json.loads(text)
        text = found["error"]["message"] if isinstance(found.get("error"), dict) else str(found.get("error") or text)
    except _BAD:
        pass
    line = " ".join(whole(str(text)).split())
    return (line if len(line) <= 200 else line[:197] + "...") or "nothing"


def whole(text: str) -> str:
    """The text without halves of characters, which could not be written down."""
    return text.encode("utf-8", "replace").decode()


def _fault(error: Exception, body: str) -> str:
    return f"{type(error).__name__}: {whole(str(error))[:200]}; it says: {said(body)}"


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
