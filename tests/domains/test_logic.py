"""The logic domain: a step's inputs and its concept, chains followed along the facts of their question, and ProsQA."""

import json
from dataclasses import replace

import pytest
from cases import cases

from ruplar import plugins
from ruplar.data.check import check_chains
from ruplar.data.read import read
from ruplar.domains import _facts
from ruplar.domains.base import faults
from ruplar.types import Example

DOMAIN = plugins.make("domains", "logic")
QUESTION = (
    "Every terpus is a brimpus. Tom is a terpus. Every brimpus is a lempus. Every terpus is a dumpus. "
    "Sally is a rempus. Every rempus is a scrompus. Every rempus is a brimpus. Is Tom a scrompus or lempus?"
)
GOOD = Example(
    QUESTION, ("Tom is a terpus.", "Every terpus is a brimpus.", "Every brimpus is a lempus."), "Tom is a lempus."
)


def test_a_step_has_its_inputs_and_its_concluded_concept():
    assert DOMAIN.symbols("Every terpus is a brimpus.") == ["terpus", "brimpus"]
    assert DOMAIN.symbols("Tom is a terpus.") == ["Tom", "terpus"]
    assert DOMAIN.result("Every terpus is a brimpus.") == ["brimpus"]
    assert DOMAIN.result("Who knows?") == [] and DOMAIN.unchecked("Who knows?")


def test_steps_stand_in_marks_or_are_sentences():
    assert DOMAIN.split("<<Tom is a terpus.>> <<Every terpus is a brimpus.>>") == list(GOOD.steps[:2])
    assert DOMAIN.split("Tom is a terpus. Every terpus is a brimpus.") == list(GOOD.steps[:2])
    assert DOMAIN.split("So it goes.") == []


def test_answers_are_compared_by_what_they_conclude():
    assert DOMAIN.same("Tom is a lempus", "Tom is a lempus.") and DOMAIN.same("lempus", "Tom is a lempus.")
    assert not DOMAIN.same("Sally is a lempus.", "Tom is a lempus.")
    assert not DOMAIN.same("Tom is a scrompus.", "Tom is a lempus.")
    assert not DOMAIN.same("Every Tom is a lempus.", "Tom is a lempus.")


@pytest.mark.parametrize(("change", "fault"), cases(__file__, "faults"))
def test_errors_of_a_chain(change, fault):
    change = {key: QUESTION.replace(*value) if key == "question" else value for key, value in change.items()}
    assert fault in faults(DOMAIN, replace(GOOD, **change))


def test_an_answer_about_somebody_else_is_wrong_even_without_facts():
    row = Example("Is Tom a brimpus or yumpus?", ("Tom is a brimpus.",), "Bob is a brimpus.")
    assert faults(DOMAIN, row)[:2] == [
        "the chain cannot be checked: the question has no facts",
        "the answer is about Bob, but the question is about Tom",
    ]


def test_a_question_with_either_is_read():
    either = QUESTION.replace("Is Tom a scrompus or lempus?", "Is Tom either a scrompus or a lempus?")
    assert _facts.parse_question(either)[1] == _facts.Query("Tom", "scrompus", "lempus")
    assert faults(DOMAIN, replace(GOOD, question=either)) == []
    assert faults(DOMAIN, replace(GOOD, question=either, answer="Tom is a scrompus."))


def test_a_chain_with_an_unreadable_question_is_not_accepted(tmp_path):
    unread = replace(GOOD, question=QUESTION.replace("Is Tom a scrompus or lempus?", "Who is Tom?"))
    why = "the chain cannot be checked: 'Who is Tom?' is not a question such as 'Is Tom a lempus or a scrompus?' or 'What is Tom?'"
    assert DOMAIN.unchecked_chain(GOOD) is None and DOMAIN.unchecked_chain(unread) == why
    assert faults(DOMAIN, unread) == [why]
    row = {"question": unread.question, "steps": list(unread.steps), "answer": unread.answer}
    (tmp_path / "rows.json").write_text(json.dumps([row]))
    found = check_chains(str(tmp_path / "rows.json"), DOMAIN)
    assert [what for _, what in found.found["wrong_chains"]] == [why]
    assert found.right == 0 and [what for _, what in found.found["unchecked"]] == [
        f"{step}: {why}" for step in unread.steps
    ]


def test_a_tautology_is_wrong():
    assert DOMAIN.check("Every terpus is a terpus.") == "Every terpus is a terpus is a tautology"


def test_two_orders_of_the_same_facts_are_one_scenario():
    first, second, rest = QUESTION.split(". ", 2)
    assert DOMAIN.scenario(QUESTION) == DOMAIN.scenario(f"{second}. {first}. {rest}")


@pytest.mark.parametrize(("real", "rows"), [(False, 6), (True, 300)], ids=["invented", "real"])
def test_all_rows_of_prosqa_are_read_and_follow_their_graph(data, benchmark_data, real, rows):
    folder = benchmark_data("prosqa-valid") if real else data
    reading = read("prosqa-valid", DOMAIN, data_dir=folder)
    raw = json.loads((folder / "prosqa-valid.json").read_text())
    assert len(reading.examples) == len(raw) == rows
    for example, row in zip(reading.examples, raw, strict=True):
        assert faults(DOMAIN, example) == [], example.source
        # the facts of the question are the edges of the row's graph
        names = row["idx_to_symbol"]
        facts, asked = _facts.parse_question(example.question)
        assert sorted((f.subject, f.concept) for f in facts) == sorted((names[a], names[b]) for a, b in row["edges"])
        assert {asked.one, asked.other} == {names[row["target"]], names[row["neg_target"]]}
        assert DOMAIN.result(example.steps[-1]) == [names[row["target"]]]
