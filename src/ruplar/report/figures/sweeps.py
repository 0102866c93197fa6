"""Rows whose runs differ in one number alone → accuracy against that number, one panel a setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from textwrap import fill
from typing import Any

from ruplar.report.figures.style import MARKERS, SERIES, Drawing, panels, styled
from ruplar.report.rows import Row, differences

ABOUT = {
    "prior.operand_share": ("λ", "share of a step's target spread over its operands; the rest is on its result"),
    "prior.temperature": ("τ", "temperature of the target: lower is sharper"),
    "prior.result_logit": ("β", "how far a step's result is lifted above its other symbols"),
    "method.prior_weight": ("weight of the prior loss", "how strongly the thought is taught, beside the answer"),
    "prompt.question_repeats": ("question_repeats", "how many times the question is written"),
    "method.halt_threshold": ("halting threshold", "probability of the end at which the thought stops"),
}
"""Setting → its sign and what it does; others go by their own name."""

_NAME, _ALIKE = 26, 0.15
"""Characters of a benchmark's name that a legend has room for; soft tokens that make no difference to a reader."""

_GRID, _TITLE = 2, 40
"""Most settings by which the sweeps of a grid are told apart, beyond which rows go by their name; characters of a line of a title."""


@dataclass(frozen=True)
class Sweep:
    """One setting, everything else equal.

    Attributes:
        setting: Its dotted name.
        told: What tells it from the other sweeps of the setting: in a grid the prior and the other settings' values, else the
            name of its first row.
        lines: Benchmark → value of the setting → its row; ascending.
        scale: Sweeps of one scale are read across their panels.
    """

    setting: str
    told: tuple[str, ...]
    lines: dict[str, dict[float, Row]]
    scale: str


def find(rows: Sequence[Row]) -> list[Sweep]:
    """Every setting in which some rows differ and in nothing else, names and seeds apart."""
    groups: dict[str, list[list[Row]]] = {}
    for a, b in combinations(rows, 2):
        setting = _only_difference(a, b)
        if setting is None:
            continue
        clusters = groups.setdefault(setting, [])
        home = next((c for c in clusters if _same_but(c[0], a, setting)), None)
        if home is None:
            clusters.append(home := [])
        home += [row for row in (a, b) if row not in home]
    return [sweep for setting, clusters in groups.items() for sweep in _sweeps(setting, clusters)]


def _sweeps(setting: str, clusters: Sequence[Sequence[Row]]) -> list[Sweep]:
    """The sweeps of one setting, told apart by their prior and a number or two (a grid), else by the names of their rows."""
    firsts = [min(cluster, key=lambda row: value_of(row, setting) or 0.0) for cluster in clusters]
    priors = [str((_config(row).get("prior") or {}).get("name", "")) for row in firsts]
    apart = sorted({name for row in firsts for name in _differs(firsts[0], row)} - {setting, "prior.name"})
    values = {name: [value_of(row, name) for row in firsts] for name in apart}
    if len(set(priors)) > 1:  # what one prior has and another has not is told by their names
        values = {name: found for name, found in values.items() if not (name.startswith("prior.") and None in found)}
    unlike = any(None in found for found in values.values()) or len({_kind(row) for row in firsts}) > 1
    grid = len(values) <= _GRID and not unlike
    made = []
    for i, (cluster, first, prior) in enumerate(zip(clusters, firsts, priors, strict=True)):
        told = [f"{prior} prior"] if prior else []
        told += [f"{_sign(name)} = {found[i]:g}" for name, found in values.items() if grid]
        made.append(
            Sweep(setting, tuple(told) if grid else (first.method,), _lines(setting, cluster), prior if grid else "")
        )
    return made


def _lines(setting: str, cluster: Sequence[Row]) -> dict[str, dict[float, Row]]:
    lines: dict[str, dict[float, Row]] = {}
    for row in sorted(cluster, key=lambda row: value_of(row, setting) or 0.0):
        lines.setdefault(row.benchmark, {})[value_of(row, setting) or 0.0] = row
    return lines


def _sign(setting: str) -> str:
    return ABOUT.get(setting, (setting, ""))[0]


def _config(row: Row) -> Mapping[str, Any]:
    return row.runs[0].record.config


def _kind(row: Row) -> tuple[Any, ...]:
    """What rows of one sweep share that their configs do not tell; a mean of trainings has the config of each."""
    return row.study, row.backbone, tuple(row.runs[0].record.mean_of or ())


def _differs(a: Row, b: Row) -> list[str]:
    return [name for name in differences(_config(a), _config(b)) if name != "name"]


def _same_but(a: Row, b: Row, setting: str) -> bool:
    """Whether two rows are of one sweep; benchmarks may differ, they become lines of one panel."""
    return _kind(a) == _kind(b) and set(_differs(a, b)) <= {setting}


def _only_difference(a: Row, b: Row) -> str | None:
    """The one numeric setting in which two rows of one benchmark differ, else None."""
    if a.benchmark != b.benchmark or _kind(a) != _kind(b):
        return None
    found = _differs(a, b)
    if len(found) != 1 or None in (value_of(a, found[0]), value_of(b, found[0])):
        return None
    return found[0]


def value_of(row: Row, setting: str) -> float | None:
    """The number a dotted setting has in a row's runs; None when it is no number."""
    found: Any = _config(row)
    for part in setting.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


@styled
def draw(sweeps: Sequence[Sweep]) -> Drawing:
    """At least one sweep → one figure, a panel each."""
    columns = min(3, len(sweeps))
    rows = -(-len(sweeps) // columns)
    figure, axes = panels(rows, columns, 4.8 * columns + 1.5, 4.6 * rows)
    benchmarks = list(dict.fromkeys(name for sweep in sweeps for name in sweep.lines))
    drawn: dict[str, Any] = {}
    for panel, sweep in zip(axes, sweeps, strict=False):
        drawn |= _panel(panel, sweep, benchmarks)
    for panel, sweep in zip(axes, sweeps, strict=False):  # a grid is read across its panels, so they share a scale
        alike = [p for p, s in zip(axes, sweeps, strict=False) if (s.setting, s.scale) == (sweep.setting, sweep.scale)]
        limits = [p.get_ylim() for p in alike]
        panel.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
    for empty in axes[len(sweeps) :]:
        empty.set_visible(False)
    names = [name if len(name) <= _NAME else name[: _NAME - 1] + "…" for name in drawn]
    figure.legend(list(drawn.values()), names, loc="outside lower center", ncols=min(len(names), 5))
    return Drawing("sweeps", "One setting at a time", _caption(sweeps), figure)


def _caption(sweeps: Sequence[Sweep]) -> str:
    told = "; ".join(
        f"{sign}: {about}" for name in dict.fromkeys(s.setting for s in sweeps) if (sign := ABOUT.get(name, ("", ""))[0])
        for about in (ABOUT[name][1],)
    )  # fmt: skip
    seeds = {len(row.seeds) for s in sweeps for line in s.lines.values() for row in line.values()}
    return (
        "Accuracy when one setting is changed and everything else is left as it is, with 95 % intervals over questions"
        + (f" and {min(seeds)} or more seeds" if min(seeds) > 1 else " (one seed: a small difference may be luck)")
        + f". The small numbers count the soft tokens of a thought (#L).{' ' + told + '.' if told else ''}"
    )


def _lengths(latents: Sequence[float]) -> str:
    """#L of all lines at one value: one number where they are about the same."""
    low, high = min(latents), max(latents)
    return f"#L {high:.1f}" if high - low < _ALIKE else f"#L {low:.1f}–{high:.1f}"


def _panel(axes: Any, sweep: Sweep, benchmarks: Sequence[str]) -> dict[str, Any]:
    """Draw one sweep → benchmark and its line, for the legend."""
    drawn = {}
    sign = _sign(sweep.setting)
    for benchmark, line in sweep.lines.items():
        i, rows = benchmarks.index(benchmark), list(line.values())  # one colour a benchmark in all panels
        low, high = ([abs(bound - r.accuracy) for r, bound in pairs] for pairs in (
            [(r, r.low) for r in rows], [(r, r.high) for r in rows],
        ))  # fmt: skip
        drawn[benchmark] = axes.errorbar(
            list(line), [r.accuracy for r in rows], [low, high],
            color=SERIES[i % len(SERIES)], marker=MARKERS[i % len(MARKERS)], capsize=5,
        )  # fmt: skip
    for x in {x for line in sweep.lines.values() for x in line}:
        rows = [line[x] for line in sweep.lines.values() if x in line]
        axes.annotate(
            _lengths([row.latents for row in rows]), (x, min(row.low for row in rows)), (0, -16),
            textcoords="offset points", ha="center", fontsize=11,
        )  # fmt: skip
    axes.set(xlabel=f"{sign}  ({sweep.setting})" if sign != sweep.setting else sign, ylabel="accuracy, %")
    axes.set_xticks(sorted({x for line in sweep.lines.values() for x in line}))
    axes.xaxis.set_major_formatter(lambda value, place=None: f"{value:g}")
    axes.margins(x=0.15, y=0.22)
    axes.set_title(fill(", ".join([sign, *sweep.told]), _TITLE))
    return drawn
