"""File, known name or Hub address → questions with their marked answers and, where there is one, their reasoning in prose.

Three shapes are known: BIG-bench's (a JSON object with `examples`, each `input` with `target_scores` or `target`; or rows of
`inputs` and `targets`), GSM8K's (`answer` ends in `#### 72`), and columns of any name, given by `Columns` or found by the names
that are usual. A question wrapped for a prompt, `Q: …` and a line `A:`, is taken out of it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruplar.data.locations import locate
from ruplar.data.rows import Row
from ruplar.domains._answer_text import after_hashes, boxed
from ruplar.errors import UserError

USUAL = {
    "question": ("question", "problem", "input", "inputs", "prompt"),
    "answer": ("answer", "target_scores", "target", "targets", "cot_answer", "final_answer", "label"),
    "reasoning": ("reasoning", "rationale", "explanation", "solution", "cot", "steps"),
}
"""Part of a row → the column names it is looked for under, in this order."""

_HALF = re.compile(r"[\ud800-\udfff]")
_MARKED = re.compile(r"<<.*?>>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of the columns to read; "" where the usual names are tried."""

    question: str = ""
    answer: str = ""
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class Prose:
    """One row to be converted.

    Attributes:
        key: Names the row by what it says, with its count where it is repeated; no matter where it stands.
        question: The problem; the start of the row where it has a fault.
        answer: The marked answer.
        reasoning: The reasoning in prose; "" where there is none.
        source: `file:line`.
        fault: Why the row cannot be converted at all; "" when it can be tried.
    """

    key: str
    question: str
    answer: str
    reasoning: str
    source: str
    fault: str = ""


class _Unreadable(Exception):
    """What is wrong with a row."""


def read_prose(
    source: str | Path, columns: Columns | None = None, *, limit: int | None = None, data_dir: str | Path | None = None
) -> list[Prose]:
    """All rows of a source, those that cannot be read with their fault.

    Args:
        source: A path, a known name or a Hub address.
        columns: Where question, answer and reasoning stand.
        limit: Only the first so many rows.
        data_dir: Folder with the files of known names.

    Raises:
        UserError: The source cannot be found or read, holds no row, or a column that was named is nowhere in it.
    """
    place = locate(source, data_dir)
    wanted = columns or Columns()
    rows = _examples_of(place.path) if place.path is not None and place.path.suffix == ".json" else None
    seen: dict[str, int] = {}
    found: list[Prose] = []
    met: dict[str, None] = {}
    for row in rows if rows is not None else place.rows():
        if limit is not None and len(found) == limit:
            break
        met.update(dict.fromkeys(row.fields))
        found.append(_prose(row, wanted, seen))
    if not found:
        raise UserError(f"{place.name}: holds no row.")
    for part in ("question", "answer", "reasoning"):
        name = getattr(wanted, part)
        if name and name not in met:
            raise UserError(
                f"{place.name}: no row has a column '{name}' (given as --{part}). Its columns are {', '.join(met)}."
            )
    return found


def _examples_of(path: Path) -> Iterator[Row] | None:
    """Rows of a JSON object that keeps them under `examples`, as BIG-bench does; None for other files."""
    try:
        whole = json.loads(path.read_text(encoding="utf-8-sig"), parse_float=str, parse_int=str)
    except ValueError:
        return None  # lines, or broken: the ordinary reader says which
    if not isinstance(whole, dict) or not isinstance(whole.get("examples"), list):
        return None
    return (
        Row(f"{path.name}:{at}", fields, raw=str(fields)[:200])
        if isinstance(fields, dict)
        else Row(f"{path.name}:{at}", fault=f"not a JSON object but a {type(fields).__name__}", raw=str(fields)[:200])
        for at, fields in enumerate(whole["examples"], start=1)
    )


def _prose(row: Row, columns: Columns, seen: dict[str, int]) -> Prose:
    question = answer = reasoning = ""
    fault = row.fault
    if not fault:
        try:
            question = _question(row.fields, columns)
            answer, reasoning = _answer_and_reasoning(row.fields, columns)
            if _HALF.search(question + answer + reasoning):
                raise _Unreadable("it holds half of a character (a lone surrogate)")
        except _Unreadable as unreadable:
            fault = str(unreadable)
    if fault:
        question, answer, reasoning = _HALF.sub("\ufffd", row.raw), "", ""
    said = "\0".join((question, answer, reasoning))
    key = hashlib.blake2b(said.encode(), digest_size=12).hexdigest()
    seen[key] = seen.get(key, 0) + 1
    return Prose(f"{key}-{seen[key]}" if seen[key] > 1 else key, question, answer, reasoning, row.source, fault)


def _question(fields: Mapping[str, Any], columns: Columns) -> str:
    name = _column(fields, "question", columns.question)
    question = _text(fields, name)
    if not question:
        raise _Unreadable(f"field '{name}' is empty")
    if question.startswith("Q:") and question.endswith("\nA:"):
        bare = question[2:-3].strip()
        return question if not bare or "\nA:" in bare else bare  # one with worked examples in front is left alone
    return question


def _answer_and_reasoning(fields: Mapping[str, Any], columns: Columns) -> tuple[str, str]:
    name = _column(fields, "answer", columns.answer)
    value = fields[name]
    usual = next((n for n in USUAL["reasoning"] if n in fields and n != name), "")
    reasoning = _reasoning(fields, columns.reasoning or usual)
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
    # a calculator's marks in the prose would do the work that is asked for here
    return answer, _MARKED.sub("", reasoning).strip()


def _reasoning(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name) if name else None
    if isinstance(value, list):
        return "\n".join(str(part).strip() for part in value)
    return value.strip() if isinstance(value, str) else ""


def _right_choice(scores: Mapping[str, Any], name: str) -> str:
    """BIG-bench's choices with a score each → the one that is right."""
    try:
        right = [choice for choice, score in scores.items() if float(score) > 0]
    except (TypeError, ValueError):
        raise _Unreadable(f"field '{name}' holds a score that is no number") from None
    if len(right) != 1:
        raise _Unreadable(f"field '{name}' marks {len(right)} of {len(scores)} choices as right, not one")
    return right[0].strip()


def _column(fields: Mapping[str, Any], part: str, named: str) -> str:
    if named:
        if named not in fields:
            raise _Unreadable(f"field '{named}' is missing")
        return named
    found = next((name for name in USUAL[part] if name in fields), None)
    if found is None:
        raise _Unreadable(
            f"no column for the {part} among {', '.join(fields)}; name it with --{part} "
            f"(looked for: {', '.join(USUAL[part])})"
        )
    return found


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields[name]
    if isinstance(value, str):
        return value.strip()
    raise _Unreadable(f"field '{name}' is a {type(value).__name__}, not text or a number")
