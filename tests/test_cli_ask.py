"""`ruplar ask`, and `ruplar evaluate` with several samples."""

import io
import json
import sys
from pathlib import Path

import pytest

QUESTION = "Tom has 3 bags of 4 apples. He eats 2 apples. How many apples are left?"
LONG = "apples " * 1100


@pytest.mark.parametrize("dtype", ["auto", "bfloat16"])
def test_ask_answers_with_its_thought(ruplar, dtype):
    found = ruplar("ask", "embedded", QUESTION, "--json", "--device", "cpu", "--dtype", dtype).json
    assert found["question"] == QUESTION and found["thought"] == "" and found["halted"] and found["ended"]
    assert found["latent_count"] == len(found["latents"]) > 0
    assert found["forwards"] == found["latent_count"] + 1 + found["answer_tokens"]
    for latent in found["latents"]:
        assert latent["probs"] == sorted(latent["probs"], reverse=True) and 0 <= latent["halt"] <= 1
    said = ruplar("ask", "embedded", QUESTION, "--device", "cpu")
    assert "z1" in said.out and found["answer"] in said.out and "soft tokens" in said.out
    assert said.out.index("loaded in") < said.out.index("z1") < said.out.rindex(" ms")


def test_questions_from_a_pipe_are_answered_a_line_each(ruplar, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{QUESTION}\n\n{LONG}\n{QUESTION}\n"))
    said = ruplar("ask", "embedded", "-", "--json", "--device", "cpu")
    assert [json.loads(line)["question"] for line in said.out.splitlines()] == [QUESTION, QUESTION]
    assert said.code == 2 and said.err.startswith("ruplar: line 3: question 1 has ")


@pytest.mark.parametrize("end", [" Quit \n", ""], ids=["quit", "Ctrl-D"])
def test_the_prompt_loop_ends_when_told_to(ruplar, monkeypatch, end):
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{LONG}\n{QUESTION}\n{end}{QUESTION if end else ''}"))
    said = ruplar("ask", "embedded", "--device", "cpu")
    assert said.code == 0 and said.out.count("> ") == 3 and said.out.count(" ms") == 1 and "question 1 has" in said.err
    assert "To end: exit, quit, Ctrl-D or an empty line" in said.out.splitlines()[1]


def test_json_of_the_prompt_is_a_line_each_and_a_byte_that_is_not_utf_8_is_reported(ruplar, monkeypatch):
    typed = io.BytesIO(f"How many caf\xe9s?\n{QUESTION}\n".encode("latin-1"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(typed, encoding="utf-8"))
    said = ruplar("ask", "embedded", "--json", "--device", "cpu")
    assert said.json["question"] == QUESTION and said.out.count("\n") == 1 and "after 'How many caf'" in said.err


def test_an_empty_question_is_refused_before_anything_is_loaded(ruplar):
    said = ruplar("ask", "runs/nowhere", " ")
    assert said.code == 2 and "the question is empty" in said.err


def test_a_text_model_writes_its_thought(ruplar):
    found = ruplar("ask", "embedded:cot", QUESTION, "--json", "--device", "cpu").json
    assert found["thought"].startswith("<<") and found["latents"] == []


@pytest.mark.slow
def test_ask_shows_the_votes_of_several_thoughts(ruplar):
    words = ("ask", "embedded:ruplar", QUESTION, "--samples", "6", "--noise", "1.5", "--device", "cpu")
    found = ruplar(*words, "--json").json
    assert sum(vote["votes"] for vote in found["votes"]) + found["unreadable"] == len(found["samples"]) == 6
    assert found["answer"] == found["votes"][0]["answer"]
    assert found["forwards"] == 1 + sum(sample["forwards"] - 1 for sample in found["samples"])
    assert len({str(sample["latents"]) for sample in found["samples"]}) > 1
    assert ruplar(*words, "--json").json == found, "the same seed draws the same"
    assert ruplar(*words, "--seed", "1", "--json").json["samples"] != found["samples"]
    shown = ruplar(*words).out
    assert "6 samples" in shown and f"{found['votes'][0]['votes']} ×" in shown


def test_without_noise_all_samples_would_be_identical(ruplar, refused):
    several = (QUESTION, "--samples", "4", "--device", "cpu")
    assert "nothing is random" in refused("ask", "embedded:ruplar", *several, "--noise", "0")
    assert "does not sample its latents" in refused("ask", "embedded:no_cot", *several)
    hot = ruplar("ask", "embedded:no_cot", *several, "--temperature", "1", "--json").json
    assert len(hot["samples"]) == 4


@pytest.mark.slow
def test_evaluate_records_vote_and_pass_at_k_next_to_the_greedy_result(ruplar):
    from ruplar.evaluate.record import read_record, read_samples

    run = ["evaluate", "embedded:ruplar", "--on", "word-problems", "--limit", "12", "--output", "run"]
    run += ["--device", "cpu"]
    assert ruplar(*run).code == 0
    shown = ruplar(*run, "--samples", "4", "--noise", "0.5").out
    assert "vote of 4" in shown and "pass@k" in shown and "k=4" in shown
    greedy, voted = read_record(Path("run")).benchmarks
    assert (greedy.decoding, greedy.samples, greedy.pass_at) == ("greedy", 1, {})
    assert (voted.samples, voted.n, set(voted.pass_at)) == (4, 12, {1, 2, 4})
    assert voted.pass_at[1].mean <= voted.pass_at[2].mean <= voted.pass_at[4].mean
    assert voted.latents == pytest.approx(4 * greedy.latents, rel=0.2)
    rows = read_samples(Path("run"))
    assert [row["decoding"] for row in rows] == ["greedy"] * 12 + ["vote of 4 noise=0.5"] * 12
