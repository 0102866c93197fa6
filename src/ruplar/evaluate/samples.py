"""A question, its answer and its score → one row of samples.jsonl.gz."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from ruplar.types import Answer, Example, Latent, Score

Sample = dict[str, Any]
_LEAST_TOKENS = 10


def sample(name: str, seed: int, index: int, example: Example, answer: Answer, graded: Score) -> Sample:
    """One row of samples.jsonl.gz: the question, what was thought and said, what was found, whether it is right."""
    latents = [_rounded(latent) for latent in answer.latents]
    return {
        "benchmark": name,
        "seed": seed,
        "index": index,
        "source": example.source,
        "question": example.question,
        "marked": example.answer,
        "steps": list(example.steps),
        "found": graded.found,
        "correct": graded.correct,
        **asdict(replace(answer, latents=())),
        "latents": latents,
    }


def _rounded(latent: Latent) -> dict[str, Any]:
    """A soft token in four decimals; beyond the ten likeliest, tokens left with no probability are left out: most are."""
    probs = [rounded for i, prob in enumerate(latent.probs) if (rounded := round(prob, 4)) > 0 or i < _LEAST_TOKENS]
    return {
        "tokens": latent.tokens[: len(probs)],
        "probs": probs,
        "entropy": round(latent.entropy, 4),
        "halt": round(latent.halt, 6),
    }
