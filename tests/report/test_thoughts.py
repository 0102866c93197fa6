"""Sample rows become thoughts beside their steps; nothing is matched by guess."""

from __future__ import annotations

import pytest
from figure_toys import folder

from ruplar.evaluate.record import read_record, read_samples
from ruplar.report.material import pick_lengths, share_of_results_on_top, thoughts
from ruplar.report.rows import domain_of


@pytest.fixture(scope="module")
def domain():
    return domain_of(read_record(folder("ruplar")))


def row(tokens, steps=(), **more):
    """A sample row whose soft tokens hold these likeliest tokens."""
    latents = [{"tokens": [t, "="], "probs": [0.8, 0.2], "entropy": 0.5, "halt": 0.0} for t in tokens]
    found = {
        "benchmark": "toy", "seed": 0, "question": "How many?", "marked": "7", "text": "7", "correct": True, "latents": latents,
        "forwards": 5, "thought": "", "steps": list(steps), "latents_asked_for": len(steps) or None,
    }  # fmt: skip
    return {**found, **more}


def test_a_steps_result_stands_beside_its_soft_token(domain):
    [found] = thoughts([row(["7", "14"], ["3+4=7", "7*2=14"])], domain)
    assert found.results == ("7", "14") and share_of_results_on_top([found]) == (2, 2)


def test_another_number_of_steps_matches_nothing(domain):
    [found] = thoughts([row(["7"], ["3+4=7", "7*2=14"])], domain)
    assert found.results is None and share_of_results_on_top([found]) == (0, 0)


def test_older_rows_take_the_steps_of_a_right_text_chain_and_of_no_wrong_one(domain):
    mine = row(["7"])
    del mine["steps"]
    text = {"benchmark": "toy", "question": "How many?", "thought": "<<3+4=7>>", "correct": True, "forwards": 9}
    [right] = thoughts([mine], domain, [text])
    [wrong] = thoughts([mine], domain, [text | {"correct": False}])
    assert (right.steps, right.results, right.cost) == (("3+4=7",), ("7",), (5, 9))
    assert wrong.results is None and wrong.chain == "<<3+4=7>>"


def test_a_step_without_a_result_has_none(domain):
    [found] = thoughts([row(["7", "8"], ["3+4=7", "so eight"])], domain)
    assert found.results == ("7", None) and share_of_results_on_top([found]) == (1, 1)


def test_examples_are_picked_by_order_and_length(domain):
    rows = [row(["1"], question="a"), row(["1", "2"], question="b"), row(["1", "2", "3"], question="c", correct=False)]
    rows += [row(["1", "2", "3"], question="d"), row(["1", "2", "3"], question="e")]
    found = thoughts(rows, domain)
    assert [t.question for t in pick_lengths(found, 4)] == ["b", "d", "c"]


def test_rows_without_soft_tokens_are_no_thoughts(domain):
    assert thoughts(read_samples(folder("no_cot")), domain) == []


def test_solved_questions_of_the_embedded_model_hold_their_steps_results(domain):
    found = thoughts(read_samples(folder("ruplar")), domain, read_samples(folder("backbone")))
    hits, known = share_of_results_on_top([t for t in found if t.correct])
    assert known > 1000 and hits / known > 0.9
