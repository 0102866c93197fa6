"""Date problems: every chain re-executes and fits its question, no scenario is in two splits or in the benchmark."""

import re
from collections import Counter
from itertools import pairwise

import pytest
from cases import cases
from checking import fault

from ruplar import plugins
from ruplar.domains._date_questions import divide, expected
from ruplar.problems import date_problems as overlap
from ruplar.problems.date_problems import _BIG_BENCH, OPENINGS, generate
from ruplar.problems.date_scenarios import EARLIEST, LATEST

SCENARIOS = {
    14318: "Today is the first day of 2007.",
    16640: "Today is the last day of the first quarter of 2008.",
    28136: "Lucy thought today is Mar 11, 2002, but today is in fact Mar 12, which is 1 day later.",
}


@pytest.mark.slow
def test_every_problem_re_executes_and_its_question_is_parsed_to_the_same_day():
    for e in generate(1200, 11):
        assert fault(e, "dates") is None and expected(e.question) is not None, e
        assert all(after.startswith(before.rpartition(" = ")[2]) for before, after in pairwise(e.steps)), e
        assert all(EARLIEST <= int(year) <= LATEST for year in re.findall(r"\b\d{4}\b", e.question + e.chain)), e


def test_all_openings_and_all_questions_of_date_understanding_occur():
    found = list(generate(1500, 2))
    asked = Counter(divide(e.question)[1] for e in found)
    for when, _, _ in _BIG_BENCH:
        assert asked[f"What is the date {when} in MM/DD/YYYY?"] > 50
    assert {len(e.steps) for e in found} == {1, 2, 3, 4}
    assert len(OPENINGS) == 13


def scenarios_of_date_understanding(folder):
    from ruplar.data.read import read

    domain = plugins.make("domains", "dates")
    files = ("date-understanding-train", "date-understanding")
    return {domain.scenario(e.question) for name in files for e in read(name, domain, data_dir=folder).examples}


def test_the_hashes_are_those_of_all_scenarios_of_date_understanding(benchmark_data):
    folder = benchmark_data("date-understanding-train", "date-understanding")
    theirs = scenarios_of_date_understanding(folder)
    assert len(theirs) == len(overlap.DATE_UNDERSTANDING) == 40  # of 41 texts two differ only in who is right
    assert {overlap.hash_of(scenario) for scenario in theirs} == overlap.DATE_UNDERSTANDING
    assert all(overlap.in_benchmark(scenario) for scenario in theirs)


def test_scenarios_of_both_files_are_recognized_by_their_hashes(data, monkeypatch):
    ours = scenarios_of_date_understanding(data)
    assert len(ours) == 6 and not any(overlap.in_benchmark(scenario) for scenario in ours)
    monkeypatch.setattr(overlap, "DATE_UNDERSTANDING", frozenset(map(overlap.hash_of, ours)))
    assert all(overlap.in_benchmark(scenario) for scenario in ours)


def test_a_scenario_of_date_understanding_is_drawn_again(monkeypatch):
    # SCENARIOS: problems of seed 1 whose scenarios are those of the benchmark when overlap is not checked
    monkeypatch.setattr("ruplar.problems.date_problems.in_benchmark", lambda scenario: False)
    before = {i: next(generate(1, 1, start=i, split="train")) for i in SCENARIOS}
    assert {i: divide(e.question)[0] for i, e in before.items()} == SCENARIOS
    monkeypatch.undo()
    after = {i: next(generate(1, 1, start=i, split="train")) for i in SCENARIOS}
    assert all(after[i].source == f"date-problems:1:{i}" for i in SCENARIOS)
    assert not {divide(e.question)[0] for e in after.values()} & set(SCENARIOS.values())


@pytest.mark.parametrize(("ours", "same"), cases(__file__, "scenarios"))
def test_a_scenario_is_the_same_however_its_dates_counts_and_people_are_written(ours, same):
    assert overlap.in_benchmark(ours) is same
