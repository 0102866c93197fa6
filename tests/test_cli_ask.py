"""`ruplar ask`, as it is typed."""

import io
import json
import sys

import pytest

QUESTION = "Tom has 3 bags of 4 apples. He eats 2 apples. How many apples are left?"


def test_ask_answers_with_its_thought(ruplar):
    found = ruplar("ask", "embedded", QUESTION, "--json", "--device", "cpu").json
    assert found["question"] == QUESTION and found["thought"] == "" and found["halted"] and found["ended"]
    assert found["latent_count"] == len(found["latents"]) > 0
    assert found["forwards"] == found["latent_count"] + 1 + found["answer_tokens"]
    for latent in found["latents"]:
        assert latent["probs"] == sorted(latent["probs"], reverse=True) and 0 <= latent["halt"] <= 1
    said = ruplar("ask", "embedded", QUESTION, "--device", "cpu")
    assert "z1" in said.out and found["answer"] in said.out and "soft tokens" in said.out
    assert said.out.index("loaded in") < said.out.index("z1") < said.out.rindex(" ms")


def test_questions_from_a_pipe_are_answered_a_line_each(ruplar, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{QUESTION}\n\n{QUESTION}\n"))
    lines = ruplar("ask", "embedded", "-", "--json", "--device", "cpu").out.splitlines()
    assert [json.loads(line)["question"] for line in lines] == [QUESTION, QUESTION]


@pytest.mark.parametrize("end", [" Quit \n", ""], ids=["quit", "Ctrl-D"])
def test_the_prompt_loop_ends_when_told_to(ruplar, monkeypatch, end):
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{QUESTION}\n{end}{QUESTION}\n" if end else f"{QUESTION}\n"))
    said = ruplar("ask", "embedded", "--device", "cpu")
    assert said.code == 0 and said.out.count("> ") == 2 and said.out.count(" ms") == 1
    assert "To end: exit, quit, Ctrl-D or an empty line" in said.out.splitlines()[1]


def test_an_empty_question_is_refused_before_anything_is_loaded(ruplar):
    said = ruplar("ask", "runs/nowhere", " ")
    assert said.code == 2 and "the question is empty" in said.err


def test_a_text_model_writes_its_thought(ruplar):
    found = ruplar("ask", "embedded:cot", QUESTION, "--json", "--device", "cpu").json
    assert found["thought"].startswith("<<") and found["latents"] == []


def test_noise_on_the_thought_follows_the_seed(ruplar, refused):
    words = ("ask", "embedded:ruplar", QUESTION, "--noise", "1.5", "--device", "cpu", "--json")
    assert ruplar(*words).json == ruplar(*words).json
    assert ruplar(*words, "--seed", "1").json["latents"] != ruplar(*words).json["latents"]
    assert "does not sample its latents" in refused(
        "ask", "embedded:no_cot", QUESTION, "--noise", "1", "--device", "cpu"
    )
