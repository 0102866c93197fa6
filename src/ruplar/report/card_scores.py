"""A model's rows, those beside them and its ablations → the sections of its card that hold figures."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ruplar.errors import UserError
from ruplar.evaluate.record import BenchmarkResult
from ruplar.report.model_records import VALID, ModelRecords
from ruplar.report.paired import pairs
from ruplar.report.rows import Row, Run, pool
from ruplar.report.table import Table
from ruplar.report.tables import MINUS, NONE, pairs_table, results_table

log = logging.getLogger(__name__)


def scores(subject: ModelRecords) -> str:
    """These weights alone where several seeds were trained; their row beside the others; the paired tests."""
    label = subject.rows[0].method
    place = {row.benchmark: (row.benchmark == VALID, i) for i, row in enumerate(subject.rows)}
    rows = sorted([*subject.rows, *subject.beside], key=lambda row: (place[row.benchmark], -row.accuracy))
    table = results_table(rows)
    column = table.names.index("method")
    lines = tuple(
        tuple(f"**{cell}**" if i == column and row in subject.rows else cell for i, cell in enumerate(line))
        for row, line in zip(rows, table.lines, strict=True)
    )
    text = _whose(subject, label)
    note = table.note or "Accuracy has its 95 % interval, which covers the chance of the questions."
    text += f"#L counts latents, or the tokens of a written chain. {note}"
    if any(row.benchmark == VALID for row in rows):
        text += f" `{VALID}` is the set that checkpoints and settings are chosen on."
    return text + "\n\n" + replace(table, lines=lines, note="").markdown() + _tests(rows, label, subject)


def _whose(subject: ModelRecords, label: str) -> str:
    if len(subject.seeds) == 1:
        return f"**{label}** is this model. "
    seeds = ", ".join(map(str, subject.seeds))
    others = ", beside the others of its study" if subject.beside else ""
    if subject.record.mean_of:
        averaged = ", ".join(map(str, subject.record.mean_of))
        return (
            f"These weights alone, the mean of seeds {averaged}:\n\n{_alone(subject).markdown()}\n"
            f"Their row, **{label}**, is of {len(subject.seeds)} such means{others}. "
        )
    return (
        f"These weights alone, those of seed {subject.record.seed}:\n\n{_alone(subject).markdown()}\n"
        f"Their recipe, **{label}**, trained with seeds {seeds}{others}. "
    )


def _alone(subject: ModelRecords) -> Table:
    lines = []
    for r in sorted(subject.results, key=lambda r: r.name == VALID):
        [row] = pool(
            [Run(subject.folder, subject.record, r)], drafts=True
        )  # it knows which questions share a scenario
        interval = f"[{row.low:.1f}, {row.high:.1f}]"
        lines.append((_asked(r), f"{r.n:,}", f"{r.accuracy:.1f} {interval}", f"{r.latents:.2f}", f"{r.unreadable:,}"))
    return Table(("benchmark", "n", "accuracy % [95 %]", "#L", "unreadable"), tuple(lines), 1)


def _asked(result: BenchmarkResult) -> str:
    how = ([] if result.decoding == "greedy" else [result.decoding]) + (["lenient grading"] if result.lenient else [])
    return result.name + (f" ({', '.join(how)})" if how else "")


def _tests(rows: Sequence[Row], label: str, subject: ModelRecords) -> str:
    """The other rows of its study against this model, question by question; "" outside a study."""
    if not (subject.record.study and subject.beside):
        return ""
    try:
        found = pairs(rows, label)
    except UserError as error:
        log.warning("no paired tests: %s", error)
        return "\nThe answers on record do not allow a test question by question.\n"
    table = pairs_table(found).markdown()
    return f"\n<details>\n<summary>Each of the others against {label}, question by question</summary>\n\n{table}\n</details>\n"


def ablation(subject: ModelRecords) -> str:
    """What stands in the latents' places, and what the answers are then worth; "" where nothing was ablated."""
    parts = []
    for (seed, name), modes in subject.ablated.items():
        lines = tuple(
            (m["mode"], as_code(m["about"]), f"{m['n']:,}", _interval(m, "accuracy", ""), _gap(m)) for m in modes
        )
        names = ("latents", "what stands in their places", "n", "accuracy % [95 %]", "difference, points [95 %]")
        other = "another such mean, from" if subject.record.mean_of else "the same recipe with"
        whose = "these weights" if seed == subject.record.seed else f"{other} seed {seed}"
        title = f"{name}, {whose}"
        parts.append(Table(names, lines, 2, title).markdown())
    head = "What the answers are worth when something else stands in the latents' places; differences are paired by question."
    return "\n\n".join([head, *parts]) if parts else ""


def _gap(mode: dict[str, Any]) -> str:
    return NONE if mode["difference"] is None else _interval(mode, "difference", "difference_", "+")


def _interval(mode: dict[str, Any], key: str, prefix: str, sign: str = "") -> str:
    low, high = mode[f"{prefix}low"], mode[f"{prefix}high"]
    text = f"{mode[key]:{sign}.1f}" + ("" if low is None else f" [{low:{sign}.1f}, {high:{sign}.1f}]")
    return text.replace("-", MINUS)


def as_code(text: str) -> str:
    """Text with its markers set as code: as they are, a page would take them for tags."""
    return re.sub(r"(?<!`)</?think>(?!`)", r"`\g<0>`", text)
