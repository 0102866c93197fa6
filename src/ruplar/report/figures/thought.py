"""Thoughts → figures: the soft tokens of one question, and the distribution of certainty over those of many."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import Any

import numpy as np

from ruplar.report.figures.style import BLUE, FAINT, INK, ON_DARK, ON_LIGHT, Drawing, panels, show_token, styled
from ruplar.report.thoughts import Thought, share_of_results_on_top

RANKS = 10
LEAST = 50
"""Fewest questions for statistics."""


@styled
def draw_thought(thought: Thought) -> Drawing:
    """Draw the most likely tokens of each soft token of one question as a heat map."""
    from matplotlib.colors import PowerNorm

    figure, (axes,) = panels(1, 1, 10, 6)
    grid = [[z.probs[r] if r < len(z.probs) else 0.0 for z in thought.latents] for r in range(RANKS)]
    # the square root of the scale: 0.05 must be seen beside 0.8
    mesh = axes.pcolormesh(grid, cmap="Blues", norm=PowerNorm(0.5, 0, 1), edgecolors=FAINT, linewidth=0.8)
    for column, latent in enumerate(thought.latents):
        for row, (token, prob) in enumerate(zip(latent.tokens[:RANKS], latent.probs[:RANKS], strict=True)):
            colour = ON_DARK if prob > 0.35 else ON_LIGHT
            axes.text(column + 0.5, row + 0.5, show_token(token), ha="center", va="center", fontsize=12, color=colour)
    axes.invert_yaxis()
    axes.grid(False)
    axes.set_xticks([i + 0.5 for i in range(len(thought.latents))], step_names(thought))
    axes.set_yticks([i + 0.5 for i in range(RANKS)], [str(rank) for rank in range(1, RANKS + 1)])
    axes.set_ylabel("rank of the token")
    figure.colorbar(mesh, ax=axes, ticks=[0, 0.05, 0.2, 0.5, 1], pad=0.02, aspect=30, label="probability")
    verdict = "right" if thought.correct else f"wrong; marked {thought.marked}"
    title = "\n".join([*wrap(thought.question, 90), f"answer: {thought.answer.strip()} ({verdict})"])
    figure.suptitle(title.replace("$", r"\$"), x=0.01, ha="left", fontsize=13, color=INK)
    return Drawing("thought", "Soft tokens of one question", _caption(thought), figure)


def _caption(thought: Thought) -> str:
    hits, known = share_of_results_on_top([thought])
    steps = (
        f" Below each is the step it replaces; in {hits} of {known} the first token is its result." if known else ""
    )
    return (
        f"Between question and answer the model produced {len(thought.latents)} soft tokens (z1, z2, …), each a distribution over "
        f"the vocabulary: its {RANKS} most likely tokens, darker is more likely.{steps}"
    )


def step_names(thought: Thought) -> list[str]:
    """Label soft tokens `z1`, `z2`, …, with the step each one replaces where it is known."""
    width = max(6, 60 // max(1, len(thought.latents)))
    names = []
    for i in range(len(thought.latents)):
        before, equals, after = thought.steps[i].rpartition("=") if thought.results else ("", "", "")
        lines = [f"z{i + 1}", *(part for part in (before, equals + after) if part)]
        names.append("\n".join(x if len(x) <= width else x[: width - 1] + "…" for x in lines).replace("$", r"\$"))
    return names


@styled
def draw_statistics(found: Sequence[Thought], about: str) -> Drawing:
    """Draw how certain the soft tokens of many questions are: top probability and entropy."""
    figure, (top, entropy) = panels(1, 2, 13, 5.2)
    every = [z for thought in found for z in thought.latents]
    probs, entropies = [z.probs[0] for z in every], [z.entropy for z in every]
    _histogram(top, probs, 1.0, "probability of the most likely token")
    _histogram(entropy, entropies, max(1.0, *entropies), "entropy in nats (0: a single token)")
    figure.suptitle(about, x=0.01, ha="left", fontsize=13)
    hits, known = share_of_results_on_top([t for t in found if t.correct])
    missed, known_wrong = share_of_results_on_top([t for t in found if not t.correct])
    caption = (
        f"All {len(every):,} soft tokens of {len(found):,} questions. Left: probability of the most likely token (mean "
        f"{np.mean(probs):.2f}). Right: entropy of the distribution (mean {np.mean(entropies):.2f} nats); 0 is a single token, "
        "1.6 is five equally likely ones."
    )
    if known:
        caption += (
            f" Where the written step is known, the most likely token is its result in {hits:,} of {known:,} soft tokens of "
            f"questions answered correctly, and in {missed:,} of {known_wrong:,} of those answered incorrectly."
        )
    return Drawing("thoughts", "Soft tokens of many questions", caption, figure)


def _histogram(axes: Any, values: Sequence[float], most: float, label: str) -> None:
    axes.hist(values, bins=np.linspace(0, most, 26), color=BLUE, edgecolor="white", linewidth=0.6)
    axes.axvline(float(np.mean(values)), color=INK, linestyle="--", linewidth=1.6, label=f"mean {np.mean(values):.2f}")
    axes.set(xlabel=label, ylabel="soft tokens", xlim=(0, most))
    axes.grid(axis="x", visible=False)
    axes.legend()
