"""One answered question → the latent-dynamics figure: what each of its soft tokens held, and how surely."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from textwrap import wrap
from typing import Any

from ruplar.report.figures.style import (  # fmt: skip
    BLUE,
    FAINT,
    INK,
    MARKERS,
    MUTED,
    ON_DARK,
    ON_LIGHT,
    ORANGE,
    SERIES,
    Drawing,
    panels,
    show_token,
    styled,
)
from ruplar.report.thoughts import Thought

RANKS = 10
BUBBLES = 6
_LARGEST = 2600
"""Area, in square points, of a bubble that holds all the probability."""


@styled
def draw(thought: Thought) -> Drawing:
    """The figure of one thought; see `_caption` for what it shows."""
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
    return Drawing("thought", "One thought, soft token by soft token", _caption(thought), figure)


def _caption(thought: Thought) -> str:
    count = len(thought.latents)
    tokens = "one soft token" if count == 1 else f"{count} soft tokens"
    results = [
        z.tokens[0].strip() == r for z, r in zip(thought.latents, thought.results or (), strict=False) if r is not None
    ]
    chain = (
        f" Under each one stands the written step it replaces; in {sum(results)} of {len(results)} the "
        "largest bubble is that step's result."
        if results
        else ""
    )
    return (
        f"The model did not write its reasoning down. Between question and answer it made {tokens} (z1, z2, …), each a "
        f"mixture of vocabulary tokens.{chain} Top left: the {RANKS} likeliest tokens of every mixture, likeliest first; "
        "darker is likelier. Top right: the likeliest token of each and its probability; a point near 1 is a firm thought, "
        "a low one a vague thought. Bottom left: the probability held by the k likeliest tokens together; a line that starts "
        "high holds little besides its first token. Bottom right: the same mixtures as bubbles, area in proportion to "
        "probability."
    )


def step_names(thought: Thought) -> list[str]:
    """`z1`, `z2`, …; below each the step it replaces where one is known, the result on a line of its own."""
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
    axes.set(ylabel="rank of the token", title=f"The {RANKS} likeliest tokens of each soft token")
    bar = figure.colorbar(mesh, ax=axes, ticks=[0, 0.05, 0.2, 0.5, 1], pad=0.02, aspect=30)
    bar.ax.set_yticklabels(["0", ".05", ".2", ".5", "1"])
    bar.set_label("probability")


def _trend(axes: Any, thought: Thought, names: Sequence[str]) -> None:
    steps = range(1, len(names) + 1)
    top = [z.probs[0] for z in thought.latents]
    axes.plot(steps, top, color=BLUE, marker="o", clip_on=False)
    below = max(top) > 0.8  # above a high point there is no room, and all labels stand on one side
    for x, y, latent in zip(steps, top, thought.latents, strict=True):
        axes.annotate(
            f"{show_token(latent.tokens[0])}\n{y:.2f}", (x, y), (0, -12 if below else 12), textcoords="offset points",
            ha="center", va="top" if below else "bottom", fontweight="bold",
        )  # fmt: skip
    axes.set(ylim=(0, 1), xlim=(0.5, len(names) + 0.5), xticks=steps, ylabel="probability")
    axes.set_xticklabels(names)
    axes.set_title("The likeliest token and how sure it is")


def _sums(axes: Any, thought: Thought) -> None:
    for i, latent in enumerate(thought.latents):
        sums = list(accumulate(latent.probs[:RANKS]))
        axes.plot(
            range(1, len(sums) + 1), sums,
            color=SERIES[i % len(SERIES)], marker=MARKERS[i % len(MARKERS)], markersize=6, label=f"z{i + 1}",
        )  # fmt: skip
    axes.legend(loc="lower right", ncols=2)
    axes.set(xlim=(0.7, RANKS + 0.3), ylim=(0, 1.03), xticks=range(1, RANKS + 1))
    axes.set(xlabel="the k likeliest tokens", ylabel="their probability together", title="Cumulative probability")


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
        axes.text(0.99, 0.01, "no marked chain to compare with", transform=axes.transAxes, ha="right", color=MUTED)
