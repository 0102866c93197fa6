"""Which questions share a scenario, and what that does to a table."""

import json
import logging
from pathlib import Path

import pytest
from report_toys import record, write_run

from ruplar.evaluate.record import SAMPLES
from ruplar.evaluate.stats import over_seeds, wilson
from ruplar.report.paired import pairs
from ruplar.report.rows import collect, groups_of
from ruplar.report.table import to_markdown
from ruplar.report.tables import latent_ablation_table, tables

STORIES = ("Today is 3/4/2020.", "Jane was born on 5/6/1999. It is her birthday today.")
ASKED = ("tomorrow", "yesterday", "a week ago")
QUESTIONS = [f"{story} What is the date {when} in MM/DD/YYYY?" for story in STORIES for when in ASKED]
DATES = Path(__file__).parents[2] / "results" / "smollm2-dates"


def write(folder, label, seed, marks, domain="dates"):
    """A run of a study on six questions about two scenarios."""
    return write_run(folder, label, seed, marks, QUESTIONS, domain={"name": domain})


def test_questions_that_tell_the_same_are_one_group():
    run = record().model_copy(update={"config": {"domain": {"name": "dates"}}})
    assert groups_of(run, enumerate(QUESTIONS)) == [0, 0, 0, 1, 1, 1]
    assert groups_of(run, enumerate(QUESTIONS[::3])) is None, "one question per scenario"
    assert groups_of(run, enumerate(["What is the date today?", "What is the date tomorrow?"])) is None, (
        "no premise, so no scenario"
    )


@pytest.mark.parametrize("config", [{}, {"domain": {"name": "arithmetic"}}, {"domain": {"name": "elsewhere.domain"}}])
def test_a_domain_without_scenarios_has_no_groups(config, caplog):
    run = record().model_copy(update={"config": config})
    assert groups_of(run, enumerate(QUESTIONS)) is None
    assert ("elsewhere.domain" in caplog.text) == ("elsewhere" in str(config)), (
        "warn only about a domain that cannot be loaded"
    )


def test_the_interval_of_a_row_is_that_of_its_scenarios(tmp_path):
    write(tmp_path, "good", 1, "111001")
    [row] = collect(tmp_path)
    # worked out in test_stats.py: variance 1/9, as two questions, one degree of freedom
    assert (row.groups, row.low, row.high) == (2, pytest.approx(0.55, abs=0.05), pytest.approx(99.86, abs=0.05))
    write(tmp_path, "good", 1, "111001", domain="arithmetic")
    [row] = collect(tmp_path)
    assert row.groups is None and (row.low, row.high) == pytest.approx([100 * end for end in wilson(4, 6)])


def test_pairs_are_tested_by_scenario_with_one_seed_and_with_several(tmp_path):
    write(tmp_path, "good", 1, "111001")
    write(tmp_path, "bad", 1, "000000")
    [pair] = pairs(collect(tmp_path))
    # 3 - 2 = 1 and 1 - 2 = -1: variance 2 * (1 + 1) / 36 = 1/9; t = 2/3 / (1/3) = 2 with one degree of freedom:
    # p = 1 - 2/pi * atan(2) = 0.2952; McNemar would say 2 / 2^4 = 0.125
    assert (pair.test, pair.groups, pair.p) == ("t, scenarios", 2, pytest.approx(0.2952, abs=5e-5))
    write(tmp_path, "good", 2, "111000")
    write(tmp_path, "bad", 2, "000000")
    [pair] = pairs(collect(tmp_path))
    # by question 1 1 1 0 0 0.5: sums ±5/4, variance 25/144; seeds 4/6 and 3/6: 1/144; single answers 1/144, counted twice
    # together (1 + 25 - 1) / 144, t = 7/12 / (5/12) = 1.4; freedom 25² / (1 + 24²) = 1.08, taken as 1
    assert (pair.test, pair.p) == ("t, seeds and scenarios", pytest.approx(0.3949, abs=5e-5))


def test_a_table_says_how_many_scenarios_its_questions_are_about(tmp_path):
    write(tmp_path, "good", 1, "111001")
    write(tmp_path, "bad", 1, "000000")
    found = tables(collect(tmp_path))
    said = "svamp has 6 questions about 2 scenarios: the interval is clustered by scenario"
    assert said in to_markdown(found)
    assert "'scenarios': the variance of the questions is clustered by scenario; svamp has 6" in found[2].note
    for label in ("good", "bad"):
        write(tmp_path, label, 1, "111001", domain="arithmetic")
    assert "scenario" not in to_markdown(tables(collect(tmp_path)))


def test_ablations_have_counts_alone_and_say_so(tmp_path):
    home = write(tmp_path, "good", 1, "111001")
    for on in ("svamp", "another"):
        (home / "ablation.json").write_text(json.dumps({"on": on, "rows": [{"mode": "real", "n": 6, "correct": 4}]}))
        assert ("treated as independent" in latent_ablation_table(collect(tmp_path)).note) == (on == "svamp")


def test_without_samples_the_questions_are_taken_as_independent_and_that_is_told(tmp_path, caplog):
    (write(tmp_path, "good", 1, "111001") / SAMPLES).unlink()
    with caplog.at_level(logging.WARNING):
        [row] = collect(tmp_path)
    assert row.groups is None and "treats the questions as independent" in caplog.text
    assert (row.low, row.high) == pytest.approx([100 * end for end in wilson(4, 6)])


def test_the_records_of_date_understanding_are_grouped_from_their_questions():
    rows = [row for row in collect(DATES) if row.benchmark == "date-understanding-by-scenario"]
    assert rows
    for row in rows:
        assert row.groups is not None and 2 <= row.groups < row.n / 5, "about nine questions a scenario"
        low, high = over_seeds([run.result.correct / row.n for run in row.runs], row.n)[1]
        assert row.low <= 100 * low and row.high >= 100 * high
    assert all("scenarios" in pair.test and pair.test != "McNemar, questions" for pair in pairs(rows))
