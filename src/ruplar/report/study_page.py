"""One study's records → a Markdown page of the results appendix: question, table, figure, ablation, tests, costs, settings.

The tables fit a page: at most ten columns; what only some readers need is in collapsible sections.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ruplar import io
from ruplar.errors import UserError
from ruplar.evaluate.record import RECORD, study_of
from ruplar.report.breakdown import shares_table, steps_tables
from ruplar.report.budgets import curves_tables
from ruplar.report.figures import draw_averages, draw_curves, draw_frontiers, sweeps
from ruplar.report.figures.style import Drawing
from ruplar.report.marks import marked
from ruplar.report.material import gather
from ruplar.report.paired import pairs
from ruplar.report.paper import printed_table
from ruplar.report.rows import Row, collect
from ruplar.report.sets import is_selection, on_test_sets
from ruplar.report.table import NONE, Table, to_markdown
from ruplar.report.tables import (
    accuracy_table,
    cost_table,
    latent_ablation_table,
    pairs_table,
    references,
    summary_table,
)

TRY = " try "  # in the label of a try, after that of its row
_WIDEST = 120  # characters of a value of a bench record


def write_study_page(folder: str | Path, file: str | Path, against: str | None = None) -> list[Path]:
    """Write the page of a results folder, and its figure beside it as PNG; returns the files written.

    Rows are tested against the study's reference and, where it is given, against the row `against`.
    """
    folder, file = Path(folder), Path(file)
    if not any(folder.rglob(RECORD)):
        return [io.write_text(file, _bench_page(folder, file))]
    rows = collect(folder)
    drawing = _figure(rows, bool(study_of(folder).get("grid")))
    written = []
    if drawing is not None:
        written.append(io.write_bytes(file.with_suffix(".png"), drawing.png()))
    return [io.write_text(file, study_page(folder, rows, file, drawing, against)), *written]


def study_page(
    folder: Path, rows: Sequence[Row], file: Path, drawing: Drawing | None = None, against: str | None = None
) -> str:
    """Make the page's text; tries of settings have a section of their own."""
    study = study_of(folder)
    tries, rows = [row for row in rows if TRY in row.method], [row for row in rows if TRY not in row.method]
    cost, curves = cost_table(rows), curves_tables(rows)
    measured = "ms at batch size 1" in cost.names
    sections = [
        _heading(f"Study {study.get('name', folder.name)}", study.get("about", ""), folder, file, against),
        *(table.markdown() for table in curves),
        "" if curves else summary_table(rows).markdown(),
        f"![{drawing.title}]({file.stem}.png)\n\n{drawing.caption}\n" if drawing else "",
        _details("Every row and budget", summary_table(rows)) if curves else "",
        cost.markdown() if measured else "",
        latent_ablation_table(rows).markdown() if latent_ablation_table(rows).lines else "",
        _paired(rows, against),
        _by_steps(rows),
        _details("All benchmarks", accuracy_table(rows)),
        "" if measured else _details("Cost", replace(cost, title="")),
        _details("Beside the paper's printed numbers", replace(printed_table(rows), title="")),
        _details("Tries: settings chosen by their validation accuracy", summary_table(tries)) if tries else "",
        _details("Settings of each row", _settings(study)),
        _details("Runs", _runs(rows)),
    ]
    return "\n".join(section for section in sections if section)


def _heading(title: str, about: str, folder: Path, file: Path, against: str | None = None) -> str:
    options = ["--page", str(file), *(["--against", against] if against else [])]
    made = f"<!-- made by: ruplar report {shlex.join([str(folder), *options])} -->"
    return f"{made}\n# {title}\n" + (f"\n{about}\n" if about else "")


def _details(title: str, *tables: Table) -> str:
    found = [table for table in tables if table.lines]
    if not found:
        return ""
    return f"<details>\n<summary>{title}</summary>\n\n{to_markdown(found)}\n</details>\n"


def _paired(rows: Sequence[Row], against: str | None) -> str:
    tested = on_test_sets(rows)
    reference = next(iter(references(tested).values()), None)
    try:
        shares = marked(shares_table(tested, references(tested)), tested) if reference else None
        found = [_details(shares.title, replace(shares, title=""))] if shares else []
        for row in dict.fromkeys((reference, against or reference)):
            title = f"Paired tests against {row or 'the best of each benchmark'}"
            found.append(_details(title, marked(pairs_table(pairs(tested, row)), tested)))
        return "\n".join(filter(None, found))
    except UserError as error:
        return f"Paired tests are not possible: {error}\n"


def _by_steps(rows: Sequence[Row]) -> str:
    """Accuracy by the number of reference steps, on the first test set that has chains."""
    tested = on_test_sets(rows)
    try:
        table = next(iter(steps_tables(tested)), None)
    except (OSError, UserError):  # no answers on record: the paired tests say so
        return ""
    return "" if table is None else _details(table.title, replace(marked(table, tested), title=""))


def _settings(study: dict[str, Any]) -> Table:
    rows = [row for row in study.get("rows", {}).values() if row.get("set") or row.get("of")]
    common = (
        set.intersection(*(set(row["set"]) for row in rows if row["set"])) if any(r["set"] for r in rows) else set()
    )
    lines = []
    for row in rows:
        own = ", ".join(f"`{one}`" for one in row["set"] if one not in common)
        of = f"soup of {row['mean']} seeds of {row['of']}" if row.get("mean") else f"models of {row['of']}"
        lines.append((row["label"], ", ".join(filter(None, (of if row.get("of") else "", own))) or NONE))
    note = f"All rows: {', '.join(f'`{one}`' for one in sorted(common))}." if common else ""
    return Table(("method", "settings of its own"), tuple(lines), 2, note=note)


def _runs(rows: Sequence[Row]) -> Table:
    lines = {}
    for run in (run for row in rows for run in row.runs):
        record, hardware = run.record, run.record.machine.gpu or run.record.machine.cpu
        commit = NONE if record.commit is None else record.commit[:12]
        lines[run.folder] = (record.name, str(record.seed), record.started[:10], commit, hardware)
    return Table(("method", "seed", "date", "commit", "hardware"), tuple(lines.values()), 5)


def _figure(rows: Sequence[Row], grid: bool) -> Drawing | None:
    """Draw learning curves, else macro-averages, else the sweeps of a grid, else accuracy against cost on the first test set."""
    tested = [row for row in rows if not is_selection(row.benchmark)]
    found = draw_curves(tested) or draw_averages(tested)
    if found:
        return found[0]
    swept = sweeps.find(tested) if grid else []
    return sweeps.draw(swept) if swept else next(iter(draw_frontiers(tested)), None)


def _bench_page(folder: Path, file: Path) -> str:
    sections = [_heading("Speed and memory", "Measured by `ruplar bench`.", folder, file)]
    for record in gather([folder]).benches:
        values = [
            (k, f"{v:.4g}" if isinstance(v, float) else str(v))
            for k, v in record.items()
            if not isinstance(v, dict | list)
        ]
        lines = tuple((key, value) for key, value in values if len(value) <= _WIDEST)
        where = record.get("gpu") or record.get("cpu") or record["device"]
        if record["what"] == "models":  # measured on a user's machine: first, and open
            rows = tuple(
                tuple(f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values()) for row in record["rows"]
            )
            title = f"{record['shape']} against {record['text_model']}, {where}, threads: {record['threads']}"
            sections.insert(1, to_markdown([Table(tuple(record["rows"][0]), rows, 1, title)]))
        sections.append(_details(f"{record['what']}, {record['shape']}, {where}", Table(("field", "value"), lines, 2)))
    return "\n".join(sections)
