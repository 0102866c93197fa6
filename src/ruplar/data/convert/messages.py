"""Prompts for a chat model, and its replies → chains.

A prompt file (in `prompts/`) has two parts, separated by a line `---`: the system message, and the message of a row.
{question} and {reasoning} are replaced by those of the row; a line with {reasoning} is left out if there is none. {chain} and
{answer} are replaced by the example of the domain.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from ruplar.domains._markup import after_hashes
from ruplar.domains.base import Domain
from ruplar.errors import UserError

FOLDER = Path(__file__).parent / "prompts"
GENERAL = "general"
"""The prompt of domains without one of their own."""

Message = dict[str, str]

_FENCE = re.compile(r"^```[\w-]*\s*$", re.MULTILINE)
_LONGEST = 2000
_BAD = (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError)


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

    def retry(self, error: str) -> Message:
        """Return the message after a reply whose chain is wrong."""
        return {
            "role": "user",
            "content": f"That does not hold: {error}. Write the whole chain again, in the same form.",
        }


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


@dataclass(frozen=True, slots=True)
class Reply:
    """The text of a reply, and why it is not a chat completion; then the text is the body of the HTTP reply."""

    text: str
    fault: str = ""


def read_reply(body: str) -> Reply:
    """Body of a reply with HTTP status 200 → the reply."""
    try:
        content = json.loads(body)["choices"][0]["message"]["content"]
        if not isinstance(content, str):
            raise TypeError(f"content is {'null' if content is None else f'a {type(content).__name__}'}")
    except _BAD as error:
        fault = f"{type(error).__name__}: {without_surrogates(str(error))[:200]}; it says: {error_message(body)}"
        return Reply(without_surrogates(body)[:_LONGEST], fault)
    return Reply(without_surrogates(content))


def error_message(body: str) -> str:
    """Body of an error reply → its message in one short line."""
    try:
        found = json.loads(body)
        body = found["error"]["message"] if isinstance(found.get("error"), dict) else str(found.get("error") or body)
    except _BAD:
        pass
    line = " ".join(without_surrogates(str(body)).split())
    return (line if len(line) <= 200 else line[:197] + "...") or "nothing"


def without_surrogates(text: str) -> str:
    """Replace lone surrogates, which cannot be written as UTF-8."""
    return text.encode("utf-8", "replace").decode()
