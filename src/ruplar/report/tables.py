"""Rows, pairs and printed numbers → tables as Markdown and HTML fragments, rows as JSON; and the block of a page, made anew.

CSV is made in `csv_rows.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from ruplar.errors import UserError
from ruplar.report import paper
from ruplar.report.averages import averages
from ruplar.report.footnotes import INTERVALS, PAIRED, scenarios_counted, scenarios_tested, scenarios_unseen
from ruplar.report.latent_ablation import replaced
from ruplar.report.paired import Pair, pairs
from ruplar.report.rows import Row, study_of
from ruplar.report.table import Table

MINUS, NONE = "−", "–"


def tables(
    rows: Sequence[Row], *, tests: bool = True, against: str | None = None, printed: bool = True
) -> list[Table]:
    """Everything a report shows: the results, their averages and ablations; who is ahead, with significance; the paper's numbers beside ours.

    Args:
        rows: Of one study or several.
        tests: Compare every row with the best of its study, question by question.
        against: Compare with this row too; None: with each study's own `reference`, where it has one.
        printed: Set the paper's numbers beside those rows that it printed too.
    """
    found = [results_table(rows), averages_table(rows), latent_ablation_table(rows)]
    if tests:
        found.append(pairs_table(pairs(rows), "Against the best of each benchmark"))
    if against is not None:
        found.append(pairs_table(pairs(rows, against), f"Against {against}"))
    for study, reference in _references(rows).items() if tests and against is None else ():
        of_study = [row for row in rows if row.study == study]
        compared = pairs(of_study, reference)
        if compared != [
            pair for pair in pairs(of_study) if pair.against == reference
        ]:  # it is not the best everywhere
            found.append(pairs_table(compared, f"Against {reference}"))
    if printed:
        found.append(printed_table(rows))
    return [table for table in found if table.lines]


def _references(rows: Sequence[Row]) -> dict[str, str]:
    """Study → the row it names as reference, where that row is there."""
    found: dict[str, str] = {}
    for study, folder in {row.study: row.runs[0].folder for row in rows if row.study and row.runs}.items():
        named = study_of(folder.parent).get("reference")
        if named is not None and any(row.study == study and row.method == named for row in rows):
            found[study] = named
    return found


def results_table(rows: Sequence[Row]) -> Table:
    """One line a row; a study's column only where there are several, latency alone only where it was measured."""
    cells = [_cells(row) for row in rows]
    studies = {row.study for row in rows}
    hidden = set() if len(studies) > 1 else {"study"}
    hidden |= set() if any(c["ms alone"] != NONE for c in cells) else {"ms alone", "GB asking"}
    names = [name for name in (cells[0] if cells else {}) if name not in hidden]
    lines = tuple(tuple(c[name] for name in names) for c in cells)
    note = INTERVALS if any(row.study for row in rows) else ""
    note = " ".join(filter(None, (note, scenarios_counted(rows))))
    return Table(tuple(names), lines, 4 if len(studies) > 1 else 3, note=note)


def averages_table(rows: Sequence[Row]) -> Table:
    """One line for every method that was asked all four of the paper's benchmarks; empty when none was."""
    references = _references(rows)
    lines = tuple(
        (
            one.method,
            one.backbone,
            str(one.seeds),
            f"{one.accuracy:.1f} [{one.low:.1f}, {one.high:.1f}]",
            f"{one.latents:.2f}",
            f"{one.accuracy / one.latents:.1f}" if one.latents else NONE,
            f"{one.forwards:.1f}",
            NONE if one.share is None else f"{one.share:.1f} % of {references[one.study]}",
        )
        for one in averages(rows, references)
    )
    names = ("method", "backbone", "seeds", "accuracy % [95 %]", "#L", "Acc/#L", "forwards", "kept")
    note = f"The mean of {', '.join(list(paper.BENCHMARKS.values())[:-1])}, a quarter each."
    return Table(names, lines, 2, "On average", note if lines else "")


def latent_ablation_table(rows: Sequence[Row]) -> Table:
    """One line for every method whose latents were replaced; empty when none's were."""
    found = replaced(rows)
    modes = list(dict.fromkeys(mode for one in found for mode in one.modes))
    lines = tuple(
        (
            one.method,
            one.on,
            f"{one.n:,}",
            str(one.seeds),
            *("{:.1f} [{:.1f}, {:.1f}]".format(*one.modes[mode]) if mode in one.modes else NONE for mode in modes),
        )
        for one in found
    )
    note = (
        "Accuracy % [95 %] with its own latents (real), without any, with random vectors as long as they, with another "
        "question's (shuffled), with zeros, and with each hardened to its likeliest token (argmax)."
    ) + scenarios_unseen(rows, {one.on for one in found})
    return Table(
        ("method", "benchmark", "n", "seeds", *modes),
        lines,
        2,
        "With other latents in place of its own",
        note if lines else "",
    )


def _cells(row: Row) -> dict[str, str]:
    ratio = row.acc_per_latent
    return {
        "study": row.study or NONE,
        "method": row.method,
        "backbone": row.backbone,
        "benchmark": row.benchmark,
        "n": f"{row.n:,}",
        "seeds": str(len(row.seeds)),
        "accuracy % [95 %]": f"{row.accuracy:.1f} [{row.low:.1f}, {row.high:.1f}]",
        "#L": f"{row.latents:.2f}",
        "Acc/#L": NONE if ratio is None else f"{ratio:.1f}",
        "forwards": f"{row.forwards:.1f}",
        "ms a question": _short(row.ms_per_question),
        "ms alone": _averaged(run.result.ms_alone for run in row.runs),
        "GB asking": _averaged(run.result.peak_gb for run in row.runs),
        "training": NONE if row.train_seconds is None else _time(row.train_seconds),
        "peak GB": NONE if row.peak_gb is None else f"{row.peak_gb:.2f}",
    }


def _short(value: float) -> str:
    """Three digits, or all of a whole number that has more."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _averaged(values: Iterable[float | None]) -> str:
    known = [value for value in values if value is not None]
    return _short(sum(known) / len(known)) if known else NONE


def _time(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{seconds:.0f} s" if seconds < 120 else f"{minutes} min" if minutes < 120 else f"{seconds / 3600:.1f} h"


def pairs_table(found: Sequence[Pair], title: str = "") -> Table:
    """One line a pair: how many points it is behind or ahead, and whether that may be chance."""
    names = ("method", "against", "benchmark", "n", "difference, points [95 %]", "p", "p (Holm)", "test")
    several = len({(pair.study, pair.backbone) for pair in found}) > 1
    lines = tuple(
        (
            *((f"{pair.study}, {pair.backbone}".strip(", "),) if several else ()),
            pair.method,
            pair.against,
            pair.benchmark,
            f"{pair.n:,}",
            f"{_signed(pair.difference)} [{_signed(pair.low)}, {_signed(pair.high)}]",
            _chance(pair.p),
            _chance(pair.holm) + (" *" if pair.holm < 0.05 else ""),
            pair.test,
        )
        for pair in found
    )
    note = PAIRED + scenarios_tested(found)
    return Table(("study", *names) if several else names, lines, 4 if several else 3, title, note if lines else "")


def _signed(value: float) -> str:
    """One digit after the point; what rounds to zero has no sign."""
    text = f"{value:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text.replace("-", MINUS)


def _chance(p: float) -> str:
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def printed_table(rows: Sequence[Row]) -> Table:
    """Our accuracies beside what the paper printed under the same name; empty when it printed none of them."""
    names = printed_names(rows)
    methods = list(dict.fromkeys((row.study, row.method) for row in rows if (row.study, row.method) in names))
    benchmarks = list(dict.fromkeys(row.benchmark for row in rows))
    ours = {(row.study, row.method, row.benchmark): row for row in rows}
    lines, remarks = [], []
    for study, method in methods:
        printed = paper.printed(names[study, method])[0]
        cells = [ours.get((study, method, benchmark)) for benchmark in benchmarks]
        lines.append(
            (
                method,
                *(NONE if row is None else f"{row.accuracy:.1f} / {row.latents:.2f}" for row in cells),
                *(_printed_cell(printed.cells.get(benchmark)) for benchmark in paper.BENCHMARKS),
            )
        )
        remarks += [f"{method}: {printed.remark}."] if printed.remark else []
    for label, name in (pair for names in _said(rows, "not_run").values() for pair in names.items()):
        printed = paper.printed(name)[0]
        cells_of = (_printed_cell(printed.cells.get(benchmark)) for benchmark in paper.BENCHMARKS)
        lines.append((label, *[NONE] * len(benchmarks), *cells_of))
        remarks += [f"{label}: {printed.remark}."] if printed.remark else []
    about = paper.about()
    note = f"Accuracy / #L. Ours: this study's backbone and data. Printed: {about['label']}. {' '.join(remarks)}"
    head = ("method", *(f"ours, {name}" for name in benchmarks))
    return Table(
        (*head, *(f"printed, {name}" for name in paper.BENCHMARKS.values())),
        tuple(lines),
        1,
        "Ours, and what the paper printed",
        note.strip() if lines else "",
    )


def _said(rows: Sequence[Row], key: str) -> dict[str, Mapping[str, str]]:
    """Study → what its study.json says under `printed` or `not_run`: its own label → the paper's name."""
    said: dict[str, Mapping[str, str]] = {}
    for row in rows:
        for run in row.runs[:1] if row.study else ():
            said.setdefault(row.study, study_of(run.folder.parent).get(key, {}))
    return said


def printed_names(rows: Sequence[Row]) -> dict[tuple[str, str], str]:
    """(Study, method) → the paper's name for it: as the study says, else the same name; left out where there is none."""
    known, said = {row.method for row in paper.printed()}, _said(rows, "printed")
    found = {(row.study, row.method): said.get(row.study, {}).get(row.method, row.method) for row in rows}
    return {key: name for key, name in found.items() if key[0] and name in known}


def _printed_cell(cell: Mapping[str, float | None] | None) -> str:
    if cell is None:
        return NONE
    latents = cell.get("latents")
    return f"{cell['accuracy']:g}" + ("" if latents is None else f" / {latents:g}")


def to_json(rows: Sequence[Row]) -> str:
    """Rows as a JSON list, each with exactly `FIELDS`."""
    return json.dumps([row.as_dict() for row in rows], indent=2, ensure_ascii=False) + "\n"


def to_markdown(found: Iterable[Table]) -> str:
    """Tables one below the other."""
    return "\n".join(table.markdown() for table in found)


def to_html(found: Iterable[Table]) -> str:
    """Tables one below the other, as a fragment of a page."""
    return "".join(table.html() for table in found)


def replace_block(text: str, marker: str, table: str) -> str:
    """The page with what stands between `<!-- results:MARKER -->` and `<!-- /results:MARKER -->` made anew.

    Raises:
        UserError: The page does not have each of the two lines once, in this order.
    """
    start, end = f"<!-- results:{marker} -->", f"<!-- /results:{marker} -->"
    if text.count(start) != 1 or text.count(end) != 1 or text.index(start) > text.index(end):
        raise UserError(f"the page must hold {start} and, below it, {end}, once each; the table goes between them.")
    before, rest = text.split(start)
    return f"{before}{start}\n{table.strip()}\n{end}{rest.split(end)[1]}"
