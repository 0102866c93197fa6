"""Cells of one study must have the same data and the same start, compared by content and not by name."""

import pytest

from ruplar.errors import UserError
from ruplar.evaluate.record import RunRecord, machine, write_record
from ruplar.experiments import storage
from ruplar.experiments.cell import _DATA, _START, check_same
from ruplar.experiments.plan import plan
from ruplar.io import write_json

MARKS = {"train 1: a": "one", "valid: v": "two", "start: runs/cot": "three", "test: t": "four"}


@pytest.mark.parametrize("evaluated", [False, True])
@pytest.mark.parametrize(("name", "kinds"), [("train 1: a", _DATA), ("valid: v", _DATA), ("start: runs/cot", _START)])
def test_data_and_starts_that_changed_under_their_name_are_refused(make_study, places, evaluated, name, kinds):
    cells = plan(make_study(rows=dict.fromkeys("AB", "embedded-no_cot")))
    cell, other = cells
    record = RunRecord(
        name="b", config={}, seed=1, commit=None, dirty=None, versions={}, machine=machine(), data=MARKS, started=""
    )
    if evaluated:  # its model may have been deleted
        write_record(record, places.result(other))
    else:
        write_json(places.run(other) / storage.TRAINED, record.model_dump(mode="json"))
    rest = (places, cells, kinds)
    check_same(cell, {**MARKS, "test: t": "changed", "start: runs/other": "x"}, *rest)
    with pytest.raises(UserError, match=f"A, seed 1: '{name}' is changed, but {MARKS[name]} in 'B', seed 1"):
        check_same(cell, {**MARKS, name: "changed"}, *rest)
