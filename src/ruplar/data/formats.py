"""Row → example: the column layouts of published datasets, and a plain one for your own data.

The columns of each are in docs/domains.md.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ruplar.data.rows import Row
from ruplar.domains._markup import after_hashes, boxed
from ruplar.domains.base import Domain
from ruplar.errors import UserError
from ruplar.types import Example

BROKEN, NO_STEP, UNREADABLE, DUPLICATE = "broken row", "no step", "unreadable answer", "duplicate"
"""Reasons to leave a row out."""

_PYTHON = re.compile(r"^[ \t]*def \w+\(", re.MULTILINE)
SURROGATE = re.compile(r"[\ud800-\udfff]")
_THINK = re.compile(r"\s*<think>(.*)</think>\s*", re.DOTALL)


class BadRow(Exception):
    """A row that gives no example: `reason` is one of the four above, `detail` explains it, `about` is the text to show."""

    def __init__(self, reason: str, detail: str, about: str = ""):
        super().__init__(detail)
        self.reason, self.detail, self.about = reason, detail, about


@dataclass(frozen=True, slots=True)
class Parts:
    """Question, chain and answer of a row; `steps` is None if the domain has to find them in the chain."""

    question: str
    chain: str
    answer: str | None
    steps: tuple[str, ...] | None = None


def to_example(row: Row, format: str, domain: Domain, need_steps: bool) -> Example:
    if row.fault:
        raise BadRow(BROKEN, row.fault)
    parts = FORMATS[format].read(row.fields)
    if SURROGATE.search(parts.question + parts.chain + (parts.answer or "")):
        raise BadRow(BROKEN, "it has a lone surrogate (half of a character)", SURROGATE.sub("\ufffd", parts.question))
    if not parts.question:
        raise BadRow(BROKEN, "the question is empty")
    if not parts.answer:
        raise BadRow(UNREADABLE, "no answer is marked", parts.chain)
    steps = parts.steps if parts.steps is not None else _steps(parts.chain, domain)
    marked: Any = getattr(domain, "marked", None)
    if need_steps and not steps:
        column = FORMATS[format].chain
        detail = f"column '{column}', with the chain, is missing or null; columns found: {', '.join(row.fields)}"
        detail = detail if column and row.fields.get(column) is None else NO_STEP
        raise BadRow(NO_STEP, detail, parts.chain or parts.question)
    return Example(parts.question, steps, marked(parts.answer) if marked else parts.answer, row.source, parts.chain)


def detect(row: Row, where: str) -> str:
    """Row → the name of the format that fits its columns."""
    if {"question", "answer"} <= row.fields.keys() and "steps" not in row.fields:
        return "gsm8k" if "####" in str(row.fields["answer"]) else "plain"
    for name, format in FORMATS.items():
        if format.needs <= row.fields.keys():
            return name
    near = max(FORMATS, key=lambda name: len(FORMATS[name].needs & row.fields.keys()) / len(FORMATS[name].needs))
    lacking = ", ".join(sorted(FORMATS[near].needs - row.fields.keys()))
    closest = f" The closest is {near}; it also needs {lacking}." if FORMATS[near].needs & row.fields.keys() else ""
    shapes = "; ".join(f"{name}: {', '.join(sorted(f.needs))}" for name, f in FORMATS.items())
    columns = ", ".join(row.fields) or "none"
    way = "Rename your columns, or convert the file: `ruplar data convert FILE OUT --question COLUMN --answer COLUMN`."
    raise UserError(f"{where}: columns {columns} match no format.{closest} {way} Formats and their columns: {shapes}.")


def _steps(chain: str, domain: Domain) -> tuple[str, ...]:
    if _PYTHON.search(chain):
        return ()
    if chain.count("<<") != chain.count(">>"):
        raise BadRow(BROKEN, "the numbers of << and >> differ", chain)
    return tuple(domain.split(chain))


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if isinstance(value, str):
        return value.strip()
    found = "is missing" if value is None else f"is a {type(value).__name__} ({str(value)[:30]}), not text or a number"
    raise BadRow(BROKEN, f"field '{name}' {found}")


def _optional_text(fields: dict[str, Any], name: str) -> str:
    return _text(fields, name) if fields.get(name) is not None else ""


def _before_hashes(text: str) -> str:
    return (text.rpartition("####")[0] if "####" in text else text).strip()


def _gsm8k(fields: dict[str, Any]) -> Parts:
    prose = _text(fields, "answer")
    return Parts(_text(fields, "question"), _before_hashes(prose), after_hashes(prose))


def _gsm8k_aug(fields: dict[str, Any]) -> Parts:
    question, bars, rest = _text(fields, "text").partition("||")
    if not bars:
        raise BadRow(BROKEN, "|| is missing between question and chain")
    return Parts(question.strip(), _before_hashes(rest), after_hashes(rest))


def _ruplar_train(fields: dict[str, Any]) -> Parts:
    chain = _text(fields, "cot")
    wrapped = _THINK.fullmatch(chain)
    answer = boxed(_text(fields, "cot_answer"))
    return Parts(_text(fields, "problem"), wrapped[1].strip() if wrapped else chain, answer)


def _coconut(fields: dict[str, Any]) -> Parts:
    listed = "" if fields.get("steps") is None else fields["steps"]
    if isinstance(listed, str):
        return Parts(_text(fields, "question"), listed.strip(), _unmarked(fields))
    if not isinstance(listed, list) or not all(isinstance(step, str) for step in listed):
        raise BadRow(BROKEN, "field 'steps' must be a text or a list of texts")
    steps = tuple(s for step in listed if (s := step.strip().removeprefix("<<").removesuffix(">>").strip()))
    return Parts(_text(fields, "question"), " ".join(listed), _unmarked(fields), steps)


def _unmarked(fields: dict[str, Any]) -> str:
    """The answer without `####`, which some copies of COCONUT's files have in front of it."""
    return _text(fields, "answer").removeprefix("####").strip()


def _svamp(fields: dict[str, Any]) -> Parts:
    return Parts(f"{_text(fields, 'Body')} {_text(fields, 'Question')}", "", _text(fields, "Answer"))


def _big_bench(question: str, answer: str) -> Callable[[dict[str, Any]], Parts]:
    """Return a function that reads a task of BIG-bench: its answer is a text, a list of one text, or the choice with a score."""

    def read(fields: dict[str, Any]) -> Parts:
        found = fields.get(answer)
        if isinstance(found, dict):
            found = [choice for choice, score in found.items() if str(score) not in ("0", "0.0", "None")]
        if isinstance(found, list):
            if len(found) != 1:
                raise BadRow(BROKEN, f"field '{answer}' marks {len(found)} answers as right, not one")
            found = found[0]
        return Parts(_text(fields, question), _optional_text(fields, "code"), _text({answer: found}, answer))

    return read


def _columns(question: str, answer: str, chain: str = "") -> Callable[[dict[str, Any]], Parts]:
    """Return a function that reads these columns as they are; the chain may be missing."""
    return lambda fields: Parts(_text(fields, question), _optional_text(fields, chain), _text(fields, answer))


def _plain(fields: dict[str, Any]) -> Parts:
    answer = _text(fields, "answer")
    if "####" in answer:
        raise BadRow(BROKEN, "the answer contains ####; set the source's format: gsm8k", answer)
    return Parts(_text(fields, "question"), _optional_text(fields, "cot"), answer)


@dataclass(frozen=True, slots=True)
class Format:
    """The columns a format needs, the function that reads them, and the column of the chain where a row may lack it."""

    needs: frozenset[str]
    read: Callable[[dict[str, Any]], Parts]
    chain: str = ""


FORMATS: dict[str, Format] = {
    "gsm8k-aug": Format(frozenset({"text"}), _gsm8k_aug),
    "coconut": Format(frozenset({"question", "steps", "answer"}), _coconut, "steps"),
    "ruplar-train": Format(frozenset({"problem", "cot", "cot_answer"}), _ruplar_train),
    "ruplar-test": Format(frozenset({"problem", "answer"}), _columns("problem", "answer", "solution"), "solution"),
    "gsm8k": Format(frozenset({"question", "answer"}), _gsm8k),
    "plain": Format(frozenset({"question", "answer"}), _plain, "cot"),
    "svamp": Format(frozenset({"Body", "Question", "Answer"}), _svamp),
    "multiarith": Format(frozenset({"question", "final_ans"}), _columns("question", "final_ans")),
    "gsm-hard": Format(frozenset({"input", "target"}), _big_bench("input", "target")),
    "big-bench": Format(frozenset({"input", "target_scores"}), _big_bench("input", "target_scores")),
    "big-bench-rows": Format(frozenset({"inputs", "targets"}), _big_bench("inputs", "targets")),
}
"""Name → format, in the order in which they are tried."""
