"""Rows, pairs and printed numbers → the tables of a report; `table.py` formats them."""

from collections.abc import Callable, Iterable, Sequence

from ruplar.evaluate.record import TRY, BenchmarkResult
from ruplar.evaluate.stats import Interval
from ruplar.report import paper
from ruplar.report.breakdown import shares_table
from ruplar.report.budgets import curves, curves_table
from ruplar.report.marks import marked
from ruplar.report.paired import Pair, pairs
from ruplar.report.rows import Labels, Row, apart, method_of, place_of, references
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
    """Percent of each row's reference; paired tests against it, else against the best, and against the row `against`."""
    rows = [row for row in rows if TRY not in row.method] or rows  # tries are for choosing settings
    named = references(rows)
    found = [marked(shares_table(rows, named), rows)] if named else []
    free = [row for row in rows if row.study not in named]
    found += [_tested(free)] if free else []
    for study, labels in named.items():
        found.append(_tested([row for row in rows if row.study == study], labels))
    if against is not None and {against} not in [set(labels.values()) for labels in named.values()]:
        found.append(_tested(rows, against))
    return [table for table in found if table.lines]


def _tested(rows: Sequence[Row], against: str | Labels | None = None) -> Table:
    tested = pairs(rows, against)
    named = {pair.against for pair in tested}
    of = named.pop() if len(named) == 1 else "each row's reference"
    title = f"Paired tests against {'the best of each benchmark' if against is None else of}"
    return marked(pairs_table(tested, title), rows)


def summary_table(rows: Sequence[Row]) -> Table:
    """One line per method: its test benchmarks, with the percent of its written chain on the first one; the macro-average last."""
    tested = on_test_sets(rows)
    present = list(dict.fromkeys(row.benchmark for row in tested))
    names = [name for name in paper.FOUR if name in present] + [name for name in present if name not in paper.FOUR]
    means = {(one.study, one.backbone, one.method): one for one in averages(tested)}
    shares = _shares(tested, names[0])
    place = apart(tested)
    lines: dict[tuple[str, str, str], dict[str, Row]] = {}
    for row in tested:
        lines.setdefault((row.study, row.backbone, row.method), {})[row.benchmark] = row
    made = []
    for key, cells in lines.items():
        of, first = list(cells.values()), cells.get(names[0])
        accuracies = [_half(cells.get(name)) for name in names]
        made.append(
            (
                *place_of(of[0], place),
                "/".join(sorted({str(len(row.seeds)) for row in of})),
                accuracies[0],
                *([shares.get(key, NONE)] if shares else []),
                *accuracies[1:],
                *([_half(means.get(key))] if means else []),
                f"{first.latents:.2f}" if first else NONE,
                f"{first.forwards:.1f}" if first else NONE,
            )
        )
    heads = [paper.BENCHMARKS.get(name, name) for name in names]
    costs = f" #L: soft tokens, or reasoning tokens of a written chain{f'; on {heads[0]}, as are the forward passes' if names[1:] else ''}."
    heads[1:1] = ["% of CoT"] if shares else []
    heads += [paper.BENCHMARKS["average"]] if means else []
    sizes = {row.benchmark: row.n for row in reversed(tested)}
    counts = ", ".join(f"{paper.BENCHMARKS.get(name, name)} {sizes[name]:,}" for name in names)
    about = "".join(f" {name}: {ABOUT[name]}." for name in names if name in ABOUT)
    note = f"Accuracy in percent ± half its 95 % confidence interval. Questions: {counts}.{about} {INTERVALS}{costs}"
    heads = [*place, "seeds", *heads, "#L", "forward passes"]
    return marked(Table(tuple(heads), tuple(made), len(place), note=note), tested)


def _half(row: Row | None) -> str:
    return NONE if row is None else f"{row.accuracy:.1f} ±{(row.high - row.low) / 2:.1f}"


def _shares(rows: Sequence[Row], benchmark: str) -> dict[tuple[str, str, str], str]:
    """Percent of the reference's accuracy on a benchmark, by study, backbone and method; {} unless all references write their chain."""
    labels = references(rows)
    found = {(row.study, row.backbone, row.method): row for row in rows if row.benchmark == benchmark}
    compared = [(row, found.get((*key[:2], labels.get(key[0], {}).get(key[2], "")))) for key, row in found.items()]
    if any(of is not None and method_of(of) != "cot" for _, of in compared):
        return {}
    return {
        (row.study, row.backbone, row.method): f"{100 * row.accuracy / of.accuracy:.1f}"
        for row, of in compared
        if of is not None and of is not row and of.accuracy
    }


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
        (*place_of(row, place), set_label(on), f"{n:,}", str(len(row.seeds)), *(_share_cell(of.get(m)) for m in modes))
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
