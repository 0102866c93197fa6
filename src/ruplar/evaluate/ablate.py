"""A model and examples → latent ablation: accuracy on the same questions with the latents removed or replaced.

    real       its own latents
    none       no latent: `</think>` directly after `<think>`
    random     a Gaussian vector in place of each latent, scaled to that latent's norm
    shuffled   the latents of another question
    zero       the zero vector in place of each latent
    argmax     each latent hardened to its most likely token, with thinking continued from there

If the answer depends on the latents, `real` is clearly above the next four. `argmax` shows what the distribution adds to its
most likely token. All modes but the last replay the latents of one real pass, so they differ in nothing else.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ruplar.domains.base import grade
from ruplar.engine.reference import Generation
from ruplar.engine.sampling import Decoding
from ruplar.engine.thinker import NoThinker, ReplayThinker, SoftThinker, Thinker
from ruplar.errors import UserError
from ruplar.evaluate.benchmark import Progress, counted, describe, expected_latents, halted_right, soft
from ruplar.evaluate.record import BenchmarkResult
from ruplar.evaluate.stats import Estimate, paired_difference
from ruplar.model.store import Model
from ruplar.reasoner import LatentReasoner
from ruplar.types import Example, Score

REAL = "real"
MODES = {
    REAL: "its own latents",
    "none": "no latent, </think> at once",
    "random": "Gaussian vectors of the same norm",
    "shuffled": "another question's latents",
    "zero": "zero vectors",
    "argmax": "each latent hardened to its most likely token",
}
"""Mode → what replaces the latents."""

Choose = Callable[[list[int]], Thinker]
"""Indices of a batch's questions → their thinker."""


@dataclass(frozen=True)
class AblationRow:
    """One mode's result, and its accuracy minus that with real latents, in points, paired by question; None for the real ones."""

    mode: str
    result: BenchmarkResult
    difference: Estimate | None = None

    def as_dict(self) -> dict[str, Any]:
        """Convert to plain data."""
        mean, low, high = self.difference or (None, None, None)
        keys = ("n", "correct", "accuracy", "low", "high", "latents", "unreadable")
        found = {"mode": self.mode, "about": MODES[self.mode], **{key: getattr(self.result, key) for key in keys}}
        return {**found, "difference": mean, "difference_low": low, "difference_high": high}


def ablate(
    reasoner: LatentReasoner,
    examples: Sequence[Example],
    *,
    seed: int = 0,
    decoding: Decoding | None = None,
    batch_size: int = 64,
    on_progress: Progress | None = None,
) -> list[AblationRow]:
    """Answer the same questions with real and with replaced latents → one row per mode, `real` first.

    Args:
        reasoner: A model whose method thinks in latents.
        examples: At least two, since `shuffled` needs another question.
        seed: Random seed of the vectors, the shuffling and the intervals.
        decoding: How answers are decoded; greedy when None.
        batch_size: Questions per batch.
        on_progress: Called after each batch with the mode, the number of answers so far and in total.
    """
    examples = list(examples)
    check_ablatable(reasoner.model, len(examples))
    model, decoding = reasoner.model, decoding or Decoding()
    expected = expected_latents(model, examples)

    def run(mode: str, choose: Choose | None) -> tuple[list[Generation], BenchmarkResult, list[Score]]:
        """Answer all questions in one mode; only the real pass returns its latents, as embeddings."""
        start = time.perf_counter()
        rows = reasoner.generate(
            [e.question for e in examples],
            thinker=choose,
            decoding=decoding,
            batch_size=batch_size,
            keep="embeds" if mode == REAL else "none",
            on_batch=counted(mode, len(examples), on_progress),
        )
        seconds = time.perf_counter() - start
        answers = reasoner.answers_of(rows)
        scores = [grade(a.text, e.answer, model.domain) for a, e in zip(answers, examples, strict=True)]
        right = halted_right(answers, expected) if mode in (REAL, "argmax") else None
        about = {"halted_right": right, "seed": decoding.seed, "decoding": describe(decoding)}
        return rows, BenchmarkResult.of(mode, answers, scores, seconds, **about), scores

    rows, real, scores = run(REAL, None)
    width = model.backbone.embedding_weight.shape[1]
    latents = [torch.stack(r.latent_embeds).cpu() if r.latent_embeds else torch.empty(0, width) for r in rows]
    found = [AblationRow(REAL, real)]
    for mode, choose in _replacements(model, latents, seed).items():
        _, result, replaced = run(mode, choose)
        points = [[100.0 * s.correct for s in side] for side in (replaced, scores)]
        found.append(AblationRow(mode, result, paired_difference(*points, seed=seed)))
    return found


def check_ablatable(model: Model, count: int) -> None:
    """Raise `UserError` for what cannot be ablated, before anything runs."""
    if not soft(model):
        raise UserError(
            f"the method '{model.metadata.method.name}' has no latents to ablate. Use a model trained with a latent "
            "method, such as ruplar."
        )
    if count < 2:
        raise UserError(f"ablation needs at least two questions, got {count}: 'shuffled' uses another's latents.")


def _replacements(model: Model, latents: list[Tensor], seed: int) -> dict[str, Choose]:
    other = derangement(len(latents), seed)
    thinker = model.method.thinker(model.backbone)
    # seeded by (seed, index), so that results do not depend on the batch size
    random = [_same_norm(rows, np.random.default_rng([seed, i])) for i, rows in enumerate(latents)]

    def replay(rows: list[Tensor]) -> Choose:
        return lambda places: ReplayThinker([rows[i] for i in places])

    found: dict[str, Choose] = {
        "none": lambda places: NoThinker(),
        "random": replay(random),
        "shuffled": replay([latents[i] for i in other]),
        "zero": replay([torch.zeros_like(rows) for rows in latents]),
    }
    if isinstance(thinker, SoftThinker):  # other latents have no most likely token
        hard = replace(thinker, harden=True)
        found["argmax"] = lambda places: hard
    return found


def derangement(n: int, seed: int) -> list[int]:
    """Draw a permutation of n > 1 indices without fixed points: one random cycle."""
    order = np.random.default_rng([seed, n]).permutation(n)
    other = np.empty(n, dtype=int)
    other[order] = np.roll(order, -1)
    return other.tolist()


def _same_norm(latents: Tensor, rng: np.random.Generator) -> Tensor:
    noise = torch.from_numpy(rng.standard_normal(tuple(latents.shape))).float()
    noise = torch.nn.functional.normalize(noise, dim=-1) * latents.float().norm(dim=-1, keepdim=True)
    return noise.to(latents.dtype)
