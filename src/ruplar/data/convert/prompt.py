"""Domain, question and prose → messages for a chat model; its reply → chain and answer. The words are files in `prompts/`.

A prompt file has two parts with a line `---` between them: what the model is told once, and how a row is put to it.
{question} and {reasoning} stand for the row's; a line with {reasoning} is left out where there is none; {chain} and
{answer} stand for the domain's own example.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ruplar.data.convert.endpoint import Message
from ruplar.domains._answer_text import after_hashes
from ruplar.domains.base import Domain
from ruplar.errors import UserError

FOLDER = Path(__file__).parent / "prompts"
GENERAL = "general"
"""The prompt of domains that have none of their own."""

_FENCE = re.compile(r"^```[\w-]*\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Prompt:
    """What a model is told: once (`system`), and for each row (`user`)."""

    system: str
    user: str

    def messages(self, question: str, reasoning: str) -> list[Message]:
        """The messages of one row."""
        lines = [line for line in self.user.splitlines() if reasoning or "{reasoning}" not in line]
        parts = {"{question}": question, "{reasoning}": reasoning}
        # in one pass: a question may itself hold {reasoning}
        text = re.sub(r"\{question\}|\{reasoning\}", lambda found: parts[found[0]], "\n".join(lines))
        return [{"role": "system", "content": self.system}, {"role": "user", "content": text}]

    def again(self, fault: str) -> Message:
        """What the model is told when its chain does not hold."""
        return {
            "role": "user",
            "content": f"That does not hold: {fault}. Write the whole chain again, in the same form.",
        }


def load_prompt(domain: str, rule: Domain, file: Path | None = None) -> Prompt:
    """The prompt of a domain: the file given, the domain's own in the package, or the general one.

    Raises:
        UserError: The file is not there, or lacks its second part or {question}.
    """
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
    """A reply → its chain, and the answer it states behind `####`, "" without one; thoughts and code fences left out."""
    text = _FENCE.sub("", reply.rpartition("</think>")[2]).strip()
    return text.rpartition("####")[0].strip() if "####" in text else text, after_hashes(text) or ""
