"""Rows → CSV, one line per row; paired tests and the paper's printed numbers are further columns.

    study, method, …, acc_per_latent, marks        always; marks: asked again, added after freezing, before the protocol
    best, difference, …, test                      against the best of its study, backbone and benchmark
    against, against_difference, …, against_test   against the named row
    printed_accuracy, printed_latents              the paper's, for this method on this benchmark; not our runs

Differences and their intervals are in points; nothing is rounded. What does not apply is an empty cell.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from ruplar.report import paper
from ruplar.report.marks import marks_of
from ruplar.report.paired import Pair, pairs
from ruplar.report.rows import FIELDS, Row
from ruplar.report.tables import printed_names

TESTED = {
    "difference": "difference",
    "difference_low": "low",
    "difference_high": "high",
    "p": "p",
    "p_holm": "holm",
    "test": "test",
}
"""Column → attribute of a `Pair`."""
PRINTED = {"printed_accuracy": "accuracy", "printed_latents": "latents"}
"""Column → key of the paper's numbers."""

Cells = dict[str, Any]
"""Column → value; None where there is none."""


def to_csv(rows: Sequence[Row], *, tests: bool = False, against: str | None = None, printed: bool = False) -> str:
    """Format rows as CSV with a heading; seeds are joined by spaces, unknown values are empty.

    Args:
        rows: Of one study or several.
        tests: Add the test of every row against the best of its study, paired by question.
        against: Add the test against this row too.
        printed: Add what the paper printed, if there is a study among the rows.

    Raises:
        UserError: No row is named `against`, or the records do not allow pairing.
    """
    parts = [[_own(row) for row in rows]]
    if tests:
        parts.append(_tested(rows, pairs(rows), "best"))
    if against is not None:
        parts.append(_tested(rows, pairs(rows, against), "against", "against_"))
    if printed and any(row.study for row in rows):
        parts.append(_printed(rows))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*FIELDS, "acc_per_latent", "marks", *(name for part in parts[1:] for name in part[0])])
    for line in zip(*parts, strict=True):
        writer.writerow("" if value is None else value for cells in line for value in cells.values())
    return out.getvalue()


def _own(row: Row) -> Cells:
    derived = {"acc_per_latent": row.acc_per_latent, "marks": "; ".join(marks_of(row))}
    return {**row.as_dict(), "seeds": " ".join(map(str, row.seeds)), **derived}


def _tested(rows: Sequence[Row], found: Sequence[Pair], reference: str, prefix: str = "") -> list[Cells]:
    """For every row the test it is in; the column `reference` names the row it was tested against."""
    by_row = {(pair.study, pair.method, pair.backbone, pair.benchmark): pair for pair in found}
    attributes = {reference: "against"} | {prefix + column: name for column, name in TESTED.items()}
    tested = [by_row.get((row.study, row.method, row.backbone, row.benchmark)) for row in rows]
    return [{column: pair and getattr(pair, name) for column, name in attributes.items()} for pair in tested]


def _printed(rows: Sequence[Row]) -> list[Cells]:
    """For every row what the paper printed under the name that `printed_table` uses."""
    names = printed_names(rows)
    found: list[Cells] = []
    for row in rows:
        name = names.get((row.study, row.method))
        cell: Mapping[str, float | None] = {} if name is None else paper.printed(name)[0].cells.get(row.benchmark, {})
        found.append({column: cell.get(key) for column, key in PRINTED.items()})
    return found
