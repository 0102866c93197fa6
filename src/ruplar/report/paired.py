"""Rows of a study → who is ahead of whom, question by question: difference, interval, p-value, Holm's correction.

Both methods of a pair answered the same questions, so what counts is where they differ (`report/differences.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ruplar.errors import UserError, unknown
from ruplar.report.differences import Marks, difference, holm
from ruplar.report.outcomes import Question, groups_of, marks_of
from ruplar.report.rows import Row, study_of


@dataclass(frozen=True)
class Pair:
    """One row against another on one benchmark; `difference`, `low` and `high` in points, `holm` is p corrected.

    `groups` counts the scenarios that the questions share; None where each has its own.
    """

    study: str
    backbone: str
    benchmark: str
    method: str
    against: str
    n: int
    difference: float
    low: float
    high: float
    p: float
    holm: float
    test: str
    groups: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def pairs(rows: Sequence[Row], against: str | None = None) -> list[Pair]:
    """Every row against the best of its study, backbone and benchmark, or against the one named.

    The best has the highest accuracy; of equals, the one with fewer forwards. The row that is named may be of another study
    where no other is called so; rows of a study that were asked other questions than it, or whose answers were not kept, are
    then left out, and so is a benchmark on which it was not asked.

    Raises:
        UserError: No row has that name, or what is needed for pairing (samples, the same questions) is not there.
    """
    if against is not None and against not in {row.method for row in rows}:
        raise UserError(unknown("row", against, {row.method for row in rows}))
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.study, row.backbone, row.benchmark), []).append(row)
    found = []
    for group in groups.values():
        reference = _reference(group, rows, against)
        if reference is None:
            continue
        others = [row for row in group if row is not reference]
        if reference not in group:
            asked = marks(reference).keys()
            others = [row for row in others if _questions(row) == asked]
        found += _family(reference, others)
    return found


def _reference(group: Sequence[Row], rows: Sequence[Row], against: str | None) -> Row | None:
    """The best of a group, or the row that is named: the group's own, or the only one of that name elsewhere."""
    if against is None:
        return min(group, key=lambda row: (-row.accuracy, row.forwards))
    first = group[0]
    own = [row for row in group if row.method == against]
    named = [
        row
        for row in rows
        if row.method == against and (row.backbone, row.benchmark) == (first.backbone, first.benchmark)
    ]
    if own or len(named) == 1:
        return (own or named)[0]
    return None


def _questions(row: Row) -> Set[Question] | None:
    """What a row was asked; None where its answers were not kept, so that it can be compared with none."""
    try:
        return marks(row).keys()
    except UserError:
        return None


def _family(reference: Row, others: Sequence[Row]) -> list[Pair]:
    """One reference against the rest; p-values are corrected for how many they are."""
    found = []
    for row in others:
        first, second = marks(row), marks(reference)
        if first.keys() != second.keys():
            raise UserError(
                f"{row.benchmark}: '{row.method}' and '{reference.method}' were asked different questions, so they "
                "cannot be compared one by one."
            )
        alike = (row.study, row.seeds) == (reference.study, reference.seeds)
        shared = alike and _model_of(row) == _model_of(reference)
        groups = groups_of(row.runs[0].record, first)
        ours, theirs = _matrix(first), _matrix({question: second[question] for question in first})
        d = difference(ours, theirs, shared=shared, groups=groups)
        found.append(
            Pair(
                row.study,
                row.backbone,
                row.benchmark,
                row.method,
                reference.method,
                row.n,
                100 * d.mean,
                100 * d.low,
                100 * d.high,
                d.p,
                d.p,
                d.test,
                None if groups is None else max(groups) + 1,
            )  # fmt: skip
        )
    corrected = holm([pair.p for pair in found])
    return [replace(pair, holm=p) for pair, p in zip(found, corrected, strict=True)]


def _model_of(row: Row) -> str:
    """The row of its study whose models it asks: its own, or the one it names. A mean of models is none of them."""
    rows = study_of(row.runs[0].folder.parent).get("rows", {}) if row.runs else {}
    named = (one["of"] for one in rows.values() if one.get("label") == row.method and not one.get("mean"))
    return next(filter(None, named), row.method)


def marks(row: Row) -> dict[Question, list[bool]]:
    """Question, by place and words → right or wrong, one a run, read from the runs' samples."""
    found: dict[Question, list[bool]] = {}
    for run in row.runs:
        for question, right in marks_of(run.folder, run.result).items():
            found.setdefault(question, []).append(right)
    uneven = [question for question, right in found.items() if len(right) != len(row.runs)]
    if uneven:
        raise UserError(
            f"'{row.method}' on {row.benchmark}: its seeds were asked different questions ({uneven[0][1]!r})."
        )
    return found


def _matrix(found: Mapping[Any, Sequence[bool]]) -> Marks:
    return np.array(list(found.values()), dtype=float).T
