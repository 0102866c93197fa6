"""Thoughts → figures: the soft tokens of one question, and statistics of the soft tokens of many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from textwrap import wrap
from typing import Any

import numpy as np

from ruplar.errors import UserError
from ruplar.report.figures.style import (  # fmt: skip
    BLUE,
    FAINT,
    INK,
    MARKERS,
    MUTED,
    ON_DARK,
    ON_LIGHT,
    ORANGE,
    RED,
    SERIES,
    SKY,
    Drawing,
    panels,
    show_token,
    styled,
)
from ruplar.report.thoughts import Thought, share_of_results_on_top
from ruplar.types import Latent

RANKS = 10
BUBBLES = 6
_LARGEST = 2600
"""Area, in square points, of a bubble with probability 1."""
LEAST = 50
"""Fewest questions for statistics."""
TOKENS = 20


@styled
def draw_thought(thought: Thought) -> Drawing:
    """Draw the soft tokens of one question in four panels."""
    figure, (heat, trend, sums, bubbles) = panels(2, 2, 13, 10.4)
    names = step_names(thought)
    _heatmap(figure, heat, thought, names)
    _trend(trend, thought, names)
    _sums(sums, thought)
    _bubbles(bubbles, thought, names)
    question = "\n".join(wrap(thought.question, 110))
    verdict = "right" if thought.correct else f"wrong; marked {thought.marked}"
    figure.suptitle(
        f"{question}\nanswer: {thought.answer.strip()} ({verdict})".replace("$", r"\$"),
        x=0.01, ha="left", fontsize=13, color=INK,
    )  # fmt: skip
    return Drawing("thought", "Soft tokens of one question", _caption(thought), figure)


def _caption(thought: Thought) -> str:
    count = len(thought.latents)
    tokens = "one soft token" if count == 1 else f"{count} soft tokens"
    results = [
        z.tokens[0].strip() == r for z, r in zip(thought.latents, thought.results or (), strict=False) if r is not None
    ]
    chain = (
        f" Below each is the written step it replaces; in {sum(results)} of {len(results)} the most likely token is that "
        "step's result."
        if results
        else ""
    )
    return (
        f"Between question and answer the model produced {tokens} (z1, z2, …), each a distribution over the vocabulary.{chain} "
        f"Top left: the {RANKS} most likely tokens of each soft token; darker is more likely. Top right: the most likely token of each "
        "and its probability. Bottom left: cumulative probability of the k most likely tokens. Bottom right: the same "
        "distributions as bubbles, area proportional to probability."
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


def _heatmap(figure: Any, axes: Any, thought: Thought, names: Sequence[str]) -> None:
    from matplotlib.colors import PowerNorm

    grid = [[z.probs[r] if r < len(z.probs) else 0.0 for z in thought.latents] for r in range(RANKS)]
    # the square root of the scale: 0.05 must be seen beside 0.8
    mesh = axes.pcolormesh(grid, cmap="Blues", norm=PowerNorm(0.5, 0, 1), edgecolors=FAINT, linewidth=0.8)
    for column, latent in enumerate(thought.latents):
        for row, (token, prob) in enumerate(zip(latent.tokens[:RANKS], latent.probs[:RANKS], strict=True)):
            axes.text(
                column + 0.5, row + 0.5, show_token(token),
                ha="center", va="center", fontsize=12, color=ON_DARK if prob > 0.35 else ON_LIGHT,
            )  # fmt: skip
    axes.invert_yaxis()
    axes.grid(False)
    axes.set(xticks=[i + 0.5 for i in range(len(names))], yticks=[i + 0.5 for i in range(RANKS)])
    axes.set_xticklabels(names)
    axes.set_yticklabels(range(1, RANKS + 1))
    axes.set(ylabel="rank of the token", title=f"The {RANKS} most likely tokens of each soft token")
    bar = figure.colorbar(mesh, ax=axes, ticks=[0, 0.05, 0.2, 0.5, 1], pad=0.02, aspect=30)
    bar.ax.set_yticklabels(["0", ".05", ".2", ".5", "1"])
    bar.set_label("probability")


def _trend(axes: Any, thought: Thought, names: Sequence[str]) -> None:
    steps = range(1, len(names) + 1)
    top = [z.probs[0] for z in thought.latents]
    axes.plot(steps, top, color=BLUE, marker="o", clip_on=False)
    below = max(top) > 0.8  # above a high point there is no room, and all labels are on one side
    for x, y, latent in zip(steps, top, thought.latents, strict=True):
        axes.annotate(
            f"{show_token(latent.tokens[0])}\n{y:.2f}", (x, y), (0, -12 if below else 12), textcoords="offset points",
            ha="center", va="top" if below else "bottom", fontweight="bold",
        )  # fmt: skip
    axes.set(ylim=(0, 1), xlim=(0.5, len(names) + 0.5), xticks=steps, ylabel="probability")
    axes.set_xticklabels(names)
    axes.set_title("Most likely token of each soft token")


def _sums(axes: Any, thought: Thought) -> None:
    for i, latent in enumerate(thought.latents):
        sums = list(accumulate(latent.probs[:RANKS]))
        axes.plot(
            range(1, len(sums) + 1), sums,
            color=SERIES[i % len(SERIES)], marker=MARKERS[i % len(MARKERS)], markersize=6, label=f"z{i + 1}",
        )  # fmt: skip
    axes.legend(loc="lower right", ncols=2)
    axes.set(xlim=(0.7, RANKS + 0.3), ylim=(0, 1.03), xticks=range(1, RANKS + 1))
    axes.set(xlabel="the k most likely tokens", ylabel="their probability together", title="Cumulative probability")


def _bubbles(axes: Any, thought: Thought, names: Sequence[str]) -> None:
    results = thought.results or [None] * len(names)
    for x, (latent, result) in enumerate(zip(thought.latents, results, strict=True), start=1):
        for rank, (token, prob) in enumerate(zip(latent.tokens[:BUBBLES], latent.probs[:BUBBLES], strict=True)):
            hit = result is not None and token.strip() == result
            y = BUBBLES - rank
            axes.scatter(
                x, y, s=_LARGEST * prob, color=ORANGE if hit else BLUE, alpha=0.9, zorder=3, edgecolors=INK if hit else "none",
                label="result" if hit else "token",
            )  # fmt: skip
            inside = prob > 0.25
            axes.annotate(
                show_token(token), (x, y), (0, 0) if inside else (14, 0), textcoords="offset points", va="center",
                ha="center" if inside else "left", fontweight="bold" if hit else "normal",
                color=(ON_LIGHT if hit else ON_DARK) if inside else INK, zorder=4,
            )  # fmt: skip
    axes.set(xlim=(0.5, len(names) + 0.5), ylim=(0.4, BUBBLES + 0.8), xticks=range(1, len(names) + 1))
    axes.set_xticklabels(names)
    axes.set(yticks=range(1, BUBBLES + 1), ylabel="rank of the token")
    axes.set_yticklabels(range(BUBBLES, 0, -1))
    axes.grid(axis="x", visible=False)
    known = any(r is not None for r in results)
    axes.set_title("Bubbles" + (": orange is the step's result" if known else ""))
    if not known:
        axes.text(0.99, 0.01, "no reference chain", transform=axes.transAxes, ha="right", color=MUTED)


@styled
def draw_statistics(found: Sequence[Thought], about: str = "") -> Drawing:
    """Draw statistics of at least `LEAST` thoughts; `about` is the figure's title."""
    if len(found) < LEAST:
        raise UserError(f"statistics need the soft tokens of at least {LEAST} questions, got {len(found)}.")
    figure, (top, entropy, scatter, tokens) = panels(2, 2, 13, 10.4)
    right = [z for t in found if t.correct for z in t.latents]
    wrong = [z for t in found if not t.correct for z in t.latents]
    every = [*right, *wrong]
    _histogram(top, [z.probs[0] for z in every], np.linspace(0, 1, 26), "probability of the most likely token")
    top.set_title("Probability of the most likely token")
    most = max(1.0, max(z.entropy for z in every))
    _histogram(entropy, [z.entropy for z in every], np.linspace(0, most, 26), "entropy in nats (0: a single token)")
    entropy.set_title("Entropy")
    _scatter(scatter, right, wrong)
    _tokens(tokens, every)
    if about:
        figure.suptitle(about, x=0.01, ha="left", fontsize=13)
    return Drawing("thoughts", "Soft tokens of many questions", _statistics_caption(found, every), figure)


def _statistics_caption(found: Sequence[Thought], every: Sequence[Latent]) -> str:
    hits, known = share_of_results_on_top([t for t in found if t.correct])
    missed, known_wrong = share_of_results_on_top([t for t in found if not t.correct])
    result = (
        f" Where the written step is known, the most likely token is that step's result in {hits:,} of {known:,} soft tokens of "
        f"questions answered correctly" + (f", and in {missed:,} of {known_wrong:,} of those answered incorrectly." if known_wrong else ".")
        if known
        else ""
    )  # fmt: skip
    mean = np.mean([z.probs[0] for z in every])
    return (
        f"All {len(every):,} soft tokens of {len(found):,} questions. Top left: probability of the most likely token (mean "
        f"{mean:.2f}). Top right: entropy of the distribution (mean {np.mean([z.entropy for z in every]):.2f} nats); 0 is a "
        "single token, 1.6 is five equally likely ones. Bottom left: one point per soft token, by whether the question was "
        f"answered correctly. Bottom right: the {TOKENS} most frequent top tokens.{result}"
    )


def _histogram(axes: Any, values: Sequence[float], bins: Any, label: str) -> None:
    axes.hist(values, bins=bins, color=BLUE, edgecolor="white", linewidth=0.6)
    mean = float(np.mean(values))
    axes.axvline(mean, color=INK, linestyle="--", linewidth=1.6)
    left = mean > (bins[0] + bins[-1]) / 2
    axes.annotate(
        f"mean {mean:.2f}", (mean, 0.96), (-8 if left else 8, 0), xycoords=axes.get_xaxis_transform(),
        textcoords="offset points", ha="right" if left else "left", va="top", fontweight="bold",
    )  # fmt: skip
    axes.set(xlabel=label, ylabel="soft tokens", xlim=(bins[0], bins[-1]))
    axes.grid(axis="x", visible=False)


def _scatter(axes: Any, right: Sequence[Latent], wrong: Sequence[Latent]) -> None:
    for latents, colour, marker, size, name in (
        (right, SKY, "o", 22, "answered correctly"), (wrong, RED, "X", 48, "answered incorrectly"),
    ):  # fmt: skip
        axes.scatter(
            [z.entropy for z in latents], [z.probs[0] for z in latents],
            color=colour, marker=marker, s=size, alpha=0.75, linewidths=0, rasterized=len(latents) > 5000, label=f"{name} ({len(latents):,})",
        )  # fmt: skip
    axes.set(xlabel="entropy in nats", ylabel="probability of the most likely token", ylim=(0, 1.02))
    axes.set_xlim(left=0)
    axes.legend(loc="lower left")
    axes.set_title("Entropy and correctness")


def _tokens(axes: Any, every: Sequence[Latent]) -> None:
    counts = Counter(z.tokens[0] for z in every).most_common(TOKENS)
    places = range(len(counts))
    axes.barh(places, [count for _, count in counts], color=BLUE, height=0.72)
    axes.set(yticks=places, xlabel=f"soft tokens, of {len(every):,}")
    axes.set_yticklabels([show_token(token) for token, _ in counts])
    axes.tick_params(axis="y", labelsize=11)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set_title(f"The {len(counts)} most frequent top tokens")
    different = len({z.tokens[0] for z in every})
    axes.text(0.98, 0.03, f"{different:,} different ones in all", transform=axes.transAxes, ha="right", color=MUTED)
