"""Samples → thoughts: the soft tokens of a question beside the written steps they replace.

The steps come from the sample, or, for older samples without steps, from the chain that a text method wrote for the same
question. Soft tokens are matched with steps only where there are equally many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ruplar.domains.base import Domain
from ruplar.types import Latent


@dataclass(frozen=True)
class Thought:
    """One question, its soft tokens and its answer.

    Attributes:
        marked: The right answer.
        steps: The written steps; empty when unknown.
        results: The result of each latent's step (None where a step has none); None when steps and latents are not one to one.
        chain: The chain a text method wrote for the same question; "" when unknown.
        cost: Forward passes of this answer and, when known, of that chain's.
    """

    question: str
    latents: tuple[Latent, ...]
    answer: str
    marked: str
    correct: bool
    steps: tuple[str, ...] = ()
    results: tuple[str | None, ...] | None = None
    chain: str = ""
    cost: tuple[int, int | None] = (0, None)


def thoughts(
    samples: Sequence[Mapping[str, Any]], domain: Domain, written: Sequence[Mapping[str, Any]] = ()
) -> list[Thought]:
    """Convert samples with soft tokens to thoughts, in order."""
    chains = {(row["benchmark"], row["question"]): row for row in written if row.get("thought")}
    return [
        _thought(row, domain, chains.get((row["benchmark"], row["question"]))) for row in samples if row.get("latents")
    ]


def _thought(row: Mapping[str, Any], domain: Domain, text: Mapping[str, Any] | None) -> Thought:
    latents = tuple(Latent(tuple(z["tokens"]), tuple(z["probs"]), z["entropy"], z["halt"]) for z in row["latents"])
    chain = text["thought"] if text else ""
    # a wrong text chain is not the step a soft token should hold
    steps = tuple(row.get("steps") or (domain.split(chain) if text and text["correct"] else ()))
    matched = len(steps) == len(latents) and row.get("latents_asked_for") in (None, len(latents))
    results = tuple("".join(domain.result(step)) or None for step in steps) if matched else None
    return Thought(
        question=row["question"],
        latents=latents,
        answer=row["text"],
        marked=row["marked"],
        correct=row["correct"],
        steps=steps,
        results=results,
        chain=chain,
        cost=(row["forwards"], text["forwards"] if text else None),
    )


def pick_lengths(found: Sequence[Thought], count: int) -> list[Thought]:
    """Pick the first right thought of each length from two soft tokens on, shortest first, then the first wrong one."""
    by_length: dict[int, Thought] = {}
    for thought in found:
        if thought.correct and len(thought.latents) > 1:
            by_length.setdefault(len(thought.latents), thought)
    right = [by_length[length] for length in sorted(by_length)]
    wrong = next((t for t in found if not t.correct), None)
    chosen = right[: count - 1] if wrong else right[:count]
    return [*chosen, wrong] if wrong else chosen


def share_of_results_on_top(found: Sequence[Thought]) -> tuple[int, int]:
    """Count the soft tokens whose most likely token is their step's result, and those whose step's result is known."""
    hits = [
        z.tokens[0].strip() == result
        for t in found
        for z, result in zip(t.latents, t.results or (), strict=False)
        if result is not None
    ]
    return sum(hits), len(hits)
