"""Rows → the top of a page: the finding with its numbers, and what did not work. Every number is computed from the records."""

from collections.abc import Mapping, Sequence
from typing import Any

from ruplar.report.paper import BENCHMARKS
from ruplar.report.rows import Row, by_benchmark, method_of
from ruplar.report.sets import ABOUT, is_selection, on_test_sets

Ablations = Mapping[str, Sequence[Mapping[str, Any]]]
"""`METHOD on BENCHMARK` → one row per mode."""


def headline(rows: Sequence[Row], ablations: Ablations) -> str:
    """Compare the best latent method with the text chain and the direct answer, on the test set that most methods share.

    A selection set is the headline only where no test set was evaluated, and is then called one. Returns Markdown.
    """
    group = max(by_benchmark(on_test_sets(rows)), key=len)
    text, direct = _named(group, "cot"), _named(group, "no_cot")
    soft = _best([row for row in group if method_of(row) not in ("cot", "no_cot") and row.latents > 0])
    first = soft or max(group, key=lambda row: row.accuracy)
    about = " (a selection set)" if is_selection(first.benchmark) else ""
    name = BENCHMARKS.get(first.benchmark, first.benchmark) + about
    sentence = (
        f"{first.method} answers {first.accuracy:.1f} % of the {first.n:,} questions of {name} correctly (95 % CI "
        f"{first.low:.1f} to {first.high:.1f}) with {first.forwards:.1f} forward passes per question"
    )
    if soft and text:
        sentence += f"; a written chain of thought takes {text.forwards:.1f} for {text.accuracy:.1f} %"
    if soft and direct:
        sentence += f", a direct answer takes {direct.forwards:.1f} for {direct.accuracy:.1f} %"
    beside = [row for row in on_test_sets(rows) if (row.study, row.backbone) == (first.study, first.backbone)]
    failed = [*failures(first.method, beside), *idle_latents(ablations)] if soft else []
    listed = "".join(f"- {one}\n" for one in failed)
    return f"{sentence}.\n" + (f"\n**What did not work, and what was not tested**\n\n{listed}" if failed else "")


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
        name = BENCHMARKS.get(benchmark, benchmark)
        about = f"{name} ({ABOUT[benchmark]})" if benchmark in ABOUT else name
        share = f"{len(below)} of {len(trained)}"
        count = f"the intervals of {share} methods overlap that of a direct answer or are below it"
        mine = next((row for row in below if row.method == best), None)
        if mine is None:
            names = ", ".join(f"{row.method} {row.accuracy:.1f}" for row in below)
            found.append(f"On {about} {count} ({direct.accuracy:.1f} %): {names}.")
            continue
        chain = f", a written chain {text.accuracy:.1f} %" if text else ""
        found.insert(
            0,
            f"On {about} {best} answers {mine.accuracy:.1f} % correctly, a direct answer {direct.accuracy:.1f} %{chain}; "
            f"{count}.",
        )
    return found


def idle_latents(ablations: Ablations) -> list[str]:
    """Say whose latents change nothing: another question's latents cost no accuracy, by the interval of the difference."""
    if not ablations:
        return ["Whether the latents matter: no latent ablation of these rows is on record."]
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
