"""File, known name or Hub address → questions with their marked answers and, if present, their reasoning in prose.

Three layouts are supported: BIG-bench's (a JSON object with `examples`, each `input` with `target_scores` or `target`; or
rows of `inputs` and `targets`), GSM8K's (`answer` ends in `#### 72`), and columns of any name, given or found by
their usual names. A question in the form of a prompt, `Q: …` and a line `A:`, is extracted.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from ruplar.data.locations import locate
from ruplar.data.rows import Row
from ruplar.domains._markup import after_hashes, boxed, without_steps
from ruplar.errors import UserError

USUAL = {
    "question": ("question", "problem", "input", "inputs", "prompt"),
    "answer": ("answer", "target_scores", "target", "targets", "cot_answer", "final_answer", "label"),
    "reasoning": ("reasoning", "rationale", "explanation", "solution", "cot", "steps"),
}
"""Part of a row → its usual column names, in order of preference."""

_SURROGATE = re.compile(r"[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Prose:
    """One row to convert; its `key` is a hash of its content, numbered if the row is repeated, and independent of its position.

    A row with a `fault` cannot be converted; its question is then the start of the row.
    """

    key: str
    question: str
    answer: str
    reasoning: str
    source: str
    fault: str = ""


class _Unreadable(Exception):
    """A row that cannot be converted; the message says why."""


def read_prose(
    source: str | Path,
    columns: Mapping[str, str] | None = None,
    *,
    limit: int | None = None,
    data_dir: str | Path | None = None,
) -> list[Prose]:
    """Return all rows of a source; those that cannot be read have a `fault`.

    `columns` names the columns of `question`, `answer` and `reasoning`; where it does not, the usual names are tried.
    """
    location = locate(source, data_dir)
    given = {part: name for part, name in (columns or {}).items() if name}
    seen: Counter[str] = Counter()
    met: dict[str, None] = {}
    found: list[Prose] = []
    for row in islice(location.rows(), limit):
        met.update(dict.fromkeys(row.fields))
        found.append(_prose(row, given, seen))
    if not found:
        raise UserError(f"{location.name}: has no rows.")
    for part, name in given.items():
        if name not in met:
            raise UserError(
                f"{location.name}: no row has a column '{name}' (given as --{part}). Its columns are {', '.join(met)}."
            )
    return found


def _prose(row: Row, columns: Mapping[str, str], seen: Counter[str]) -> Prose:
    question = answer = reasoning = ""
    fault = row.fault
    if not fault:
        try:
            question = _question(row.fields, columns)
            answer, reasoning = _answer_and_reasoning(row.fields, columns)
            if _SURROGATE.search(question + answer + reasoning):
                raise _Unreadable("it contains a lone surrogate (half of a character)")
        except _Unreadable as unreadable:
            fault = str(unreadable)
    if fault:
        question, answer, reasoning = _SURROGATE.sub("\ufffd", row.raw), "", ""
    content = "\0".join((question, answer, reasoning))
    key = hashlib.blake2b(content.encode(), digest_size=12).hexdigest()
    seen[key] += 1
    return Prose(f"{key}-{seen[key]}" if seen[key] > 1 else key, question, answer, reasoning, row.source, fault)


def _question(fields: Mapping[str, Any], columns: Mapping[str, str]) -> str:
    name = _column(fields, "question", columns)
    question = _text(fields, name)
    if not question:
        raise _Unreadable(f"field '{name}' is empty")
    if question.startswith("Q:") and question.endswith("\nA:"):
        bare = question[2:-3].strip()
        return question if not bare or "\nA:" in bare else bare  # a prompt with worked examples is not changed
    return question


def _answer_and_reasoning(fields: Mapping[str, Any], columns: Mapping[str, str]) -> tuple[str, str]:
    name = _column(fields, "answer", columns)
    value = fields[name]
    usual = next((n for n in USUAL["reasoning"] if n in fields and n != name), "")
    written = fields.get(columns.get("reasoning", usual), "")
    parts = written if isinstance(written, list) else [written] if isinstance(written, str) else []
    reasoning = "\n".join(str(part).strip() for part in parts)
    if isinstance(value, Mapping):
        answer = _right_choice(value, name)
    elif isinstance(value, list) and len(value) == 1:
        answer = str(value[0]).strip()
    else:
        answer = _text(fields, name)
        if "####" in answer:
            reasoning = reasoning or answer.rpartition("####")[0]
            answer = after_hashes(answer) or ""
        elif r"\boxed{" in answer:
            answer = boxed(answer) or ""
    if not answer:
        raise _Unreadable(f"field '{name}' marks no answer")
    # GSM8K's calculator annotations would give the chain away
    return answer, without_steps(reasoning).strip()


def _right_choice(scores: Mapping[str, Any], name: str) -> str:
    try:
        right = [choice for choice, score in scores.items() if float(score) > 0]
    except (TypeError, ValueError):
        raise _Unreadable(f"field '{name}' has a score that is not a number") from None
    if len(right) != 1:
        raise _Unreadable(f"field '{name}' marks {len(right)} of {len(scores)} choices as right, not one")
    return right[0].strip()


def _column(fields: Mapping[str, Any], part: str, columns: Mapping[str, str]) -> str:
    if part in columns:
        if columns[part] not in fields:
            raise _Unreadable(f"field '{columns[part]}' is missing")
        return columns[part]
    found = next((name for name in USUAL[part] if name in fields), None)
    if found is None:
        raise _Unreadable(
            f"no column for the {part} among {', '.join(fields)}; name it with --{part} "
            f"(usual names: {', '.join(USUAL[part])})"
        )
    return found


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields[name]
    if isinstance(value, str):
        return value.strip()
    raise _Unreadable(f"field '{name}' is a {type(value).__name__}, not text or a number")
