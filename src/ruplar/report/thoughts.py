"""Sample rows → thoughts: what a model thought about a question, beside the steps it replaces.

A row says what was thought and said. The steps come from the row itself, or, for records made before rows had them, from
the chain a text method wrote for the same question. A soft token is matched with a step only where there is one for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ruplar import plugins
from ruplar.domains.base import Domain
from ruplar.errors import UserError
from ruplar.evaluate.record import RunRecord
from ruplar.types import Latent


@dataclass(frozen=True)
class Thought:
    """One question, what was thought in soft tokens, what was said.

    Attributes:
        question: The question.
        latents: Its soft tokens.
        answer: The text that followed.
        marked: The right answer.
        correct: Whether they are the same.
        steps: The written steps they stand for; empty when none is known.
        results: The result of each step, one a latent and None where a step states none; None altogether when steps and
            latents are not one to one, so that nothing is matched by guess.
        chain: The chain a text method wrote for the same question, "" when none is on record.
        cost: Forward passes of this answer and of that chain's, when known.
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
    """Rows with soft tokens → thoughts, in order; rows without any are left out.

    Args:
        samples: Rows of samples.jsonl.gz.
        domain: Says what a step's result is.
        written: Rows of a text method; those on the same questions give the chains.
    """
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


def domain_of(record: RunRecord) -> Domain:
    """The domain a run was graded by.

    Raises:
        UserError: The record names none.
    """
    config = record.config
    named = config.get("domain") or config.get("data", {}).get("domain")
    if not named:
        raise UserError(f"run '{record.name}' does not say which domain it belongs to.")
    settings = named.get("settings", {k: v for k, v in named.items() if k != "name"})
    return plugins.make("domains", named["name"], settings)


def pick(found: Sequence[Thought], correct: bool = True, least: int = 3) -> Thought | None:
    """The first right (or wrong) thought of at least so many soft tokens, else the longest of them; None without any.

    By order, not by looks, so that nobody has chosen it.
    """
    wanted = [t for t in found if t.correct == correct]
    return next(
        (t for t in wanted if len(t.latents) >= least), max(wanted, key=lambda t: len(t.latents), default=None)
    )


def pick_lengths(found: Sequence[Thought], count: int) -> list[Thought]:
    """The first right thought of each length from two soft tokens on, shortest first, then the first wrong one."""
    by_length: dict[int, Thought] = {}
    for thought in found:
        if thought.correct and len(thought.latents) > 1:
            by_length.setdefault(len(thought.latents), thought)
    right = [by_length[length] for length in sorted(by_length)]
    wrong = next((t for t in found if not t.correct), None)
    kept = right[: count - 1] if wrong else right[:count]
    return [*kept, wrong] if wrong else kept


def share_of_results_on_top(found: Sequence[Thought]) -> tuple[int, int]:
    """Of the soft tokens whose step's result is known: how many have it as their likeliest token, and how many there are."""
    hits = [
        z.tokens[0].strip() == result
        for t in found
        for z, result in zip(t.latents, t.results or (), strict=False)
        if result is not None
    ]
    return sum(hits), len(hits)
