"""Rows and pairs → the sentences below a table: what its intervals and tests cover, and which questions share a scenario."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ruplar.report.paired import Pair
from ruplar.report.rows import Row

INTERVALS = (
    "Accuracy is the mean over seeds; its 95 % interval covers the chance of the questions and, from two seeds on, that of "
    "the seeds."
)
PAIRED = (
    "Paired by question. p (Holm) is corrected for the rows compared on one benchmark; * below 0.05. "
    "'seeds and questions': both kinds of chance are in the test; otherwise only that of the questions."
)


def scenarios_counted(rows: Iterable[Row]) -> str:
    """For a table of accuracies: `date-understanding has 74 questions about 34 scenarios: …`; "" where none is shared."""
    told = _told(rows)
    return f"{told}: the interval is that of scenarios, whose questions stand or fall together." if told else ""


def scenarios_tested(pairs: Iterable[Pair]) -> str:
    """For a table of tests, behind its note; "" where no scenario is shared."""
    told = _told(pairs)
    return f" 'scenarios': their chance stands for that of the questions; {told}." if told else ""


def scenarios_unseen(rows: Iterable[Row], on: Collection[str]) -> str:
    """For a table made of counts alone, which cannot tell scenarios apart, behind its note; "" where none is shared."""
    told = _told(row for row in rows if row.benchmark in on)
    return f" Only counts are on record, so questions are taken as independent here; {told}." if told else ""


def _told(found: Iterable[Row | Pair]) -> str:
    """`a has 90 questions about 10 scenarios, b has 500 questions about 495 scenarios`; "" where none is shared."""
    sets = dict.fromkeys((one.benchmark, one.n, one.groups) for one in found if one.groups is not None)
    return ", ".join(f"{name} has {n:,} questions about {groups:,} scenarios" for name, n, groups in sets)
