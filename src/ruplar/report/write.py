"""Folders of records → a page, a folder of figures, or both; drawn once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from ruplar.report.figures import draw_all, write
from ruplar.report.material import gather
from ruplar.report.page import build


def write_report(
    paths: Iterable[str | Path],
    html: str | Path | None = None,
    figures: str | Path | None = None,
    *,
    drafts: bool = False,
    commands: Sequence[str] = (),
) -> list[Path]:
    """Write what is asked for.

    Args:
        paths: run.json files, bench records, or folders that hold them.
        html: The page's file.
        figures: The figures' folder.
        drafts: Take partial runs too; the page then says so on top.
        commands: What was typed to make the runs, for the page's last section.

    Returns:
        What was written: the page, the figures' index.

    Raises:
        UserError: There is nothing to report, a record cannot be read, or matplotlib is missing.
    """
    material = gather(paths, drafts)
    drawings = draw_all(material)
    written = []
    if figures is not None:
        written.append(write(drawings, figures))
    if html is not None:
        page = Path(html)
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(build(material, drawings=drawings, commands=commands), encoding="utf-8")
        written.append(page)
    return written
