"""Folders of records → one self-contained HTML page (headline, tables, figures, thoughts, provenance), a folder of figures, or both.

The page has no script and loads nothing from the network. Every number in it is computed from the records.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from ruplar import __version__, io
from ruplar.config import recipes
from ruplar.errors import UserError
from ruplar.evaluate.record import RunRecord
from ruplar.report.figures import draw_all, write_figures
from ruplar.report.figures.style import Drawing
from ruplar.report.material import Material, Thought, best_thinker, gather, pick_lengths, thoughts_of
from ruplar.report.rows import Row, method_of
from ruplar.report.sets import ABOUT, is_selection, on_test_sets
from ruplar.report.table import Table, modes_table
from ruplar.report.tables import tables

EXAMPLES = 4
SHOWN = 6  # tokens per soft token


@dataclass(frozen=True)
class Headline:
    """The top of the page: title, the finding with its numbers, what failed, and pairs of a number and what it is."""

    title: str
    sentence: str
    cards: list[tuple[str, str]]
    failed: list[str] = field(default_factory=list)


def write_report(
    paths: Iterable[str | Path],
    html: str | Path | None = None,
    figures: str | Path | None = None,
    *,
    drafts: bool = False,
    commands: Sequence[str] = (),
) -> list[Path]:
    """Write the page, the figures, or both; figures are drawn once."""
    material = gather(paths, drafts)
    drawings = draw_all(material)
    written = []
    if figures is not None:
        written.append(write_figures(drawings, figures))
    if html is not None:
        written.append(io.write_text(html, build(material, drawings, commands)))
    return written


def build(material: Material, drawings: Sequence[Drawing], commands: Sequence[str] = ()) -> str:
    """Build the page; `drawings` are its figures."""
    import jinja2

    source = resources.files("ruplar.report").joinpath("page.html").read_text(encoding="utf-8")
    template = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(source)
    made, untested = _tables(material.rows)
    made += [modes_table(f"Latent ablation, {name}", modes) for name, modes in material.ablations.items()]
    kinds = [d for d in drawings if not d.name.startswith("training-")]
    return template.render(
        headline=headline(material.rows, material.ablations),
        tables=made,
        untested=untested,
        drawings=kinds,
        curves=[d for d in drawings if d not in kinds],
        examples=_examples(material.rows),
        shown=SHOWN,
        made=material.records,
        benches=material.benches,
        drafts=material.drafts,
        commands=[*commands, *_commands(material.records)],
        version=__version__,
    )


def _tables(rows: Sequence[Row]) -> tuple[list[Table], str]:
    if not rows:
        return [], ""
    try:
        return tables(rows, narrow=True), ""
    except UserError as error:
        return tables(rows, tests=False, narrow=True), str(error)


def headline(rows: Sequence[Row], ablations: Mapping[str, Sequence[Mapping[str, Any]]] | None = None) -> Headline:
    """Compare the best latent method with the text chain and the direct answer, on the test set that most methods share.

    A selection set is the headline only where no test set was evaluated, and is then called one.
    """
    sets: dict[tuple[str, str, str], list[Row]] = {}
    for row in on_test_sets(rows):
        sets.setdefault((row.study, row.backbone, row.benchmark), []).append(row)
    if not sets:
        return Headline("Speed", "Measured times beside the published procedure and the hardware's lower bound.", [])
    group = max(sets.values(), key=len)
    text, direct = _named(group, "cot"), _named(group, "no_cot")
    soft = _best([r for r in group if method_of(r) not in ("cot", "no_cot") and r.latents > 0])
    name = group[0].benchmark + (", a selection set" if is_selection(group[0].benchmark) else "")
    title = f"{len(group)} methods on {name}" if len(group) > 1 else f"{group[0].method} on {name}"
    first = soft or _best(group)
    assert first is not None
    sentence = (
        f"{first.method} answers {first.accuracy:.1f} % of {first.n:,} questions correctly (95 % CI "
        f"{first.low:.1f} to {first.high:.1f}) with {first.forwards:.1f} forward passes per question"
    )
    if soft and text:
        sentence += f"; a written chain of thought takes {text.forwards:.1f} for {text.accuracy:.1f} %"
    if soft and direct:
        sentence += f", a direct answer takes {direct.forwards:.1f} for {direct.accuracy:.1f} %"
    beside = [row for row in on_test_sets(rows) if (row.study, row.backbone) == (first.study, first.backbone)]
    failed = [*failures(soft.method, beside), *idle_latents(ablations or {})] if soft else []
    return Headline(title, sentence + ".", _cards(first, text if soft else None), failed)


def failures(best: str, rows: Sequence[Row]) -> list[str]:
    """Say which methods are not above the direct answer on a set: their intervals overlap. Sets on which `best` fails come first.

    Args:
        best: The method of the headline.
        rows: Of its study and backbone, on test sets.
    """
    found = []
    for benchmark in dict.fromkeys(row.benchmark for row in rows):
        group = [row for row in rows if row.benchmark == benchmark]
        direct, text = _named(group, "no_cot"), _named(group, "cot")
        trained = [row for row in group if method_of(row) not in ("cot", "no_cot")]
        below = [row for row in trained if direct and row.low <= direct.high]
        if not direct or not below:
            continue
        about = f"{benchmark} ({ABOUT[benchmark]})" if benchmark in ABOUT else benchmark
        count = f"{len(below)} of {len(trained)} methods are not clearly above a direct answer"
        mine = next((row for row in below if row.method == best), None)
        if mine is None:
            names = ", ".join(f"{row.method} {row.accuracy:.1f}" for row in below)
            found.append(f"On {about} {count} ({direct.accuracy:.1f} %): {names} %.")
            continue
        chain = f", a written chain {text.accuracy:.1f} %" if text else ""
        found.insert(
            0,
            f"On {about} {best} answers {mine.accuracy:.1f} % correctly, a direct answer {direct.accuracy:.1f} %{chain}; "
            f"{count}.",
        )
    return found


def idle_latents(ablations: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """Say whose latents change nothing: another question's latents cost no accuracy, by the interval of the difference."""
    if not ablations:
        return ["Whether the latents of these methods matter is not known: no latent ablation is on record."]
    found = []
    for name, modes in ablations.items():
        by_mode = {mode["mode"]: mode for mode in modes}
        real, other = by_mode.get("real"), by_mode.get("shuffled")
        if real and other and other["difference_high"] is not None and other["difference_high"] >= 0:
            found.append(
                f"The latents of {name} do not clearly matter: {real['accuracy']:.1f} % with its own, "
                f"{other['accuracy']:.1f} % with another question's."
            )
    return found


def _named(rows: Sequence[Row], method: str) -> Row | None:
    return _best([row for row in rows if method_of(row) == method])


def _best(rows: Sequence[Row]) -> Row | None:
    return max(rows, key=lambda row: row.accuracy, default=None)


def _cards(row: Row, text: Row | None) -> list[tuple[str, str]]:
    cards = [(f"{row.accuracy:.1f} %", f"of {row.n:,} questions correct, {row.method}")]
    if row.latents:
        cards.append((f"{row.latents:.2f}", "soft tokens per question, on average"))
    if text and text.forwards and row.forwards:
        cards.append((f"{text.forwards / row.forwards:.1f}×", "fewer forward passes than the text chain"))
    if text and text.accuracy:
        cards.append((f"{100 * row.accuracy / text.accuracy:.0f} %", "of the accuracy of the text chain"))
    return cards


def _examples(rows: Sequence[Row]) -> list[Thought]:
    row = best_thinker(rows)
    return pick_lengths(thoughts_of(row, rows), EXAMPLES) if row else []


def _commands(records: Sequence[RunRecord]) -> list[str]:
    known = recipes()
    made = []
    for record in records:
        recipe = str(record.config.get("name", record.name))
        if record.train_seconds is not None and recipe in known:
            seed = [] if any(o.startswith("seed=") for o in record.overrides) else [f"seed={record.seed}"]
            made.append(shlex.join(["ruplar", "train", recipe, *record.overrides, *seed]))
    return list(dict.fromkeys(made))
