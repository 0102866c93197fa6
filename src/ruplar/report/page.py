"""Material → one HTML page that holds everything it shows: headline, tables, figures, thoughts, how it was made.

No script, no network, no font to load: the page can be mailed, printed, read on a phone and opened in ten years. What it
says is computed from the records; a sentence without its figures on record is left out.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from ruplar import __version__
from ruplar.config import recipes
from ruplar.errors import UserError, install_extra
from ruplar.evaluate.record import RunRecord
from ruplar.report.figures import draw_all
from ruplar.report.figures.style import Drawing
from ruplar.report.material import Material, best_thinker, method_of, thoughts_of
from ruplar.report.rows import Row
from ruplar.report.table import Table
from ruplar.report.tables import tables
from ruplar.report.thoughts import Thought, pick_lengths

EXAMPLES = 4
SHOWN = 6
"""Tokens of a soft token that an example shows."""


@dataclass(frozen=True)
class Headline:
    """What the page says first.

    Attributes:
        title: A few words.
        sentence: The finding, with its figures.
        cards: Figure and what it is, a few of them.
    """

    title: str
    sentence: str
    cards: list[tuple[str, str]]


def build(
    material: Material,
    *,
    drawings: Sequence[Drawing] | None = None,
    commands: Sequence[str] = (),
    found: Sequence[Table] | None = None,
) -> str:
    """The page as text.

    Args:
        material: What it is about.
        drawings: Its figures, when they have been drawn already.
        commands: What was typed to make the runs, as far as the records do not say it.
        found: Its tables, when made already; else the results, the paired tests where samples allow, the paper's numbers.

    Raises:
        UserError: jinja2 or matplotlib is missing.
    """
    try:
        import jinja2
    except ImportError:
        raise UserError(f"a page needs jinja2. {install_extra('figures')}") from None
    source = resources.files("ruplar.report").joinpath("page.html").read_text(encoding="utf-8")
    template = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(source)
    drawings = draw_all(material) if drawings is None else drawings
    made, untested = _tables(material.rows) if found is None else (list(found), "")
    kinds = [d for d in drawings if not d.name.startswith("training-")]
    return template.render(
        headline=headline(material.rows),
        tables=made,
        untested=untested,
        drawings=kinds,
        curves=[d for d in drawings if d not in kinds],
        examples=_examples(material.rows),
        shown=SHOWN,
        made=[_made(record) for record in material.records],
        benches=material.benches,
        drafts=material.drafts,
        commands=[*commands, *_commands(material.records)],
        version=__version__,
    )


def _tables(rows: Sequence[Row]) -> tuple[list[Table], str]:
    """Results, paired tests, the paper's numbers; and why there are no tests where the samples do not allow them."""
    if not rows:
        return [], ""
    try:
        return tables(rows, tests=True), ""
    except UserError as error:
        return tables(rows, tests=False), str(error)


def headline(rows: Sequence[Row]) -> Headline:
    """The benchmark most methods were asked: the best soft thinker beside the text chain and the direct answer."""
    sets: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        sets.setdefault((row.study, row.backbone, row.benchmark), []).append(row)
    if not sets:
        return Headline("Speed", "What was measured, beside the published procedure and the hardware's floor.", [])
    group = max(sets.values(), key=len)
    named = {name: _best([r for r in group if method_of(r) == name]) for name in ("cot", "no_cot")}
    text, direct = named["cot"], named["no_cot"]
    soft = _best([r for r in group if method_of(r) not in ("cot", "no_cot") and r.latents > 0])
    title = f"{len(group)} ways to answer {group[0].benchmark}" if len(group) > 1 else f"{group[0].method}"
    first = soft or _best(group)
    assert first is not None
    sentence = (
        f"{first.method} answers {first.accuracy:.1f} % of {first.n:,} questions right (95 % interval "
        f"{first.low:.1f} to {first.high:.1f}) with {first.forwards:.1f} forward passes each"
    )
    if soft and text:
        sentence += f"; writing the reasoning out takes {text.forwards:.1f} for {text.accuracy:.1f} %"
    if soft and direct:
        sentence += f", answering at once takes {direct.forwards:.1f} for {direct.accuracy:.1f} %"
    return Headline(title, sentence + ".", _cards(first, text if soft else None))


def _best(rows: Sequence[Row]) -> Row | None:
    return max(rows, key=lambda row: row.accuracy, default=None)


def _cards(row: Row, text: Row | None) -> list[tuple[str, str]]:
    cards = [(f"{row.accuracy:.1f} %", f"of {row.n:,} questions right, {row.method}")]
    if row.latents:
        cards.append((f"{row.latents:.2f}", "soft tokens a thought, on average"))
    if text and text.forwards and row.forwards:
        cards.append((f"{text.forwards / row.forwards:.1f}×", "fewer forward passes than the text chain"))
    if text and text.accuracy:
        cards.append((f"{100 * row.accuracy / text.accuracy:.0f} %", "of the text chain's accuracy kept"))
    return cards


def _examples(rows: Sequence[Row]) -> list[Thought]:
    """Right thoughts of different lengths and one wrong one, of the best row that thinks."""
    row = best_thinker(rows)
    return pick_lengths(thoughts_of(row, rows), EXAMPLES) if row else []


def _made(record: RunRecord) -> dict[str, Any]:
    """What a reader needs to trust a run or to repeat it, in words."""
    commit = "not in a repository" if record.commit is None else record.commit[:12]
    machine = record.machine
    return {
        "name": record.name + (f" ({record.study})" if record.study else ""),
        "seed": record.seed,
        "commit": commit + (" with uncommitted changes" if record.dirty else ""),
        "machine": machine.gpu or f"{machine.cpu}, {machine.cores} cores",
        "started": record.started,
        "took": f"{record.seconds:,.0f} s",
        "versions": ", ".join(f"{name} {version}" for name, version in record.versions.items()),
        "data": [f"{source}: {print_}" for source, print_ in record.data.items()],
        "left_out": [f"{count:,} {reason}" for reason, count in record.left_out.items() if count],
    }


def _commands(records: Sequence[RunRecord]) -> list[str]:
    """Commands that make the trained runs again, where the recipe is one of the package's."""
    known = recipes()
    made = []
    for record in records:
        if record.train_seconds is not None and record.name in known:
            seed = [] if any(o.startswith("seed=") for o in record.overrides) else [f"seed={record.seed}"]
            made.append(shlex.join(["ruplar", "train", record.name, *record.overrides, *seed]))
    return list(dict.fromkeys(made))
