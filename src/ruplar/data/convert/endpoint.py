"""Rows → chains by a language model behind an OpenAI-compatible endpoint.

The `openai` client sends the requests, with its own time-outs, retries and back-off. A prompt file (in `prompts/`) has two
parts, separated by a line `---`: the system message, and the message of a row. {question} and {reasoning} are replaced by
those of the row; a line with {reasoning} is left out if there is none. {chain} and {answer} are replaced by the example of the
domain.
"""

import asyncio
import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruplar.data.convert.prose import Prose
from ruplar.data.convert.rules import WRONG_END, Entry, Rejected, verify
from ruplar.domains._markup import after_hashes
from ruplar.domains.base import Domain
from ruplar.errors import UserError, install_extra

FOLDER = Path(__file__).parent / "prompts"
GENERAL = "general"
"""The prompt of domains without one of their own."""
NO_REPLY = "no usable reply"
"""Why a row is rejected whose requests failed. It is not stored, so that the next run requests it again."""

Message = dict[str, str]

_FENCE = re.compile(r"^```[\w-]*\s*$", re.MULTILINE)
_ALWAYS = (401, 403, 404, 405)
"""HTTP statuses that every row would get."""


@dataclass(frozen=True)
class Prompt:
    """The prompt of a conversion: the system message, and the template of each row's message."""

    system: str
    user: str

    def messages(self, question: str, reasoning: str) -> list[Message]:
        lines = [line for line in self.user.splitlines() if reasoning or "{reasoning}" not in line]
        parts = {"{question}": question, "{reasoning}": reasoning}
        # in one pass, because a question may itself contain {reasoning}
        text = re.sub(r"\{question\}|\{reasoning\}", lambda found: parts[found[0]], "\n".join(lines))
        return [{"role": "system", "content": self.system}, {"role": "user", "content": text}]


def load_prompt(domain: str, rule: Domain, file: Path | None = None) -> Prompt:
    """Return the prompt of a domain: from the given file, the packaged one of the domain, or the general one."""
    own = FOLDER / f"{domain}.txt"
    path = file or (own if own.is_file() else FOLDER / f"{GENERAL}.txt")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--prompt: cannot read '{path}' ({error}).") from error
    system, line, user = text.partition("\n---\n")
    if not line or "{question}" not in user:
        raise UserError(
            f"--prompt: '{path}' needs two parts with a line --- between them, the second with {{question}}. "
            f"See the packaged ones in {FOLDER}."
        )
    chain, answer = rule.EXAMPLE
    return Prompt(system.strip().replace("{chain}", chain).replace("{answer}", answer), user.strip())


def chain_in(reply: str) -> tuple[str, str]:
    """Reply → its chain, and the answer after `####` ("" without one); thoughts and code fences are removed."""
    text = _FENCE.sub("", reply.rpartition("</think>")[2]).strip()
    return text.rpartition("####")[0].strip() if "####" in text else text, after_hashes(text) or ""


@dataclass(frozen=True)
class ByModel:
    """A model behind an endpoint; `attempts` are the requests per row while its chain is wrong."""

    url: str
    model: str
    prompt: Prompt
    key: str = field(default="", repr=False)
    concurrency: int = 8
    attempts: int = 2
    max_tokens: int = 1024  # maximum tokens of a reply; 0 for the endpoint's limit
    retries: int = 5

    @property
    def settings(self) -> str:
        """Settings on which replies depend."""
        text = f"{self.prompt.system}\0{self.prompt.user}"
        return f"{self.model} {hashlib.sha256(text.encode()).hexdigest()}"

    def client(self) -> Any:
        try:
            from openai import AsyncOpenAI
        except ImportError as error:
            raise UserError(f"--by llm needs the package openai. {install_extra('convert')}") from error
        base = self.url.rstrip("/").removesuffix("/chat/completions")
        # without a key the client would look for one in the environment and refuse to start
        return AsyncOpenAI(base_url=base, api_key=self.key or "none", max_retries=self.retries)


class _NoReply(Exception):
    """The endpoint gave no usable reply; `fatal` if it would give none to any row."""

    def __init__(self, what: str, fatal: bool = False):
        super().__init__(" ".join(_writable(what).split())[:300])
        self.fatal = fatal


@dataclass
class Workers:
    """Workers that request the chains of rows; `store` is called with each row and its entry, in the order of the replies."""

    by: ByModel
    domain: Domain
    store: Callable[[Prose, Entry], None]
    answered: bool  # whether the endpoint has ever replied; one that has not is unavailable, whatever the reason
    failures_in_a_row: int = 0

    def run(self, rows: Sequence[Prose]) -> None:
        """Convert the rows; raises `UserError` if the endpoint cannot be used."""
        try:
            asyncio.run(self._all(rows))
        except ExceptionGroup as found:  # not except*, from which Python 3.11.2 raises a group again
            raise next((error for error in found.exceptions if isinstance(error, UserError)), found) from None

    async def _all(self, rows: Sequence[Prose]) -> None:
        remaining = iter(rows)
        async with self.by.client() as client, asyncio.TaskGroup() as group:
            for _ in range(min(self.by.concurrency, len(rows))):
                group.create_task(self._work(client, remaining))

    async def _work(self, client: Any, remaining: Iterator[Prose]) -> None:
        for row in remaining:
            try:
                self.store(row, await self._entry(client, row))
                self.failures_in_a_row = 0
            except _NoReply as failure:
                self.failures_in_a_row += 1
                if failure.fatal or not self.answered or self.failures_in_a_row > self.by.concurrency:
                    raise UserError(
                        f"{self.by.url} returns no usable reply ({failure}). Check --endpoint, --model and --api-key. "
                        "Finished rows are stored: run the same command again to resume."
                    ) from None
                self.store(row, {"reason": NO_REPLY, "detail": str(failure)})

    async def _entry(self, client: Any, row: Prose) -> Entry:
        """Send requests until the chain is right or no attempt is left; from the second on, the prompt includes the error."""
        messages = self.by.prompt.messages(row.question, row.reasoning)
        for attempt in range(1, self.by.attempts + 1):
            text = await self._ask(client, messages)
            try:
                return {"chain": self._chain(text, row), "reply": text}
            except Rejected as why:
                if attempt == self.by.attempts:
                    return {"reason": why.reason, "detail": why.detail, "reply": text}
                again = f"That does not hold: {why}. Write the whole chain again, in the same form."
                messages += [{"role": "assistant", "content": text}, {"role": "user", "content": again}]
        raise AssertionError("there is at least one attempt")

    async def _ask(self, client: Any, messages: Sequence[Message]) -> str:
        import openai

        request = {"model": self.by.model, "messages": messages, "temperature": 0.0}
        request |= {"max_tokens": self.by.max_tokens} if self.by.max_tokens else {}
        try:
            reply = await client.chat.completions.create(**request)
        except openai.APIStatusError as error:
            raise _NoReply(f"HTTP {error.status_code}: {error.response.text}", error.status_code in _ALWAYS) from None
        except (openai.OpenAIError, ValueError, RecursionError) as error:  # the last two: a reply that is not JSON
            raise _NoReply(f"{type(error).__name__}: {error}") from None
        try:
            text = reply.choices[0].message.content
        except (AttributeError, IndexError, TypeError):
            raise _NoReply(f"the reply is not a chat completion: {reply}") from None
        self.answered = True
        if not isinstance(text, str):
            raise _NoReply("the content of the reply is null")
        return _writable(text)

    def _chain(self, text: str, row: Prose) -> str:
        chain, stated = chain_in(text)
        marked = getattr(self.domain, "marked", str)
        if stated and not self.domain.same(marked(stated), marked(row.answer)):
            raise Rejected(WRONG_END, f"answers {stated[:60]}, marked {row.answer}")
        return verify(chain, row.question, row.answer, self.domain)


def _writable(text: str) -> str:
    """Replace lone surrogates, which cannot be written as UTF-8."""
    return text.encode("utf-8", "replace").decode()
