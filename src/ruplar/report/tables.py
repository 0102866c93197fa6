"""Rows, pairs and printed numbers → the tables of a report; `table.py` formats them."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from ruplar.evaluate.record import TRY, BenchmarkResult, study_of
from ruplar.evaluate.stats import Interval
from ruplar.report import paper
from ruplar.report.breakdown import shares_table
from ruplar.report.budgets import curves, curves_table
from ruplar.report.marks import marked
from ruplar.report.paired import Pair, pairs
from ruplar.report.rows import Row, apart, method_of, place_of
from ruplar.report.sets import ABOUT, is_selection, on_test_sets, set_label
from ruplar.report.summaries import averages, latent_ablations
from ruplar.report.table import NONE, Table, signed_interval

INTERVALS = "Accuracy is the mean over seeds; its 95 % confidence interval covers the questions and, from two seeds on, the seeds."
SELECTED = "(selection): checkpoints and settings were chosen on this set; it is not a test set."
PAIRED = (
    "Paired by question. p (Holm) is corrected for the rows compared on one benchmark; * below 0.05. "
    "'seeds and questions': the test covers the variance of both; otherwise only that of the questions."
)
ABLATED = (
    "Accuracy % [95 % CI] with the model's own latents (real), without latents (none), with random vectors of the same norm, with "
    "another question's latents (shuffled), with zero vectors, and with each latent hardened to its most likely token."
)
MODES = {"zero": "zeroed", "argmax": "hardened"}
"""Mode of an ablation → its heading, where it differs."""


def tables(rows: Sequence[Row], *, tests: bool = True, against: str | None = None) -> list[Table]:
    """Make all tables of a report: results, macro-averages, costs, latent ablation, paired tests, the paper's numbers beside ours.

    With a row `against`, there are `tests_tables` even without `tests`.
    """
    found = [*map(curves_table, curves(rows)), results_table(rows), *([summary_table(rows)] if averages(rows) else [])]
    found += [cost_table(rows), latent_ablation_table(rows)]
    if tests or against is not None:
        found += tests_tables(rows, against)
    found.append(paper.printed_table(rows))
    return [table for table in found if table.lines]


def tests_tables(rows: Sequence[Row], against: str | None = None) -> list[Table]:
    """Percent of each study's reference; paired tests against it, else against the best, and against the row `against`."""
    rows = [row for row in rows if TRY not in row.method] or rows  # tries are for choosing settings
    named = references(rows)
    found = [marked(shares_table(rows, named), rows)] if named else []
    free = [row for row in rows if row.study not in named]
    found += [_tested(free)] if free else []
    for study, reference in named.items():
        found.append(_tested([row for row in rows if row.study == study], reference))
    if against is not None and against not in named.values():
        found.append(_tested(rows, against))
    return [table for table in found if table.lines]


def _tested(rows: Sequence[Row], against: str | None = None) -> Table:
    title = f"Paired tests against {against or 'the best of each benchmark'}"
    return marked(pairs_table(pairs(rows, against), title), rows)


def references(rows: Sequence[Row]) -> dict[str, str]:
    """Find the row that each study names as its reference."""
    found: dict[str, str] = {}
    for study, folder in {row.study: row.runs[0].folder for row in rows if row.study and row.runs}.items():
        named = study_of(folder.parent).get("reference")
        if named is not None and any(row.study == study and row.method == named for row in rows):
            found[study] = named
    return found


def summary_table(rows: Sequence[Row]) -> Table:
    """One line per method with its test benchmarks as columns, the macro-average last; selection sets are left out."""
    tested = on_test_sets(rows)
    present = list(dict.fromkeys(row.benchmark for row in tested))
    names = [name for name in paper.FOUR if name in present] + [name for name in present if name not in paper.FOUR]
    named = references(tested)
    means = {(one.study, one.backbone, one.method): one for one in averages(tested)}
    place = apart(tested)
    lines: dict[tuple[str, str, str], dict[str, Row]] = {}
    for row in tested:
        lines.setdefault((row.study, row.backbone, row.method), {})[row.benchmark] = row
    made = []
    for key, cells in lines.items():
        mean, of = means.get(key), list(cells.values())
        averaged = [cells[name] for name in paper.FOUR] if mean else of
        average = [NONE if mean is None else _half(mean.accuracy, mean.low, mean.high)] if means else []
        average += [_share(mean, means.get((*key[:2], named.get(key[0], ""))))] if means and named else []
        made.append(
            (
                *place_of(of[0], place),
                "/".join(sorted({str(len(row.seeds)) for row in of})),
                *(_half(cells[n].accuracy, cells[n].low, cells[n].high) if n in cells else NONE for n in names),
                *average,
                f"{sum(row.latents for row in averaged) / len(averaged):.2f}",
                f"{sum(row.forwards for row in averaged) / len(averaged):.1f}",
            )
        )
    heads = [paper.BENCHMARKS.get(name, name) for name in names]
    heads += [paper.BENCHMARKS["average"]] if means else []
    heads += [_share_name(rows, named)] if means and named else []
    counts = ", ".join(
        f"{paper.BENCHMARKS.get(n, n)} {next(r.n for r in tested if r.benchmark == n):,}" for n in names
    )
    about = "".join(f" {name}: {ABOUT[name]}." for name in names if name in ABOUT)
    costs = " #L: soft tokens, or reasoning tokens of a written chain"
    if len(names) > 1:
        costs += f"; #L and forward passes are means over {'the sets of the macro-average' if means else 'these sets'}"
    note = f"Accuracy in percent ± half its 95 % confidence interval. Questions: {counts}.{about} {INTERVALS}{costs}."
    first = (*place, "seeds")
    return marked(Table((*first, *heads, "#L", "forward passes"), tuple(made), len(first) - 1, note=note), tested)


def _half(mean: float, low: float, high: float) -> str:
    return f"{mean:.1f} ±{(high - low) / 2:.1f}"


def _share(mean: Row | None, reference: Row | None) -> str:
    """Accuracy in percent of the reference's; for the reference itself and without one, `NONE`."""
    if mean is None or reference is None or reference is mean or not reference.accuracy:
        return NONE
    return f"{100 * mean.accuracy / reference.accuracy:.1f}"


def _share_name(rows: Sequence[Row], named: Mapping[str, str]) -> str:
    """`% of CoT` where every reference is a text chain, else `% of` the reference."""
    of = {row.method: method_of(row) for row in rows if named.get(row.study) == row.method}
    if of and set(of.values()) == {"cot"}:
        return "% of CoT"
    return f"% of {next(iter(of))}" if len(of) == 1 else "% of reference"


def results_table(rows: Sequence[Row]) -> Table:
    """One line per row; study and backbone only where there are several."""
    shared = _shared_scenarios(rows)
    clustered = f"{shared}: the interval is clustered by scenario." if shared else ""
    shown = SELECTED if any(is_selection(row.benchmark) for row in rows) else ""
    note = " ".join(filter(None, (INTERVALS if any(row.study for row in rows) else "", shown, clustered)))
    return _of_rows(rows, _results, note=note)


def cost_table(rows: Sequence[Row]) -> Table:
    """Times and memory of every row, as far as they were measured."""
    return _of_rows(rows, _costs, title="Cost")


def _of_rows(rows: Sequence[Row], cells: Callable[[Row], dict[str, str]], title: str = "", note: str = "") -> Table:
    place, found = apart(rows), []
    for row in rows:
        named = dict(zip(place, place_of(row, place), strict=True))
        found.append(named | {"benchmark": set_label(row.benchmark), **cells(row)})
    measured = [name for name in (found[0] if found else ()) if any(one[name] != NONE for one in found)]
    lines = tuple(tuple(one[name] for name in measured) for one in found)
    return marked(Table(tuple(measured), lines, 1 + len(place), title, note), rows)


def _results(row: Row) -> dict[str, str]:
    return {
        "n": f"{row.n:,}",
        "seeds": str(len(row.seeds)),
        "accuracy % [95 % CI]": f"{row.accuracy:.1f} [{row.low:.1f}, {row.high:.1f}]",
        "#L": f"{row.latents:.2f}",
        "Acc/#L": f"{row.accuracy / row.latents:.1f}" if row.latents else NONE,
        "forward passes": f"{row.forwards:.1f}",
    }


def _costs(row: Row) -> dict[str, str]:
    return {
        "tokens processed": _averaged(_tokens(run.result) for run in row.runs),
        "ms per question": _short(row.ms_per_question),
        "ms at batch size 1": _averaged(run.result.ms_batch1 for run in row.runs),
        "inference memory (GB)": _averaged(run.result.peak_gb for run in row.runs),
        "training time": NONE if row.train_seconds is None else _time(row.train_seconds),
        "training memory (GB)": NONE if row.peak_gb is None else f"{row.peak_gb:.2f}",
    }


def _tokens(result: BenchmarkResult) -> float | None:
    """Tokens of the prompt, `<think>`, and one in each forward pass after the prefill."""
    return None if result.prompt_tokens is None else result.prompt_tokens + result.forwards


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _averaged(values: Iterable[float | None]) -> str:
    known = [value for value in values if value is not None]
    return _short(sum(known) / len(known)) if known else NONE


def _time(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{seconds:.0f} s" if seconds < 120 else f"{minutes} min" if minutes < 120 else f"{seconds / 3600:.1f} h"


def latent_ablation_table(rows: Sequence[Row]) -> Table:
    """One line per method whose latents were replaced; empty when there is none."""
    found = latent_ablations(rows)
    modes = list(dict.fromkeys(mode for *_, pooled in found for mode in pooled))
    place = apart(row for row, *_ in found)
    lines = tuple(
        (*place_of(row, place), set_label(on), f"{n:,}", str(len(row.runs)), *(_share_cell(of.get(m)) for m in modes))
        for row, on, n, of in found
    )
    shared, note = _shared_scenarios(row for row in rows if row.benchmark in {on for _, on, _, _ in found}), ABLATED
    if shared:  # an ablation stores counts only, which cannot be clustered
        note += f" Only counts are on record, so questions are treated as independent here; {shared}."
    heads = [MODES.get(mode, mode) for mode in modes]
    names = (*place, "benchmark", "n", "seeds", *heads)
    return marked(Table(names, lines, 1 + len(place), "Latent ablation", note if lines else ""), rows)


def _share_cell(pooled: tuple[float, Interval] | None) -> str:
    if pooled is None:
        return NONE
    mean, (low, high) = pooled
    return f"{100 * mean:.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def pairs_table(found: Sequence[Pair], title: str = "") -> Table:
    """One line per pair: difference in points, its interval, p-values and the test."""
    place = apart(found)
    names = (*place, "against", "benchmark", "n", "difference, points [95 % CI]", "p", "p (Holm)", "test")
    lines = tuple(
        (
            *place_of(pair, place),
            pair.against,
            set_label(pair.benchmark),
            f"{pair.n:,}",
            signed_interval(pair.difference, pair.low, pair.high),
            _probability(pair.p),
            _probability(pair.holm) + (" *" if pair.holm < 0.05 else ""),
            pair.test,
        )
        for pair in found
    )
    shared, note = _shared_scenarios(found), PAIRED
    if shared:
        note += f" 'scenarios': the variance of the questions is clustered by scenario; {shared}."
    return Table(names, lines, 2 + len(place), title, note if lines else "")


def _probability(p: float) -> str:
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _shared_scenarios(found: Iterable[Row | Pair]) -> str:
    """`a has 90 questions about 10 scenarios, b has 500 questions about 495 scenarios`; "" where none is shared."""
    sets = dict.fromkeys((one.benchmark, one.n, one.groups) for one in found if one.groups is not None)
    return ", ".join(f"{name} has {n:,} questions about {groups:,} scenarios" for name, n, groups in sets)
