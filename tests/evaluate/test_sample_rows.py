"""A row of samples.jsonl.gz holds what the figures need, and little more."""

from __future__ import annotations

from ruplar.evaluate.samples import sample
from ruplar.types import Answer, Example, Latent, Score


def row(probs):
    tokens = tuple(f"t{i}" for i in range(len(probs)))
    answer = Answer("7", latents=(Latent(tokens, tuple(probs), 0.123456, 1.23e-7),), latent_count=1)
    example = Example("How many?", ("3+4=7",), "7", "toy:1")
    return sample("toy", 0, 0, example, answer, Score(True, "7"))


def test_the_marked_steps_are_kept_beside_the_thought():
    assert row([1.0])["steps"] == ["3+4=7"]


def test_tokens_without_probability_are_kept_up_to_the_tenth_only():
    [latent] = row([0.9, 0.1] + [1e-6] * 18)["latents"]
    assert list(latent["probs"]) == [0.9, 0.1] + [0.0] * 8 and len(latent["tokens"]) == 10
    [spread] = row([0.05] * 20)["latents"]
    assert len(spread["tokens"]) == len(spread["probs"]) == 20


def test_numbers_are_rounded_to_what_can_be_seen():
    [latent] = row([0.123456])["latents"]
    assert (latent["probs"], latent["entropy"], latent["halt"]) == ([0.1235], 0.1235, 0.0)
