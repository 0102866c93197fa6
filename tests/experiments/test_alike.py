"""Cells of one study: the same data and the same start, by what they held and not by their names."""

from __future__ import annotations

import json

import pytest

from ruplar.errors import UserError
from ruplar.evaluate.record import RECORD, RunRecord, machine, write_record
from ruplar.experiments import storage as disk
from ruplar.experiments.consistency import check_same_data, check_same_start, start_of
from ruplar.experiments.plan import plan

START = "start: runs/cot"


@pytest.fixture
def study(make_study, tmp_path):
    """Rows A and B, and what a record of B says of its data → A, the places, all cells."""

    def make(data, init="runs/cot", taken=False):
        cells = plan(make_study(rows=dict.fromkeys("AB", "embedded-no_cot")))
        places = disk.Places(tmp_path / "results", tmp_path / "runs")
        b = next(cell for cell in cells if cell.label == "B")
        record = record_of(data, init)
        if taken:
            write_record(record, places.result(b))
        else:
            disk.write_json(places.run(b) / disk.TRAINED, record.model_dump(mode="json"))
        return next(cell for cell in cells if cell.label == "A"), places, cells

    return make


def record_of(data, init="runs/cot"):
    return RunRecord(
        name="b", config={"backbone": {"init": init}}, seed=1, commit=None, dirty=None, versions={}, machine=machine(),
        data=data, started="",
    )  # fmt: skip


@pytest.mark.parametrize("taken", [False, True])
def test_a_start_that_holds_other_weights_is_refused_whether_the_other_was_trained_or_taken(study, taken):
    cell, *rest = study({START: "one"}, taken=taken)
    check_same_start(cell, {START: "one"}, *rest)
    with pytest.raises(
        UserError, match="A, seed 1: runs/cot, where it begins, holds other weights than when 'B', seed 1"
    ):
        check_same_start(cell, {START: "two"}, *rest)


@pytest.mark.parametrize(
    ("theirs", "init", "told"),
    [
        ({}, "runs/cot", True),
        ({}, "runs/other", False),
        ({}, None, False),
        ({"start: runs/other": "x"}, "runs/other", False),
    ],
)
def test_a_record_that_does_not_say_what_its_start_held_is_told_of(study, caplog, theirs, init, told):
    cell, *rest = study(theirs, init)
    check_same_start(cell, {START: "one"}, *rest)
    assert ("as 'B', seed 1 cannot be told" in caplog.text) == told
    caplog.clear()
    check_same_start(cell, {}, *rest)  # it begins at the plain backbone
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


def test_the_record_in_results_is_read_where_nothing_was_trained_here(study):
    cell, places, cells = study({START: "one"}, taken=True)
    [file] = places.results.rglob(RECORD)
    assert json.loads(file.read_text())["data"] == {START: "one"} and not places.work.exists()
    with pytest.raises(UserError, match="holds other weights"):
        check_same_start(cell, {START: "two"}, places, cells)
