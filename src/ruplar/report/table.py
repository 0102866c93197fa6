"""Names, lines and a note → one table as Markdown."""

from __future__ import annotations

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
    """One line per mode of one model's latent ablation."""
    lines = tuple(
        (m["mode"], as_code(m["about"]), f"{m['n']:,}", _interval(m, "accuracy", ""), _gap(m)) for m in modes
    )
    names = ("mode", "in place of the latents", "n", "accuracy % [95 % CI]", "difference, points [95 % CI]")
    return Table(names, lines, 2, title)


def _gap(mode: Mapping[str, Any]) -> str:
    return NONE if mode["difference"] is None else _interval(mode, "difference", "difference_", "+")


def _interval(mode: Mapping[str, Any], key: str, prefix: str, sign: str = "") -> str:
    low, high = mode[f"{prefix}low"], mode[f"{prefix}high"]
    text = f"{mode[key]:{sign}.1f}" + ("" if low is None else f" [{low:{sign}.1f}, {high:{sign}.1f}]")
    return text.replace("-", MINUS)


def as_code(text: str) -> str:
    """Format marker tokens as code, so that Markdown does not take them for HTML tags."""
    return re.sub(r"(?<!`)</?think>(?!`)", r"`\g<0>`", text)
