"""Cells of one study must have the same data and the same start, compared by content and not by name."""

import pytest

from ruplar.errors import UserError
from ruplar.evaluate.record import RunRecord, machine, write_record
from ruplar.experiments import storage
from ruplar.experiments.cell import check_same_data, check_same_start, start_of
from ruplar.experiments.plan import plan
from ruplar.io import write_json

START = "start: runs/cot"


@pytest.fixture
def study(make_study, places):
    """Data of a record of row B → row A's cell, the folders, all cells."""

    def make(data, init="runs/cot", reused=False):
        cells = plan(make_study(rows=dict.fromkeys("AB", "embedded-no_cot")))
        b = next(cell for cell in cells if cell.label == "B")
        record = record_of(data, init)
        if reused:
            write_record(record, places.result(b))
        else:
            write_json(places.run(b) / storage.TRAINED, record.model_dump(mode="json"))
        return next(cell for cell in cells if cell.label == "A"), places, cells

    return make


def record_of(data, init="runs/cot"):
    return RunRecord(
        name="b", config={"backbone": {"init": init}}, seed=1, commit=None, dirty=None, versions={}, machine=machine(),
        data=data, started="",
    )  # fmt: skip


@pytest.mark.parametrize("reused", [False, True])
def test_a_start_with_other_weights_is_refused_whether_the_other_cell_was_trained_or_reused(study, reused):
    cell, places, cells = study({START: "one"}, reused=reused)
    assert places.work.exists() != reused
    rest = (places, cells)
    check_same_start(cell, {START: "one"}, *rest)
    with pytest.raises(
        UserError, match="A, seed 1: its start runs/cot has other weights now than when 'B', seed 1, was trained"
    ):
        check_same_start(cell, {START: "two"}, *rest)


@pytest.mark.parametrize(
    ("theirs", "init", "warned"),
    [
        ({}, "runs/cot", True),
        ({}, "runs/other", False),
        ({}, None, False),
        ({"start: runs/other": "x"}, "runs/other", False),
    ],
)
def test_a_record_without_a_fingerprint_of_its_start_gives_a_warning(study, caplog, theirs, init, warned):
    cell, *rest = study(theirs, init)
    check_same_start(cell, {START: "one"}, *rest)
    assert ("the same weights as 'B', seed 1; their records have no fingerprint" in caplog.text) == warned
    caplog.clear()
    check_same_start(cell, {}, *rest)  # it starts from the base model
    assert caplog.text == ""


def test_data_is_compared_without_the_start_and_without_test_sets(study):
    theirs = {"train 1: a": "one", "valid: v": "two", START: "three", "test: t": "four"}
    cell, *rest = study(theirs)
    mine = record_of({**theirs, START: "other", "test: t": "other"})
    check_same_data(cell, mine, *rest)
    assert start_of(mine) == {START: "other"}
    for name in ("train 1: a", "valid: v"):
        with pytest.raises(UserError, match=f"'{name}' is changed, but {theirs[name]} in 'B', seed 1"):
            check_same_data(cell, record_of({**theirs, name: "changed"}), *rest)
