"""A folder of records → one page, as Markdown with its figures beside it or as one self-contained HTML file.

The page says first what was found and what did not work, then has the tables, figures, thoughts, tests, costs and settings.
Tables have at most ten columns; what only some readers need is in collapsible sections. The HTML file is the same Markdown,
rendered, without a script; it loads nothing from the network.
"""

import base64
import html
import json
import logging
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

from ruplar import io
from ruplar.errors import UserError
from ruplar.evaluate.record import ABLATION, RECORD, TRY, read_ablation, study_of
from ruplar.report.breakdown import steps_table
from ruplar.report.budgets import curves, curves_table
from ruplar.report.figures import draw, draw_growth
from ruplar.report.figures.style import Drawing
from ruplar.report.headline import headline
from ruplar.report.marks import marked
from ruplar.report.paper import printed_table
from ruplar.report.rows import Row, apart, find_runs, place_of, pool
from ruplar.report.sets import on_test_sets
from ruplar.report.table import NONE, Table, to_markdown
from ruplar.report.tables import cost_table, latent_ablation_table, results_table, summary_table, tests_tables
from ruplar.report.thoughts import certainty, thoughts

log = logging.getLogger(__name__)

_MODELS = (
    " Two models, per question: milliseconds of wall and of CPU time, the same as multiples of `ours`, forward passes and tokens "
    "processed. ours: soft tokens; text: the written chain on the same engine; hf_cot: the same chain with Hugging Face `generate`."
)
_KINDS = ("batch", "pack", "liger", "compiled")  # what tells records of one shape apart
_WIDEST = 120  # characters of a value of a bench record


def write_page(
    folder: str | Path, file: str | Path, against: str | None = None, *, drafts: bool = False, made_by: str = ""
) -> list[Path]:
    """Write the page of a results folder; returns the files written.

    Args:
        folder: With run.json files, or only with records of `ruplar bench`.
        file: With the ending .html, the figures are in the page; else they are PNGs beside it.
        against: Test rows against this one too, beside the study's reference.
        drafts: Include partial runs; the page says so at the top.
        made_by: The command that made the page; default: `ruplar report`.
    """
    folder, file = Path(folder), Path(file)
    options = [str(folder), "--page", str(file), *(["--against", against] if against else [])]
    command = made_by or f"ruplar report {shlex.join(options)}"
    text, drawings = build(folder, file.stem, against, drafts)
    if file.suffix == ".html":
        return [io.write_text(file, as_html(f"{text}\nMade by `{command}`.\n", drawings))]
    written = [io.write_text(file, f"<!-- made by: {command} -->\n{text}")]
    return written + [io.write_bytes(file.with_name(name), drawing.png()) for name, drawing in drawings.items()]


def as_html(text: str, drawings: Mapping[str, Drawing]) -> str:
    """Render a page; of its HTML only the collapsible sections are HTML, whatever a record holds."""
    from markdown_it import MarkdownIt

    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    start = r"<p>&lt;details&gt;\n&lt;summary&gt;(.*?)&lt;/summary&gt;</p>"
    body = re.sub(start, r"<details>\n<summary>\1</summary>", body).replace("<p>&lt;/details&gt;</p>", "</details>")
    for name, drawing in drawings.items():
        png = base64.b64encode(drawing.png()).decode()
        body = body.replace(f'src="{name}"', f'src="data:image/png;base64,{png}"')
    template = resources.files("ruplar.report").joinpath("page.html").read_text(encoding="utf-8")
    title = text.partition("\n")[0].removeprefix("# ")
    return template.replace("{title}", html.escape(title)).replace("{body}", body)


def build(folder: Path, name: str, against: str | None = None, drafts: bool = False) -> tuple[str, dict[str, Drawing]]:
    """Make the page's Markdown and its figures by the names they have in it: NAME.png, NAME-soft-tokens.png."""
    if not any(folder.rglob(RECORD)):
        return _bench_page(folder, name)
    study = study_of(folder)
    every = pool(find_runs([folder], drafts), drafts)
    tries, rows = [row for row in every if TRY in row.method], [row for row in every if TRY not in row.method]
    rows, tries = (rows, tries) if rows else (tries, [])
    found = {f"{name}.png": draw(rows, bool(study.get("grid"))), f"{name}-soft-tokens.png": certainty(rows)}
    drawings = {file: drawing for file, drawing in found.items() if drawing is not None}
    cost, learning, ablated = cost_table(rows), curves(rows), latent_ablation_table(rows)
    last = [replace(curve.last, method=curve.method) for group in learning for curve in group]
    measured = "ms at batch size 1" in cost.names
    title = f"Study {study['name']}" if "name" in study else folder.resolve().name
    sections = [
        f"# {title}\n",
        _draft(every),
        f"{study['about']}\n" if study.get("about") else "",
        ("After each row's last budget of training examples: " if last else "")
        + headline(last or rows, _ablations(rows)),
        *(curves_table(group).markdown() for group in learning),
        "" if learning else summary_table(rows).markdown(),
        _figure(drawings, f"{name}.png"),
        _details("Every row and budget", summary_table(rows)) if learning else "",
        cost.markdown() if measured else "",
        ablated.markdown() if ablated.lines else "",
        thoughts(rows),
        _figure(drawings, f"{name}-soft-tokens.png"),
        _paired(rows, against),
        _by_steps(rows),
        _details("All benchmarks", results_table(rows)),
        "" if measured else _details("Cost", replace(cost, title="")),
        _details("Beside the paper's printed numbers", replace(printed_table(rows), title="")),
        _details("Tries: settings chosen by their validation accuracy", summary_table(tries)) if tries else "",
        _details("Settings of each row", _settings(study)),
        _details("Runs", _runs(rows)),
    ]
    return "\n".join(section for section in sections if section), drawings


def _draft(rows: Sequence[Row]) -> str:
    runs = [run.record for row in rows for run in row.runs]
    reasons = "; ".join(dict.fromkeys(f"{record.name}: {why}" for record in runs for why in record.partial))
    return f"**Draft.** These runs may enter no table: {reasons}.\n" if reasons else ""


def _figure(drawings: Mapping[str, Drawing], file: str) -> str:
    return f"![{drawings[file].title}]({file})\n\n{drawings[file].caption}\n" if file in drawings else ""


def _ablations(rows: Sequence[Row]) -> dict[str, Any]:
    """Read the ablations of each row's first run that has one."""
    found: dict[str, Any] = {}
    place = apart(rows)
    for row in rows:
        file = next((run.folder / ABLATION for run in row.runs if (run.folder / ABLATION).is_file()), None)
        for name, modes in (read_ablation(file) if file else {}).items():
            found.setdefault(f"{', '.join(place_of(row, place))} on {name}", modes)
    return found


def _details(title: str, *tables: Table) -> str:
    found = [table for table in tables if table.lines]
    if not found:
        return ""
    return f"<details>\n<summary>{title}</summary>\n\n{to_markdown(found)}\n</details>\n"


def _paired(rows: Sequence[Row], against: str | None) -> str:
    try:
        found = tests_tables(on_test_sets(rows), against)
    except UserError as error:
        return f"Paired tests are not possible: {error}\n"
    return "\n".join(_details(table.title, replace(table, title="")) for table in found)


def _by_steps(rows: Sequence[Row]) -> str:
    """Accuracy by the number of reference steps, on the first test set that has chains."""
    tested = on_test_sets(rows)
    try:
        table = steps_table(tested)
    except (OSError, UserError):  # no answers on record: the paired tests say so
        return ""
    return "" if table is None else _details(table.title, replace(marked(table, tested), title=""))


def _settings(study: Mapping[str, Any]) -> Table:
    rows = [row for row in study.get("rows", {}).values() if row.get("set") or row.get("of")]
    sets = [set(row["set"]) for row in rows if row["set"]]
    common = set.intersection(*sets) if sets else set()
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


def _bench_page(folder: Path, name: str) -> tuple[str, dict[str, Drawing]]:
    records = _benches(folder)
    if not records:
        raise UserError(f"{folder}: nothing to report: no run.json and no bench record.")
    grown = [record for record in records if record["what"] == "growth"]
    drawings = {f"{name}.png": draw_growth(record) for record in grown[:1]}
    about = _MODELS if any(record["what"] == "models" for record in records) else ""
    sections = ["# Speed and memory\n", f"Measured by `ruplar bench`.{about}\n", _figure(drawings, f"{name}.png")]
    for record in records:
        values = [(key, _cell(value)) for key, value in record.items() if not isinstance(value, dict | list)]
        lines = tuple((key, value) for key, value in values if len(value) <= _WIDEST)
        where = record.get("gpu") or record.get("cpu") or record["device"]
        if record["what"] == "models":  # measured on a user's machine: first, and open
            rows = tuple(tuple(map(_cell, row.values())) for row in record["rows"])
            title = f"{record['shape']} against {record['text_model']}, {record['dtype']}, {where}, threads: {record['threads']}"
            sections.insert(2, to_markdown([Table(tuple(record["rows"][0]), rows, 1, title)]))
        kind = [key if record[key] is True else f"{key} {record[key]}" for key in _KINDS if record.get(key)]
        title = ", ".join((record["what"], record["shape"], *kind, where))
        sections.append(_details(title, Table(("field", "value"), lines, 2)))
    return "\n".join(section for section in sections if section), drawings


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _benches(folder: Path) -> list[dict[str, Any]]:
    found = []
    for file in sorted(folder.rglob("*.json")):
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise UserError(f"{file}: not JSON ({error}).") from error
        if isinstance(content, dict) and {"what", "shape", "device"} <= content.keys():
            if content.get("dirty"):
                log.warning("%s is left out: the code had uncommitted changes.", file)
            else:
                found.append(content)
    return found
