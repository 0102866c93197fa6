"""The thoughts of many questions → how sure soft tokens are, how that goes with being right, which tokens they hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from ruplar.errors import UserError
from ruplar.report.figures.style import BLUE, INK, MUTED, RED, SKY, Drawing, panels, show_token, styled
from ruplar.report.thoughts import Thought, share_of_results_on_top
from ruplar.types import Latent

LEAST = 50
"""Questions below which a histogram says little."""
TOKENS = 20


@styled
def draw(found: Sequence[Thought], about: str = "") -> Drawing:
    """Batch statistics of thoughts, at least `LEAST` of them; `about` says whose.

    Raises:
        UserError: There are fewer.
    """
    if len(found) < LEAST:
        raise UserError(f"batch statistics need the thoughts of at least {LEAST} questions, got {len(found)}.")
    figure, (top, entropy, scatter, tokens) = panels(2, 2, 13, 10.4)
    right = [z for t in found if t.correct for z in t.latents]
    wrong = [z for t in found if not t.correct for z in t.latents]
    every = [*right, *wrong]
    _histogram(top, [z.probs[0] for z in every], np.linspace(0, 1, 26), "probability of the likeliest token")
    top.set_title("How sure each soft token is")
    most = max(1.0, max(z.entropy for z in every))
    _histogram(entropy, [z.entropy for z in every], np.linspace(0, most, 26), "entropy in nats (0: a single token)")
    entropy.set_title("How spread out it is")
    _scatter(scatter, right, wrong)
    _tokens(tokens, every)
    if about:
        figure.suptitle(about, x=0.01, ha="left", fontsize=13)
    return Drawing("thoughts", "Soft tokens of many questions", _caption(found, every), figure)


def _caption(found: Sequence[Thought], every: Sequence[Latent]) -> str:
    hits, known = share_of_results_on_top([t for t in found if t.correct])
    missed, known_wrong = share_of_results_on_top([t for t in found if not t.correct])
    result = (
        f" Where the written step is known, the likeliest token is that step's result in {hits:,} of {known:,} soft tokens of "
        f"questions answered right" + (f", and in {missed:,} of {known_wrong:,} of those answered wrong." if known_wrong else ".")
        if known
        else ""
    )  # fmt: skip
    mean = np.mean([z.probs[0] for z in every])
    return (
        f"All {len(every):,} soft tokens of {len(found):,} questions. Each soft token is a mixture of vocabulary tokens. Top "
        f"left: the probability of the likeliest one ({mean:.2f} on average); near 1 the model has all but decided. Top right: "
        f"the entropy of the mixture ({np.mean([z.entropy for z in every]):.2f} nats on average); 0 is a single token, 1.6 is "
        "five equally likely ones. Bottom left: both at once, a point a soft token, by whether the question was answered right "
        f"in the end. Bottom right: the {TOKENS} tokens that are most often the likeliest.{result}"
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
        (right, SKY, "o", 22, "answered right"), (wrong, RED, "X", 48, "answered wrong"),
    ):  # fmt: skip
        axes.scatter(
            [z.entropy for z in latents], [z.probs[0] for z in latents],
            color=colour, marker=marker, s=size, alpha=0.75, linewidths=0, rasterized=len(latents) > 5000, label=f"{name} ({len(latents):,})",
        )  # fmt: skip
    axes.set(xlabel="entropy in nats", ylabel="probability of the likeliest token", ylim=(0, 1.02))
    axes.set_xlim(left=0)
    axes.legend(loc="lower left")
    axes.set_title("How sure, and the answer in the end")


def _tokens(axes: Any, every: Sequence[Latent]) -> None:
    counts = Counter(z.tokens[0] for z in every).most_common(TOKENS)
    places = range(len(counts))
    axes.barh(places, [count for _, count in counts], color=BLUE, height=0.72)
    axes.set(yticks=places, xlabel=f"soft tokens it leads, of {len(every):,}")
    axes.set_yticklabels([show_token(token) for token, _ in counts])
    axes.tick_params(axis="y", labelsize=11)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set_title(f"The {len(counts)} commonest likeliest tokens")
    different = len({z.tokens[0] for z in every})
    axes.text(0.98, 0.03, f"{different:,} different ones in all", transform=axes.transAxes, ha="right", color=MUTED)
