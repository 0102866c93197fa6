"""Rows with tries: they are tried first, the best one on validation is kept, and the row is then trained with it."""

import multiprocessing
import time

import pytest
import yaml
from cases import cases
from tiny import job_of

from ruplar.evaluate.record import BenchmarkResult, RunRecord, machine, write_record
from ruplar.experiments.plan import plan, rows_of
from ruplar.experiments.run import _ended
from ruplar.experiments.storage import write_failure
from ruplar.experiments.tries import PICKED, picks_of

ROWS, GRID = cases(__file__, "rows"), {"training.max_steps": [2, 4]}
RATES = ROWS["A"]["tries"]
TRIES = [f"A try learning_rate={rate}" for rate in ("0.001", "0.002", "0.005")]


@pytest.fixture
def study(make_study):
    return make_study(rows=ROWS, grid=GRID, seeds=[1, 2], controls=["data"])


def tried(study, places, **correct):
    """Write a record of each try: label's rate → correct answers of 100 on validation."""
    for cell in plan(study):
        rate = str(cell.config.training["learning_rate"])
        if cell.label in TRIES and rate in correct:
            about = {"commit": None, "dirty": None, "versions": {}, "machine": machine(), "started": ""}
            costs = dict.fromkeys(("latents", "answer_tokens", "forwards", "ms_per_question"), 1.0)
            result = BenchmarkResult(name="valid", n=100, correct=correct[rate], **costs)
            config = cell.config.as_dict()
            write_record(RunRecord(name="a", config=config, seed=1, benchmarks=[result], **about), places.result(cell))


def test_tries_come_first_with_one_seed_and_the_smallest_budget(study):
    cells = plan(study)
    assert [cell.name for cell in cells[:3]] == [f"{label.replace(' ', '_')}-seed1" for label in TRIES]
    assert {cell.config.training["max_steps"] for cell in cells[:3]} == {2}
    assert {cell.label for cell in cells[3:]} == {"C max_steps=2", "C max_steps=4"}, "A and B wait"
    assert [*rows_of(study)][:2] == ["A max_steps=2", "A max_steps=4"] and [*rows_of(study)][-3:] == TRIES


def test_the_best_try_on_validation_is_recorded_and_kept(study, places, ruplar, tmp_path):
    tried(study, places, **{"0.001": 40, "0.002": 60})
    assert picks_of(study, places) == {}, "one try is not over"
    tried(study, places, **{"0.005": 60})
    (tmp_path / "tiny.yaml").write_text(study.model_dump_json(exclude_defaults=True))
    assert "waiting  A_max_steps=4-seed2" in ruplar("study", "tiny.yaml", "--plan").out
    said = ruplar("train", "--row", "tiny.yaml:A max_steps=4", "--check").out
    assert yaml.safe_load(said)["training"]["learning_rate"] == 2e-3 and not (places.results / PICKED).exists()
    picks = picks_of(study, places, write=True)
    assert picks["A"]["settings"] == RATES[1] and picks["A"]["seed"] == 1, "the first of equal ones"
    tried(study, places, **{"0.001": 90})
    assert picks_of(study, places) == picks
    cells = {cell.name: cell for cell in plan(study, picks=picks)}
    assert {cells[f"A_max_steps={n}-seed2"].config.training["learning_rate"] for n in (2, 4)} == {2e-3}
    row = cells["B_max_steps=4-seed2"]
    assert (row.of, row.config.training["learning_rate"], row.inference) == ("A max_steps=4", 2e-3, {"max_latents": 2})


def test_a_failed_try_is_not_chosen_and_does_not_block_the_others(study, places):
    tried(study, places, **{"0.001": 0, "0.002": 0})
    last = next(cell for cell in plan(study) if cell.label == TRIES[2])
    write_failure(last, places, "out of memory", "session", again=True)
    assert picks_of(study, places) == {}, "it will be retried"
    process = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(60,))
    process.start()
    process.kill()
    _ended(last, process, job_of(study, places), lambda event: None)
    assert picks_of(study, places) == {}, "a killed try is run again"
    write_failure(last, places, "the loss is NaN", "session")
    assert picks_of(study, places)["A"]["settings"] == RATES[0]


def test_tries_at_a_value_of_the_grid_choose_for_it_and_the_later_ones(make_study, places):
    longer = [{"training.max_steps": 4, **one} for one in RATES[:2]]
    rows = {"A": {"recipe": "embedded-ruplar", "tries": RATES + longer}, "B": ROWS["B"]}
    study = make_study(rows=rows, grid={"training.max_steps": [2, 4, 8]}, seeds=[1, 2], controls=["data"])
    budgets = {cell.label: cell.config.training["max_steps"] for cell in plan(study)}
    more = {f"A try max_steps=4 learning_rate={rate}": 4 for rate in (0.001, 0.002)}
    assert budgets == {**dict.fromkeys(TRIES, 2), **more}
    short = {"A": {"settings": RATES[2], "seed": 1}}
    labels = {cell.label for cell in plan(study, picks=short)}
    assert {label for label in labels if "try" not in label} == {"A max_steps=2", "B max_steps=2"}
    cells = plan(study, picks={**short, "A max_steps=4": {"settings": longer[0], "seed": 1}})
    rates = {cell.label: cell.config.training["learning_rate"] for cell in cells if cell.seed == 2}
    assert rates == {f"{row} max_steps={n}": rate for row in "AB" for n, rate in ((2, 5e-3), (4, 1e-3), (8, 1e-3))}


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"on": [{"source": "word-problems", "count": 4}]}, "chosen on 'valid', which on: does not list"),
        ({"rows": {**ROWS, "D": {"of": "C", "tries": RATES}}}, "tries are settings of a training"),
    ],
)
def test_tries_that_cannot_be_chosen_are_refused(make_study, entries, said):
    with pytest.raises(ValueError, match=said):
        make_study(**{"rows": ROWS, **entries})
