"""Questions with stored thoughts are shown with their soft tokens, their answers and the chain a text method wrote."""

import numpy as np
import pytest
from figure_toys import RECORDS, folder

from ruplar.evaluate.record import read_samples
from ruplar.report.rows import collect
from ruplar.report.thoughts import certainty, pick, thoughts


def test_thoughts_stand_beside_the_chain_they_replace():
    rows = collect(RECORDS)
    text = thoughts(rows)
    assert text.startswith("Thoughts of RuPLaR on word-problems:")
    assert "  z1 ████████████████░░░░  60 0.79  20 0.07" in text and "  answer  30 (correct), 5 forward passes" in text
    assert "  chain   <<20+40=60>> <<60/2=30>>, 17 forward passes" in text
    assert text.count("(correct)") == 3 and "178 (wrong, the correct answer is 850)" in text
    alone = thoughts([row for row in rows if row.method == "RuPLaR"])
    assert "answer  30 (correct)" in alone and "chain" not in alone


def test_examples_are_picked_by_order_and_length():
    asked = {"a": (1, True), "b": (2, True), "c": (3, False), "d": (3, True), "e": (3, True), "f": (0, False)}
    samples = [{"question": q, "latents": [{}] * n, "correct": right} for q, (n, right) in asked.items()]
    assert [sample["question"] for sample in pick(samples, 4)] == ["b", "d", "c"]
    assert [sample["question"] for sample in pick(samples, 2)] == ["b", "c"]


@pytest.mark.slow
def test_the_certainty_of_every_stored_soft_token_is_drawn():
    latents = [z for one in read_samples(folder("ruplar")) for z in one["latents"]]
    drawing = certainty(collect(RECORDS))
    top, entropy, both = drawing.figure.axes
    for axes in (top, entropy):
        assert sum(bar.get_height() for bar in axes.patches) == len(latents) == 1657
    points = np.vstack([found.get_offsets() for found in both.collections])
    assert sorted(points.tolist()) == sorted([z["probs"][0], z["entropy"]] for z in latents)
    assert "the 1,657 soft tokens of RuPLaR on word-problems" in drawing.caption and "500 questions" in drawing.caption
    assert certainty(collect(RECORDS.parent / "qwen-0.5b")) is None, "those of 100 questions are on record"


def test_without_soft_tokens_there_are_no_thoughts():
    assert thoughts([row for row in collect(RECORDS) if row.method != "RuPLaR"]) == ""
