"""Data section of a recipe, or rows in memory → `TrainingData`: training chains, validation questions, what was left out.

    data section –sources→ examples –drop validation and test questions→ TrainingData –`prepare.py`→ pre-tokenized

Training rows whose question is also in the validation set are dropped, and so are rows that share a passage with a test set
named in `decontaminate`. A chain to be augmented is checked against both before its numbers are changed. Sources may
generate their rows on demand; only row numbers are stored for them.
"""

import hashlib
import itertools
import json
import logging
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike
from typing import Any

from ruplar.config import DataSettings
from ruplar.data import stored
from ruplar.data.canonical_operands import canonical_operands
from ruplar.data.convert.prose import REASONING
from ruplar.data.decontamination import Index, index_of
from ruplar.data.formats import BROKEN, BadRow, to_example
from ruplar.data.read import step_hint
from ruplar.data.rows import Row, plain_value
from ruplar.data.sources import GeneratedProblems, LoadedSource, open_source
from ruplar.data.stored import ExampleView, Spool
from ruplar.domains.base import Domain
from ruplar.errors import UserError
from ruplar.fingerprints import digest
from ruplar.types import Example

log = logging.getLogger(__name__)

IN_VALID = "question is in data.valid"
"""Why a training row is dropped, as `run.json` records it."""
COLUMNS = ("question", "steps", "answer")
_USUAL = {"question": ("problem", "prompt"), "steps": ("cot", "chain", "solution", *REASONING), "answer": ("result",)}
"""Columns of a dataset in memory, and their usual names elsewhere."""
_SHOWN = 5


@dataclass(frozen=True)
class Without(ExampleView):
    """A sequence without some of its rows, whose numbers are in ascending order."""

    examples: Sequence[Example]
    left_out: Sequence[int]
    _before: array = field(init=False, repr=False)  # the number of rows that stay before each one left out

    def __post_init__(self):
        object.__setattr__(self, "_before", array("Q", (row - i for i, row in enumerate(self.left_out))))

    def __len__(self) -> int:
        return len(self.examples) - len(self.left_out)

    def _one(self, row: int) -> Example:
        return self.examples[row + bisect_right(self._before, row)]

    def __iter__(self) -> Iterator[Example]:
        return (example for _, example in self.numbered(enumerate(self.examples)))

    def numbered(self, rows: Iterable[tuple[int, Example]]) -> Iterator[tuple[int, Example]]:
        """Yield those of the numbered rows that stay, each with its new number."""
        for row, example in rows:
            before = bisect_left(self.left_out, row)
            if before == len(self.left_out) or self.left_out[before] != row:
                yield row - before, example


@dataclass(frozen=True)
class Joined(ExampleView):
    """Several sequences, concatenated."""

    sources: Sequence[Sequence[Example]]
    _ends: list[int] = field(init=False, repr=False)

    def __post_init__(self):
        object.__setattr__(self, "_ends", list(itertools.accumulate(len(s) for s in self.sources)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def _one(self, row: int) -> Example:
        number = bisect_right(self._ends, row)
        source = self.sources[number]
        return source[row - self._ends[number] + len(source)]

    def __iter__(self) -> Iterator[Example]:
        return itertools.chain.from_iterable(self.sources)


@dataclass(frozen=True)
class CanonicalOperands(ExampleView):
    """Rows whose operands are put in canonical order when they are read."""

    examples: Sequence[Example]

    def __len__(self) -> int:
        return len(self.examples)

    def _one(self, row: int) -> Example:
        return canonical_operands(self.examples[row])

    def __iter__(self) -> Iterator[Example]:
        return map(canonical_operands, self.examples)


@dataclass(frozen=True)
class TrainingData:
    """Training chains and validation questions of a run."""

    train: Sequence[Example]  # the training chains
    valid: Sequence[Example]  # the validation questions; may be empty
    # part and source (`train 1: gsm8k-aug-train.txt`) → hash or seed that identifies its content
    fingerprints: dict[str, str]
    left_out: dict[str, int]  # reason → number of rows left out


def from_files(examples: Sequence[Example]) -> Iterator[tuple[int, Example]]:
    """Yield the number and example of every row but those that a generator draws: these are short, and not test questions."""
    if isinstance(examples, GeneratedProblems):
        return
    if isinstance(examples, CanonicalOperands):
        yield from from_files(examples.examples)
    elif isinstance(examples, Joined):
        for source, end in zip(examples.sources, examples._ends, strict=True):
            yield from ((end - len(source) + row, example) for row, example in from_files(source))
    elif isinstance(examples, Without):
        yield from examples.numbered(from_files(examples.examples))
    else:
        yield from enumerate(examples)


def load_data(section: DataSettings, domain: Domain, need_steps: bool = True) -> TrainingData:
    """Load every source of a recipe's data section.

    Args:
        section: The `data:` section.
        domain: Splits chains into steps.
        need_steps: Whether a row without a step is an error, as for methods that learn from steps.
    """
    skip_bad = section.skip_bad
    valid = None
    if section.valid is not None:
        valid = open_source(section.valid, domain, need_steps=False, skip_bad=skip_bad, split="valid")
    index = index_of(section.decontaminate, domain) if section.decontaminate else None
    questions = _held_out(valid, section)
    refuse = partial(_refused, questions=questions, index=index, augmented=True)
    train, held = [], 0
    for source in section.train:
        loaded = open_source(source, domain, need_steps=need_steps, skip_bad=skip_bad, split="train", refuse=refuse)
        if isinstance(loaded.examples, list):
            if held + len(loaded.examples) > stored.KEPT:  # many small files
                loaded = replace(loaded, examples=stored.to_file(loaded.examples).done())
            else:
                held += len(loaded.examples)
        train.append(loaded)
    return _combined(train, valid, section, domain, need_steps, index)


def data_in_memory(
    section: DataSettings, domain: Domain, need_steps: bool, train: Sequence[Example], valid: Sequence[Example] | None
) -> TrainingData:
    """Like `load_data`, for examples in memory (`examples_of`) instead of the section's own sources."""
    index = index_of(section.decontaminate, domain) if section.decontaminate else None
    held_out = None if valid is None else LoadedSource(valid, _record("eval_dataset", valid))
    loaded = LoadedSource(train, _record("train_dataset", train))
    return _combined([loaded], held_out, section, domain, need_steps, index)


def examples_of(
    rows: Iterable[Any], name: str, domain: Domain, *, need_steps: bool, columns: Mapping[str, str] | None = None
) -> Sequence[Example]:
    """Rows (a list of dicts, a `datasets.Dataset`, or an iterator over rows that do not fit in memory) → examples.

    Args:
        rows: Each has a question, steps (a list such as ["3*4=12"], or a text such as "<<3*4=12>> …") and an answer.
        name: Name of the dataset in error messages.
        domain: Splits a chain in one text into steps.
        need_steps: Whether every row must have a step.
        columns: `question`, `steps` or `answer` → the name of that column in the dataset, where it differs.
    """
    unknown = sorted(set(columns or ()) - set(COLUMNS))
    if unknown:
        raise UserError(f"columns: unknown key '{unknown[0]}'. The keys are {', '.join(COLUMNS)}, the values yours.")
    if isinstance(rows, str | PathLike):
        raise UserError(f"{name}: '{rows}' is a path. Pass its rows, or train on it with a recipe (data.train).")
    names = {column: (columns or {}).get(column, column) for column in COLUMNS}
    examples = Spool()
    problems: list[str] = []
    for number, row in enumerate(rows):
        try:
            examples.append(_example(row, names, f"{name}[{number}]", domain, need_steps))
        except BadRow as bad:
            problems.append(f"{name}[{number}]: {bad.detail}.")
    if problems:
        cut = f"the first of {len(problems):,} bad rows of " if len(problems) > _SHOWN else ""
        raise UserError(*problems[:_SHOWN], where=cut + name)
    if not len(examples):
        raise UserError(f"{name}: has no rows.")
    return examples.done()


def warn_of_prose(examples: Sequence[Example], domain: Domain) -> None:
    """Warn of steps in which the domain finds no result, as `ruplar data check` does; reads the first rows."""
    steps = [(example.source, step) for example in examples[:1000] for step in example.steps]
    without = [(at, step) for at, step in steps if not domain.result(step)]
    if without:
        said = f"{len(without)} of the first {len(steps)} steps have no result (first: %s %r). %s"
        log.warning(said, *without[0], step_hint(domain))


def _example(row: Any, names: Mapping[str, str], source: str, domain: Domain, need_steps: bool) -> Example:
    if not isinstance(row, Mapping):
        raise BadRow(BROKEN, f"is a {type(row).__name__}, not a dict of columns")
    fields: dict[str, Any] = {}
    for column, name in names.items():
        value = row.get(name)
        if value is None and (column != "steps" or need_steps):
            found, others = ", ".join(map(str, row)) or "none", [one for one in row if one not in names.values()]
            likely = [one for one in _USUAL[column] if one in others] or (others if len(others) == 1 else [])
            hint = f". If it has another name, pass columns={{'{column}': '{likely[0]}'}}" if likely else ""
            raise BadRow(BROKEN, f"column '{name}' is missing or None; columns found: {found}{hint}")
        fields[column] = _plain(value, name, listed=column == "steps")
    try:
        return to_example(Row(source, fields), "coconut", domain, need_steps)
    except BadRow as bad:
        name = names["question" if "question" in bad.detail else "answer" if "answer" in bad.detail else "steps"]
        raise BadRow(bad.reason, f"column '{name}': {bad.detail}") from bad


def _plain(value: Any, name: str, listed: bool) -> Any:
    """Return a cell as text, or as a list of texts."""
    if listed and (value is None or isinstance(value, list | tuple)):
        if all(isinstance(step, str) for step in value or ()):
            return list(value or ())
    elif isinstance(value, str) or (not listed and isinstance(plain_value(value), str)):
        return plain_value(value)
    wanted = "a list of strings or a string" if listed else "a string or a number"
    raise BadRow(BROKEN, f"column '{name}' must be {wanted}, got {type(value).__name__} {str(value)[:40]!r}")


def _record(name: str, examples: Sequence[Example]) -> dict[str, Any]:
    """Return what identifies examples in memory: unlike a file they have no hash of their own."""
    content = hashlib.sha256()
    for example in examples:
        content.update(json.dumps([example.question, example.steps, example.answer]).encode())
    return {"source": name, "sha256": content.hexdigest(), "left_out": {}}


def _combined(
    train: Sequence[LoadedSource],
    valid: LoadedSource | None,
    section: DataSettings,
    domain: Domain,
    need_steps: bool,
    index: Index | None,
) -> TrainingData:
    """Join the training sources, drop rows that are in `valid` or a test set, and record where everything comes from."""
    if section.canonical_operands and not hasattr(domain, "operations"):
        raise UserError(
            "data.canonical_operands: true reorders the operands of sums and products, but this data.domain has no "
            "operations. Remove it, or set data.domain: arithmetic."
        )
    left_out = Counter[str]()
    for source in train:
        left_out.update(source.record.get("left_out", {}))
    examples: Sequence[Example] = train[0].examples if len(train) == 1 else Joined([one.examples for one in train])
    questions = _held_out(valid, section)
    # the splits of generated sources are disjoint by construction
    generated = all(source is not None and source.is_generated for source in [*section.train, section.valid])
    if index is not None or (questions and not generated):
        refuse = partial(_refused, questions=questions, index=index)
        examples = _allowed(examples, refuse, left_out)
    if not len(examples):
        raise UserError("data.train: every question is also in data.valid or a test set; no row is left to train on.")
    if section.canonical_operands and need_steps:
        examples = CanonicalOperands(examples)
    prints = {f"train {i}: {one.record['source']}": fingerprint_of(one.record) for i, one in enumerate(train, start=1)}
    if valid is not None:
        prints[f"valid: {valid.record['source']}"] = fingerprint_of(valid.record)
    for name, record in (index.sets if index is not None else {}).items():
        prints[f"held against: {name}"] = fingerprint_of(record)
    return TrainingData(examples, valid.examples if valid else (), prints, dict(left_out))


def _held_out(valid: LoadedSource | None, section: DataSettings) -> set[bytes]:
    """Return the digests of validation questions that must not be trained on."""
    return {digest(e.question) for e in valid.examples} if valid is not None and section.exclude_valid else set()


def _refused(example: Example, questions: set[bytes], index: Index | None, augmented: bool = False) -> str | None:
    """Return why a row may not be trained on (or, with `augmented`, augmented); None if it may."""
    if digest(example.question) in questions:
        return IN_VALID
    return index.hit(example.question, augmented) if index is not None else None


def _allowed(
    examples: Sequence[Example], refuse: Callable[[Example], str | None], left_out: Counter[str]
) -> Sequence[Example]:
    """Return the rows that may be trained on; count the others."""
    refused, reasons = array("Q"), Counter[str]()
    for row, example in enumerate(examples):
        reason = refuse(example)
        if reason is not None:
            refused.append(row)
            reasons[reason] += 1
    left_out.update(reasons)
    for reason, count in reasons.items():
        why = "their question is in data.valid" if reason == IN_VALID else reason
        log.warning("%d training rows are left out: %s.", count, why)
    return Without(examples, refused) if reasons else examples


def fingerprint_of(record: Mapping[str, Any]) -> str:
    """Record of a source → its fingerprint: a content hash, or the generator's seed and revision."""
    found = record.get("sha256") or record.get("questions_sha256")
    revision = f", revision {record['revision']}" if "revision" in record else ""
    return found or f"seed {record['seed']}, {record['examples']:,} examples{revision}"
