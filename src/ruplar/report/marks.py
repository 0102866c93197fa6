"""Rows → what must be said about their results, marked in a table: the protocol (`experiments/protocol.py`), seen questions.

¹ evaluated again, ² added after freezing, ³ evaluated before the protocol, ⁴ questions in the training data, ⁵ a model of another
study: signs behind the method, explained in the note. Where all results on test sets are from before the protocol, the note
says so without signs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ruplar.evaluate.record import study_of
from ruplar.report.rows import PLACE, Row, place_of
from ruplar.report.sets import set_label
from ruplar.report.table import Table

AGAIN, ADDED, BEFORE = "evaluated again", "added after freezing", "before the protocol"
SEEN, REUSED = "in training data", "model reused"
SIGNS = {AGAIN: "¹", ADDED: "²", BEFORE: "³", SEEN: "⁴", REUSED: "⁵"}
_MEANING = {
    AGAIN: "¹ A test set was evaluated again; the last result counts.",
    ADDED: "² The row was added after the first test set of the study was evaluated.",
    BEFORE: "³ Evaluated before the protocol: the rows were not frozen before test scores were known.",
    SEEN: "⁴ The model was trained on some of these questions.",
    REUSED: "⁵ Model reused from",
}
_ALL_BEFORE = "Test sets were evaluated before the protocol: the rows were not frozen before test scores were known."


def marks_of(row: Row) -> tuple[str, ...]:
    """Return what must be said about a row on its benchmark; of the protocol only for the test sets of a study."""
    results = [run.result for run in row.runs]
    tested = row.benchmark in study_of(row.runs[0].folder.parent).get("test", ())
    holds = {
        AGAIN: tested and any(result.evaluated_again for result in results),
        ADDED: tested and any(result.added_later for result in results),
        BEFORE: tested and any(not result.frozen_at for result in results),
        SEEN: any(result.trained_on for result in results),
        REUSED: any(run.record.model_from for run in row.runs),
    }
    return tuple(mark for mark in SIGNS if holds[mark])


def marked(table: Table, rows: Sequence[Row]) -> Table:
    """Add signs behind the methods of a table made from these rows, and their meaning to its note."""
    names = (*PLACE, "benchmark")
    found = {tuple(zip(names, (*place_of(row), set_label(row.benchmark)), strict=True)): marks_of(row) for row in rows}
    note = marks_note(rows)
    if not table.lines or not note:
        return table
    table = replace(table, note=f"{table.note} {note}".strip())
    if note == _ALL_BEFORE:
        return table
    at = table.names.index("method")

    def line(cells: tuple[str, ...]) -> tuple[str, ...]:
        own = dict(zip(table.names, cells, strict=True))
        same = (marks for of, marks in found.items() if all(own.get(name, cell) == cell for name, cell in of))
        signs = {SIGNS[mark] for marks in same for mark in marks}
        return (*cells[:at], cells[at] + "".join(sign for sign in SIGNS.values() if sign in signs), *cells[at + 1 :])

    return replace(table, lines=tuple(map(line, table.lines)))


def marks_note(rows: Iterable[Row]) -> str:
    """Explain the marks of rows; "" where there are none."""
    asked = [(marks_of(row), row) for row in rows]
    places = sorted({run.record.model_from for _, row in asked for run in row.runs} - {""})
    used = {mark for marks, _ in asked for mark in marks}
    tested = [marks for marks, row in asked if marks or any(run.result.frozen_at for run in row.runs)]
    if used == {BEFORE} and all(tested):
        return _ALL_BEFORE
    if len(places) > 3:
        folders = " and ".join(sorted({place.rpartition("/")[0] for place in places}))
        places = [f"{len(places)} runs in {folders} (`model_from` in each run.json)"]
    meanings = {**_MEANING, REUSED: f"{_MEANING[REUSED]} {', '.join(places)}."}
    return " ".join(meaning for mark, meaning in meanings.items() if mark in used)
