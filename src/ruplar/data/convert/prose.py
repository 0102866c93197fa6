"""File, known name or Hub address → questions with their marked answers and, if present, their reasoning in prose.

Rows are read like those of training data (`formats.py`), without their chains; columns of other names can be given. A question in
the form of a prompt, `Q: …` and a line `A:`, is extracted.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ruplar.data.formats import BROKEN, FORMATS, SURROGATE, BadRow, detect
from ruplar.data.locations import locate
from ruplar.data.rows import Row
from ruplar.domains._markup import without_steps
from ruplar.errors import UserError

REASONING = ("reasoning", "rationale", "explanation", "solution", "cot")
"""Usual names of the column with the reasoning, in order of preference."""


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


def read_prose(
    source: str | Path,
    columns: Mapping[str, str] | None = None,
    *,
    limit: int | None = None,
    data_dir: str | Path | None = None,
) -> list[Prose]:
    """Return all rows of a source; those that cannot be read have a `fault`.

    `columns` names the columns of `question`, `answer` and `reasoning` where they have other names.
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
    fault = row.fault
    try:
        if fault:
            raise BadRow(BROKEN, fault)
        question, answer, reasoning = _read(row, columns)
        if SURROGATE.search(question + answer + reasoning):
            raise BadRow(BROKEN, "it contains a lone surrogate (half of a character)")
    except BadRow as bad:
        fault = bad.detail
        question, answer, reasoning = SURROGATE.sub("\ufffd", row.raw), "", ""
    content = "\0".join((question, answer, reasoning))
    key = hashlib.blake2b(content.encode(), digest_size=12).hexdigest()
    seen[key] += 1
    return Prose(f"{key}-{seen[key]}" if seen[key] > 1 else key, question, answer, reasoning, row.source, fault)


def _read(row: Row, columns: Mapping[str, str]) -> tuple[str, str, str]:
    fields = dict(row.fields)
    for part, name in columns.items():
        if fields.get(name) is None:
            raise BadRow(BROKEN, f"field '{name}' is missing")
        fields[part] = fields[name]
    try:
        parts = FORMATS[detect(Row(row.source, fields), row.source)].read(fields)
    except UserError as error:
        raise BadRow(BROKEN, f"{error} Or name the columns with --question, --answer and --reasoning.") from error
    if not parts.question or not parts.answer:
        raise BadRow(BROKEN, f"no {'answer' if parts.question else 'question'} is marked")
    written = fields["reasoning"] if "reasoning" in columns else parts.chain
    written = written or next((fields[name] for name in REASONING if fields.get(name)), "")
    reasoning = "\n".join(map(str, written)) if isinstance(written, list) else str(written)
    question = parts.question
    if question.startswith("Q:") and question.endswith("\nA:"):
        bare = question[2:-3].strip()
        question = question if not bare or "\nA:" in bare else bare  # a prompt with worked examples is not changed
    # GSM8K's calculator annotations would give the chain away
    return question, parts.answer, without_steps(reasoning).strip()
