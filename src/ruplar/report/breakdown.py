"""Rows of a study → percent of the reference on each set with its interval, and accuracy by the number of reference steps."""

from collections.abc import Mapping, Sequence

from ruplar.evaluate.samples import read_steps
from ruplar.report import paper
from ruplar.report.paired import ratio
from ruplar.report.rows import Labels, Row, apart, marks, place_of
from ruplar.report.sets import on_test_sets
from ruplar.report.table import NONE, Table

MOST = 8
"""Questions with more reference steps are counted with these."""


def shares_table(rows: Sequence[Row], references: Mapping[str, Labels]) -> Table:
    """One line per method and one column per set: percent of the accuracy of its reference, with its interval.

    Args:
        rows: Of one study or several; selection sets are left out where there are others.
        references: Study → method → the row that is 100 %.
    """
    tested = on_test_sets(rows)
    named = {(row.study, row.backbone, row.benchmark, row.method): row for row in tested}
    place, sets = apart(tested), set()
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for row in tested:
        of = references.get(row.study, {}).get(row.method, "")
        reference = named.get((row.study, row.backbone, row.benchmark, of))
        if reference is None or reference is row or not reference.accuracy:
            continue
        share, low, high = ratio(row, reference)
        line = cells.setdefault((*place_of(row, place), of), {})
        line[row.benchmark] = f"{100 * share:.1f} [{100 * low:.1f}, {100 * high:.1f}]"
        sets.add(row.benchmark)
    of_all = list(dict.fromkeys(of for *_, of in cells))
    texts = len(place) + (len(of_all) > 1)
    lines = tuple((*key[:texts], *(line.get(name, NONE) for name in _in_order(sets))) for key, line in cells.items())
    note = (
        "Accuracy over that of the reference, in percent. The 95 % confidence interval is paired by question (delta method) and "
        "covers the seeds where both rows have several."
    )
    names = (*place, "reference")[:texts] + tuple(paper.BENCHMARKS.get(name, name) for name in _in_order(sets))
    title = f"Percent of {of_all[0] if len(of_all) == 1 else 'the reference'}, by set"
    return Table(names, lines, texts, title, note if lines else "")


def steps_table(rows: Sequence[Row]) -> Table | None:
    """Accuracy by the number of steps of the reference chain, on the first set that has chains."""
    made = (_steps(rows, name) for name in _in_order({row.benchmark for row in rows}))
    return next((table for table in made if table is not None), None)


def _steps(rows: Sequence[Row], benchmark: str) -> Table | None:
    lines, counts, place = [], dict[int, int](), apart(rows)
    for row in (row for row in rows if row.benchmark == benchmark):
        steps = read_steps(row.runs[0].folder, benchmark)
        right: dict[int, list[float]] = {}
        for question, found in marks(row.runs).items():
            count = min(steps.get(question, 0), MOST)
            right.setdefault(count, []).append(sum(found) / len(found))
        right.pop(0, None)  # no chain
        lines.append((place_of(row, place), right))
        counts |= {count: len(values) for count, values in right.items()}
    if len(counts) < 2:
        return None
    heads = [f"{count}{' or more' if count == MOST else ''} (n = {counts[count]:,})" for count in sorted(counts)]
    cells = tuple(
        (*key, *(f"{100 * sum(r[c]) / len(r[c]):.1f}" if c in r else NONE for c in sorted(counts))) for key, r in lines
    )
    name = paper.BENCHMARKS.get(benchmark, benchmark)
    return Table((*place, *heads), cells, len(place), f"{name}: accuracy % by number of reference steps")


def _in_order(sets: set[str]) -> list[str]:
    return [name for name in paper.FOUR if name in sets] + sorted(sets - set(paper.FOUR))
