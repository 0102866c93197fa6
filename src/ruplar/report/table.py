"""Column names, rows and a note → one Markdown table."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MINUS, NONE = "−", "–"


@dataclass(frozen=True)
class Table:
    """The first `texts` columns hold text, the others numbers; title and note are printed above and below, "" for none."""

    names: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    texts: int
    title: str = ""
    note: str = ""

    def markdown(self) -> str:
        """Format as Markdown; pipes in cells are escaped."""
        lines = [
            self.names,
            ["---" if i < self.texts else "---:" for i in range(len(self.names))],
            *([cell.replace("|", "\\|") for cell in line] for line in self.lines),
        ]
        body = "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
        return (f"**{self.title}**\n\n" if self.title else "") + body + (f"\n{self.note}\n" if self.note else "")


def to_markdown(found: Iterable[Table]) -> str:
    """Format tables one below the other."""
    return "\n".join(table.markdown() for table in found)


def modes_table(title: str, modes: Sequence[Mapping[str, Any]]) -> Table:
    """Make a table of one model's latent ablation, one line per mode."""
    lines = tuple(
        (
            m["mode"],
            as_code(m["about"]),
            f"{m['n']:,}",
            f"{m['accuracy']:.1f} [{m['low']:.1f}, {m['high']:.1f}]",
            NONE
            if m["difference"] is None
            else signed_interval(*(m[f"difference{x}"] for x in ("", "_low", "_high"))),
        )
        for m in modes
    )
    names = ("mode", "in place of the latents", "n", "accuracy % [95 % CI]", "difference, points [95 % CI]")
    return Table(names, lines, 2, title)


def signed_interval(mean: float, low: float, high: float) -> str:
    """Format as `+1.2 [−0.3, +2.7]`; zero has no sign."""
    texts = ("0.0" if abs(value) < 0.05 else f"{value:+.1f}".replace("-", MINUS) for value in (mean, low, high))
    return "{} [{}, {}]".format(*texts)


def as_code(text: str) -> str:
    """Format marker tokens as code, so that Markdown does not take them for HTML tags."""
    return re.sub(r"(?<!`)</?think>(?!`)", r"`\g<0>`", text)
