"""The recipe's data section → training chains and validation questions, and an account of what was left out.

Training rows whose question stands in the validation set are dropped, so that what chooses the checkpoint was never
trained on; those that share a passage with a test set named in `decontaminate` are dropped too. A chain that is augmented is
held against both before its numbers are changed. Sources may write their rows on demand; only row numbers are kept of them.
"""

from __future__ import annotations

import itertools
import logging
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, overload

from ruplar.data.canonical_operands import canonical_operands
from ruplar.data.decontamination import Index, index_of
from ruplar.data.sources import SourceConfig, open_source
from ruplar.domains.base import Domain
from ruplar.errors import UserError
from ruplar.fingerprints import digest
from ruplar.types import Example

log = logging.getLogger(__name__)

IN_VALID = "question stands in valid"
_WHY = {IN_VALID: "their question stands in data.valid"}


@dataclass(frozen=True)
class Rows(Sequence):
    """Chosen rows of a longer sequence."""

    examples: Sequence[Example]
    chosen: Sequence[int]

    def __len__(self) -> int:
        return len(self.chosen)

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> Rows: ...
    def __getitem__(self, index: int | slice) -> Example | Rows:
        """One row, or fewer."""
        if isinstance(index, slice):
            return Rows(self.examples, self.chosen[index])
        return self.examples[self.chosen[index]]


@dataclass(frozen=True)
class Joined(Sequence):
    """Several sequences one after another."""

    sources: Sequence[Sequence[Example]]
    _ends: list[int] = field(init=False, repr=False)

    def __post_init__(self):
        object.__setattr__(self, "_ends", list(itertools.accumulate(len(s) for s in self.sources)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: Any) -> Any:
        """One row, or a list of them."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        index = index + len(self) if index < 0 else index
        for source, end in zip(self.sources, self._ends, strict=True):
            if index < end:
                return source[index - end + len(source)]
        raise IndexError(index)

    def __iter__(self):
        return itertools.chain.from_iterable(self.sources)


@dataclass(frozen=True)
class CanonicalOperands(Sequence):
    """Rows whose operands are put in order when they are asked for."""

    examples: Sequence[Example]

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, index: Any) -> Any:
        """One row, or a list of them."""
        found = self.examples[index]
        return [canonical_operands(one) for one in found] if isinstance(index, slice) else canonical_operands(found)

    def __iter__(self) -> Iterator[Example]:
        return map(canonical_operands, self.examples)


@dataclass(frozen=True)
class TrainingData:
    """What a run learns from and is chosen on.

    Attributes:
        train: The training chains.
        valid: The validation questions; empty without any.
        fingerprints: Part and source (`train 1: gsm8k-aug-train.txt`) → what identifies its content.
        left_out: Reason → rows left out.
    """

    train: Sequence[Example]
    valid: Sequence[Example]
    fingerprints: dict[str, str]
    left_out: dict[str, int]


def open_data(
    train: Iterable[SourceConfig],
    valid: SourceConfig | None,
    domain: Domain,
    *,
    need_steps: bool = True,
    skip_bad: bool = False,
    reorder_operands: bool = False,
    exclude_valid: bool = True,
    decontaminate: Sequence[str] = (),
) -> TrainingData:
    """Open every source of a run.

    Args:
        train: Where the training chains come from.
        valid: Where the validation questions come from.
        domain: What a step is.
        need_steps: Whether the method learns from steps, so that a row without one is bad.
        skip_bad: Leave bad rows out instead of stopping.
        reorder_operands: Put the operands of sums and products in canonical order; see `data/canonical_operands.py`.
        exclude_valid: Drop training rows whose question stands in `valid`.
        decontaminate: Test sets; training rows that equal one of their questions or share 13 words in a row are dropped.

    Raises:
        UserError: A source or a test set cannot be read, or nothing is left to train on; or the operands of a domain that is
            no arithmetic are to be put in order.
    """
    train = list(train)
    if reorder_operands and not hasattr(domain, "operations"):
        raise UserError(
            "data.canonical_operands: true puts the operands of sums and products in order, and this data.domain takes no step "
            "apart into operations. Leave it out, or set data.domain: arithmetic."
        )
    asked = None
    if valid is not None:
        asked = open_source(valid, domain, need_steps=False, skip_bad=skip_bad, split="valid")
    held = {digest(e.question) for e in asked.examples} if asked is not None and exclude_valid else set()
    index = index_of(decontaminate, domain) if decontaminate else None
    refuse = partial(_refused, held=held, index=index)
    parent = partial(_refused, held=held, index=index, retold=True)
    opened = [
        open_source(source, domain, need_steps=need_steps, skip_bad=skip_bad, split="train", refuse=parent)
        for source in train
    ]
    left_out: dict[str, int] = {}
    for record in [one.record for one in opened]:
        for reason, count in record.get("left_out", {}).items():
            left_out[reason] = left_out.get(reason, 0) + count
    examples: Sequence[Example] = opened[0].examples if len(opened) == 1 else Joined([one.examples for one in opened])
    if index is not None or (held and not _apart([*train, valid])):
        examples = _kept(examples, refuse, left_out)
    if not len(examples):
        raise UserError(
            "data.train: every row's question stands in data.valid or a test set; nothing is left to train on."
        )
    if reorder_operands and need_steps:
        examples = CanonicalOperands(examples)
    prints = {
        f"train {i}: {one.record['source']}": fingerprint_of(one.record) for i, one in enumerate(opened, start=1)
    }
    if asked is not None:
        prints[f"valid: {asked.record['source']}"] = fingerprint_of(asked.record)
    for name, record in (index.sets if index is not None else {}).items():
        prints[f"held against: {name}"] = fingerprint_of(record)
    return TrainingData(examples, asked.examples if asked else (), prints, left_out)


def _refused(example: Example, held: set[bytes], index: Index | None, retold: bool = False) -> str | None:
    """Why a row may not be trained on, or, with `retold`, told again with other numbers; None where it may."""
    if digest(example.question) in held:
        return IN_VALID
    hit = index.hit(example.question) if index is not None else None
    if hit is None and retold and index is not None:
        hit = index.masked_hit(example.question)
    return f"{hit.kind} as in {hit.set}" if hit else None


def _kept(
    examples: Sequence[Example], refuse: Callable[[Example], str | None], left_out: dict[str, int]
) -> Sequence[Example]:
    """The rows that may be trained on; the others are counted."""
    kept, reasons = array("Q"), Counter[str]()
    for row, example in enumerate(examples):
        reason = refuse(example)
        if reason is None:
            kept.append(row)
        else:
            reasons[reason] += 1
    for reason, count in reasons.items():
        left_out[reason] = left_out.get(reason, 0) + count
        log.warning("%d training rows are left out: %s.", count, _WHY.get(reason, reason))
    return Rows(examples, kept) if reasons else examples


def _apart(sources: Iterable[SourceConfig | None]) -> bool:
    """Whether all are word problems: their parts are disjoint by construction, so nothing has to be compared."""
    return all(source is not None and source.is_generated for source in sources)


def fingerprint_of(record: dict[str, Any]) -> str:
    """A source's record → what identifies its content: a hash, or the seed it is written from, and by which generator."""
    digest_found = record.get("sha256") or record.get("questions_sha256")
    revision = f", revision {record['revision']}" if "revision" in record else ""
    return digest_found or f"seed {record['seed']}, {record['examples']:,} examples{revision}"
