"""Rows of `ruplar ablate --json` → a bar for each thing put in the soft tokens' places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ruplar.report.figures.frontier import slug
from ruplar.report.figures.style import BLUE, INK, MUTED, SKY, Drawing, panels, styled

_WHOLE = 50
"""Accuracy above which all of 0 to 100 is shown; lower bars get the whole width."""


@styled
def draw(benchmark: str, rows: Sequence[Mapping[str, Any]]) -> Drawing:
    """The modes of one ablation → the figure."""
    figure, (axes,) = panels(1, 1, 10, 0.62 * len(rows) + 1.6)
    for y, row in enumerate(rows):
        real = row["difference"] is None
        axes.barh(
            y, row["accuracy"], color=BLUE if real else SKY, height=0.66, ecolor=INK, capsize=4,
            xerr=[[row["accuracy"] - row["low"]], [row["high"] - row["accuracy"]]],
        )  # fmt: skip
        axes.annotate(
            f"{row['accuracy']:.1f}",
            (row["high"], y),
            (8, 0),
            textcoords="offset points",
            va="center",
            fontweight="bold",
        )
    axes.set_yticks(range(len(rows)), [f"{row['mode']}: {row['about']}" for row in rows])
    axes.invert_yaxis()
    reach = max(row["high"] for row in rows)
    title = f"{benchmark}:\nwhat stands in the soft tokens' places"
    axes.set(xlabel="accuracy, %", xlim=(0, 1.12 * (100 if reach > _WHOLE else max(reach, 1))), title=title)
    if reach > _WHOLE:
        axes.set_xticks(range(0, 101, 20))
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", labelcolor=MUTED if not rows else INK)
    caption = (
        f"Does the model use its thought? The same {rows[0]['n']:,} questions, asked again with something else in the places of "
        "the soft tokens. If the answers were read off the question alone, all bars would be as long as the first; where a "
        "bar falls to nothing, the answer came from the thought. Whiskers are 95 % intervals."
    )
    return Drawing(f"ablation-{slug(benchmark)}", f"Do the soft tokens matter, {benchmark}", caption, figure)
