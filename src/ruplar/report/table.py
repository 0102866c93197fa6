"""Names, lines and a note → one table as Markdown or as an HTML fragment."""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A table ready to be written down.

    Attributes:
        names: Of the columns; the first `texts` hold text, the others figures.
        lines: One a row, as many cells as names.
        title: Stands above it; "" for none.
        note: A sentence or two below it: how to read it.
    """

    names: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    texts: int
    title: str = ""
    note: str = ""

    def markdown(self) -> str:
        """As Markdown; cells cannot break out of their column."""
        lines = [
            self.names,
            ["---" if i < self.texts else "---:" for i in range(len(self.names))],
            *([cell.replace("|", "\\|") for cell in line] for line in self.lines),
        ]
        body = "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
        return (f"**{self.title}**\n\n" if self.title else "") + body + (f"\n{self.note}\n" if self.note else "")

    def html(self) -> str:
        """As one `<table class="results">`, its title the caption; the note is a paragraph below it."""

        def cells(line: Iterable[str], tag: str) -> str:
            kinds = [' class="text"' if i < self.texts else "" for i in range(len(self.names))]
            return "".join(f"<{tag}{k}>{html.escape(c)}</{tag}>" for k, c in zip(kinds, line, strict=True))

        title = f"<caption>{html.escape(self.title)}</caption>" if self.title else ""
        body = "\n".join(f"<tr>{cells(line, 'td')}</tr>" for line in self.lines)
        note = f'\n<p class="note">{html.escape(self.note)}</p>' if self.note else ""
        head = f"<thead><tr>{cells(self.names, 'th')}</tr></thead>"
        return f'<table class="results">{title}\n{head}\n<tbody>\n{body}\n</tbody>\n</table>{note}\n'
