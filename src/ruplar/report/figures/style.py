"""The common style of all figures: palette, type sizes, export as PNG.

Colours are Okabe and Ito's colour-blind safe palette; where a colour carries meaning, a shape or label does too. matplotlib is
an optional dependency and is imported only here, without pyplot, so that no global state changes.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from ruplar.errors import UserError, install_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, RED, PURPLE, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
INK, FAINT, PAPER, MUTED = "#202124", "#d5d8dc", "#fffffe", "#5f6368"
"""Text and axes, grid lines, background (as in the style file), annotations."""
SERIES = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

_STYLE = Path(__file__).with_name("ruplar.mplstyle")

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Drawing:
    """One figure: its title, and a caption that says how to read it."""

    title: str
    caption: str
    figure: Figure

    def png(self) -> bytes:
        """Export as PNG, 150 dpi."""
        file = io.BytesIO()
        with load().rc_context(fname=_STYLE):
            self.figure.savefig(file, format="png", dpi=150, bbox_inches="tight", pad_inches=0.15)
        return file.getvalue()


def load() -> Any:
    """Import matplotlib."""
    try:
        import matplotlib
    except ImportError:
        raise UserError(f"figures need matplotlib. {install_extra('figures')}") from None
    return matplotlib


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """Decorate a drawing function to use this style without changing matplotlib's settings."""

    @wraps(draw)
    def inner(*args: P.args, **kwargs: P.kwargs) -> R:
        with load().rc_context(fname=_STYLE):
            return draw(*args, **kwargs)

    return inner


def panels(rows: int, columns: int, width: float, height: float, **options: Any) -> tuple[Figure, list[Axes]]:
    """Make a figure with a grid of panels; sizes in inches. Returns it and its axes, row by row."""
    load()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.12)  # type: ignore[union-attr, call-arg]
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, list(axes.flat)
