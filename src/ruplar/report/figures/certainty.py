"""Stored answers of one row → how certain its soft tokens are: top probability, entropy, and both together."""

from collections.abc import Sequence

import numpy as np

from ruplar.evaluate.samples import Sample
from ruplar.report.figures.style import BLUE, INK, ORANGE, PAPER, Drawing, panels, styled


@styled
def draw_certainty(name: str, samples: Sequence[Sample]) -> Drawing:
    """Draw all soft tokens of these answers; `name` is that of the method and its benchmark."""
    every = [(z["probs"][0], z["entropy"], sample["correct"]) for sample in samples for z in sample["latents"]]
    top, entropy, correct = np.array(every).T
    figure, (left, middle, right) = panels(1, 3, 16, 5)
    for axes, values, most, label in (
        (left, top, 1.0, "probability of the most likely token"),
        (middle, entropy, entropy.max(), "entropy, nats"),
    ):
        axes.hist(values, bins=np.linspace(0, most, 26).tolist(), color=BLUE, edgecolor=PAPER)
        axes.axvline(values.mean(), color=INK, linestyle="--", label=f"mean {values.mean():.2f}")
        axes.set(xlabel=label, ylabel="soft tokens", xlim=(0, most))
        axes.legend(loc="upper left" if axes is left else "upper right")
    for held, colour, marker, label in ((1, BLUE, "o", "correct answers"), (0, ORANGE, "^", "wrong answers")):
        at = correct == held
        right.scatter(top[at], entropy[at], s=16, color=colour, marker=marker, alpha=0.5, label=label)
    right.set(xlabel="probability of the most likely token", ylabel="entropy, nats", xlim=(0, 1))
    right.set_ylim(bottom=0)
    right.legend(loc="lower left")
    caption = (
        f"How certain the {len(every):,} soft tokens of {name} are, in its answers to {len(samples):,} questions. A soft token is a "
        "mixture of tokens of the vocabulary, each with a probability. Left: the largest of these probabilities; at 1 the soft "
        "token is a single token. Middle: the entropy of the mixture; 0 is a single token, 1.6 nats are five equally likely ones. "
        "Right: both, one mark for each soft token, by whether the answer that follows is correct."
    )
    return Drawing(f"Certainty of the soft tokens of {name}", caption, figure)
