"""Names, lines and a note → one table as Markdown or HTML; and the block of a page that holds it."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ruplar.errors import UserError

MINUS, NONE = "−", "–"
NARROW = 5
"""Columns that fit a phone; with more, the page shows each line of a table as a list."""


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

    def html(self) -> str:
        """Format as one `<table>`, its title the caption, the note a paragraph below; each cell names its column."""
        kinds = [' class="text"' if i < self.texts else "" for i in range(len(self.names))]
        names = [html.escape(name) for name in self.names]
        head = "".join(f"<th{kind}>{name}</th>" for kind, name in zip(kinds, names, strict=True))
        lines = [
            "".join(
                f'<td{kind} data-name="{name}">{html.escape(text)}</td>'
                for kind, name, text in zip(kinds, names, line, strict=True)
            )
            for line in self.lines
        ]
        title = f"<caption>{html.escape(self.title)}</caption>" if self.title else ""
        body = "\n".join(f"<tr>{line}</tr>" for line in lines)
        note = f'\n<p class="note">{html.escape(self.note)}</p>' if self.note else ""
        wide = " wide" if len(names) > NARROW else ""
        head = f"<thead><tr>{head}</tr></thead>"
        return f'<table class="results{wide}">{title}\n{head}\n<tbody>\n{body}\n</tbody>\n</table>{note}\n'


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


def replace_block(text: str, marker: str, table: str) -> str:
    """Replace what is between `<!-- results:MARKER -->` and `<!-- /results:MARKER -->` in a page."""
    start, end = f"<!-- results:{marker} -->", f"<!-- /results:{marker} -->"
    if text.count(start) != 1 or text.count(end) != 1 or text.index(start) > text.index(end):
        raise UserError(f"the page must hold {start} and, below it, {end}, once each; the table goes between them.")
    before, rest = text.split(start)
    return f"{before}{start}\n{table.strip()}\n{end}{rest.split(end)[1]}"
