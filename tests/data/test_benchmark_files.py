"""Every row of every known file loads, and what is known of the files holds: of our small ones, and of the real ones."""

import pytest
from cases import cases

from ruplar.config import DataSettings
from ruplar.data.locations import KNOWN_SETS
from ruplar.data.read import read
from ruplar.data.sources import SourceConfig
from ruplar.domains.arithmetic import Config, Domain
from ruplar.errors import UserError
from ruplar.train.dataset import IN_VALID, load_data

DOMAIN = Domain(Config())
ROWS = cases(__file__, "rows")


@pytest.mark.parametrize("real", [True, False], ids=["real", "invented"])
@pytest.mark.parametrize("name", ROWS)
def test_every_benchmark_file_loads_with_all_its_rows(data, benchmark_data, name, real):
    rows, with_steps = ROWS[name][0 if real else 1]
    reading = read(name, DOMAIN, need_steps=False, data_dir=benchmark_data(name) if real else data)
    assert (reading.rows, len(reading.examples), reading.left_out) == (rows, rows, {})
    assert sum(bool(e.steps) for e in reading.examples) == with_steps


@pytest.mark.parametrize(("real", "rows", "repeats"), [(False, 6, 1), (True, 600, 20)], ids=["invented", "real"])
def test_multiarith_repeats_questions_and_an_evaluation_keeps_them(data, benchmark_data, real, rows, repeats):
    reading = read("multiarith", DOMAIN, need_steps=False, data_dir=benchmark_data("multiarith") if real else data)
    assert (len(reading.examples), len(reading.repeats)) == (rows, repeats)


@pytest.mark.parametrize(
    ("real", "no_step", "rows", "first"),
    [(False, 2, "12", 3), pytest.param(True, 95, "7,473", 30, marks=pytest.mark.slow)],
    ids=["invented", "real"],
)
def test_gsm8k_rows_without_a_step_are_refused_for_training_unless_skipped(
    data, benchmark_data, real, no_step, rows, first
):
    folder = benchmark_data("gsm8k-train") if real else data
    with pytest.raises(UserError, match=rf"{no_step} of {rows} rows have no step \(first: gsm8k-train.jsonl:{first} "):
        read("gsm8k-train", DOMAIN, data_dir=folder)
    reading = read("gsm8k-train", DOMAIN, skip_bad=True, data_dir=folder)
    assert len(reading.examples) == int(rows.replace(",", "")) - no_step
    assert {r: len(p) for r, p in reading.left_out.items()} == {"no step": no_step}


@pytest.mark.parametrize(
    ("real", "negative", "fractions", "one"),
    [(False, 1, 3, "2.188641551523654e-09"), (True, 146, 303, "3244047.0999999996")],
    ids=["invented", "real"],
)
def test_gsm_hard_answers_compare_as_they_are_written(data, benchmark_data, real, negative, fractions, one):
    folder = benchmark_data("gsm-hard") if real else data
    answers = [e.answer for e in read("gsm-hard", DOMAIN, need_steps=False, data_dir=folder).examples]
    assert sum(a.startswith("-") for a in answers) == negative
    assert sum(not DOMAIN.same(a, a.split(".")[0]) for a in answers) == fractions
    assert one in answers


@pytest.mark.parametrize(("real", "least"), [(False, 8), (True, 4000)], ids=["invented", "real"])
def test_every_step_of_gsm8k_aug_is_carried_out_again_without_a_fault(data, benchmark_data, real, least):
    folder = benchmark_data("gsm8k-aug") if real else data
    steps = [step for e in read("gsm8k-aug", DOMAIN, need_steps=False, data_dir=folder).examples for step in e.steps]
    assert len(steps) >= least
    assert [fault for step in steps if (fault := DOMAIN.check(step))] == []


def test_the_small_files_are_those_of_the_known_sets_that_tests_read(data):
    assert {path.name for path in data.iterdir()} == {KNOWN_SETS[name].file for name in ROWS}


def test_training_on_gsm8k_leaves_out_the_questions_of_its_validation_set(benchmark_data, monkeypatch):
    monkeypatch.setenv("RUPLAR_DATA", str(benchmark_data("gsm8k-train", "gsm8k-aug-valid")))
    sources = {"train": [SourceConfig(source="gsm8k-train")], "valid": SourceConfig(source="gsm8k-aug-valid")}
    found = load_data(DataSettings(**sources, skip_bad=True), DOMAIN)
    # all 500 are in the training set, 6 of them without a step: 7,473 - 95 - 494
    assert (len(found.valid), found.left_out[IN_VALID], len(found.train)) == (500, 494, 6884)
