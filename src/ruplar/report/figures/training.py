"""`metrics.jsonl` → a run's training curves: the loss, its parts, and accuracy on held-out questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ruplar.report.figures.accuracy import slug
from ruplar.report.figures.style import BLUE, INK, MARKERS, MUTED, SERIES, Drawing, panels, styled

ABOUT = {
    "answer": "cross-entropy of the answer",
    "prior": "divergence of each soft token from its prior",
    "align": "alignment of soft tokens with the question",
}
"""Loss part that is drawn → what it is."""


@styled
def draw(name: str, rows: Sequence[Mapping[str, Any]]) -> Drawing:
    """Draw the loss and, where it was measured, validation accuracy."""
    steps = [row for row in rows if row["kind"] == "train" and isinstance(row.get("loss"), int | float)]
    valid = [row for row in rows if "eval_accuracy" in row]
    figure, axes = panels(1, 2 if valid else 1, 13 if valid else 8, 4.8)
    parts = [part for part in ABOUT if steps and part in steps[0]]
    _losses(axes[0], steps, parts)
    if valid:
        _accuracy(axes[1], valid)
    figure.suptitle(name, x=0.01, ha="left", fontsize=13)
    return Drawing(f"training-{slug(name)}", f"Training of {name}", _caption(parts, bool(valid)), figure)


def _caption(parts: Sequence[str], valid: bool) -> str:
    named = ", ".join(f"{part} ({ABOUT[part]})" for part in parts)
    split = f" The loss is the weighted sum of its parts: {named}." if len(parts) > 1 else ""
    right = " Right: accuracy on held-out questions, in percent." if valid else ""
    return f"Training loss per step, on a logarithmic scale; lower is better.{split}{right}"


def _losses(axes: Any, rows: Sequence[Mapping[str, Any]], parts: Sequence[str]) -> None:
    x = [row["step"] for row in rows]
    axes.plot(x, [row["loss"] for row in rows], color=INK, linewidth=3, label="loss")
    for i, part in enumerate(parts if len(parts) > 1 else ()):
        values = [row[part] if row[part] > 0 else float("nan") for row in rows]
        axes.plot(x, values, color=SERIES[i % len(SERIES)], linestyle=("-", "--", "-.", ":")[i % 4], label=part)
    axes.set_yscale("log")
    axes.set(xlabel="step", ylabel="loss, nats", title="Loss" + (" and its parts" if len(parts) > 1 else ""))
    axes.legend(loc="best")


def _accuracy(axes: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    y = [100 * row["eval_accuracy"] for row in rows]
    axes.plot([row["step"] for row in rows], y, color=BLUE, marker=MARKERS[0], clip_on=False)
    axes.annotate(
        f"{y[-1]:.1f} %", (rows[-1]["step"], y[-1]), (-8, -20), textcoords="offset points", ha="right", color=MUTED
    )
    axes.set(xlabel="step", ylabel="accuracy, %", ylim=(0, 100), title="Held-out questions")
    axes.set_xlim(left=0)
