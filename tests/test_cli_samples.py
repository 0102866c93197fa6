"""`ask` and `evaluate` with several samples, as they are typed."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from ruplar.cli import app
from ruplar.errors import UserError

QUESTION = "Tom has 3 bags of 4 apples. He eats 2 apples. How many apples are left?"


def typed(*words: str) -> str:
    said = CliRunner().invoke(app, [*words, "--device", "cpu"])
    if said.exception is not None and not isinstance(said.exception, SystemExit):
        raise said.exception
    return said.stdout


def test_ask_shows_the_votes_of_several_thoughts():
    words = ("ask", "embedded:ruplar", QUESTION, "--samples", "6", "--noise", "1.5")
    found = json.loads(typed(*words, "--json"))
    assert sum(vote["votes"] for vote in found["votes"]) + found["unreadable"] == len(found["samples"]) == 6
    assert found["answer"] == found["votes"][0]["answer"]
    assert found["forwards"] == 1 + sum(sample["forwards"] - 1 for sample in found["samples"])
    assert len({str(sample["latents"]) for sample in found["samples"]}) > 1
    assert json.loads(typed(*words, "--json")) == found, "the same seed draws the same"
    assert json.loads(typed(*words, "--seed", "1", "--json"))["samples"] != found["samples"]
    shown = typed(*words)
    assert "6 samples" in shown and f"{found['votes'][0]['votes']} ×" in shown


def test_without_noise_all_samples_would_be_one(tmp_path):
    with pytest.raises(UserError, match="nothing is drawn"):
        typed("ask", "embedded:ruplar", QUESTION, "--samples", "4", "--noise", "0")
    with pytest.raises(UserError, match="does not sample its latents"):
        typed("ask", "embedded:no_cot", QUESTION, "--samples", "4")
    hot = json.loads(typed("ask", "embedded:no_cot", QUESTION, "--samples", "4", "--temperature", "1", "--json"))
    assert len(hot["samples"]) == 4


def test_evaluate_records_vote_and_pass_at_k_beside_the_greedy_result(tmp_path):
    from ruplar.evaluate.record import read_record, read_samples

    run = ("evaluate", "embedded:ruplar", "--on", "word-problems", "--limit", "12", "--output", str(tmp_path / "run"))
    typed(*run)
    shown = typed(*run, "--samples", "4", "--noise", "0.5")
    assert "vote of 4" in shown and "pass@k" in shown and "k=4" in shown
    greedy, voted = read_record(tmp_path / "run").benchmarks
    assert (greedy.decoding, greedy.samples, greedy.pass_at) == ("greedy", 1, {})
    assert (voted.samples, voted.n, set(voted.pass_at)) == (4, 12, {1, 2, 4})
    assert voted.pass_at[1].mean <= voted.pass_at[2].mean <= voted.pass_at[4].mean
    assert voted.latents == pytest.approx(4 * greedy.latents, rel=0.2)
    rows = read_samples(tmp_path / "run")
    assert [row["decoding"] for row in rows] == ["greedy"] * 12 + ["vote of 4 noise=0.5"] * 12
