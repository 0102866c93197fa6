"""Name of a benchmark → its role (test or selection set), its label in tables, what its name does not say."""

from collections.abc import Sequence

from ruplar.data.locations import VALID, role_of
from ruplar.report.rows import Row

ABOUT = {"word-problems:held-out": "families of problems that are not in the training data"}
"""Benchmark → what its name does not say."""


def is_selection(benchmark: str) -> bool:
    """Whether checkpoints or settings are selected on this benchmark: `valid`, or a known set that is a selection set."""
    return benchmark == VALID or role_of(benchmark) == "selection"


def set_label(benchmark: str) -> str:
    """The benchmark's name in a table; a selection set is marked as one."""
    return f"{benchmark} (selection)" if is_selection(benchmark) else benchmark


def on_test_sets(rows: Sequence[Row]) -> list[Row]:
    """Leave out selection sets; keep all rows where there is nothing else."""
    return [row for row in rows if not is_selection(row.benchmark)] or list(rows)
