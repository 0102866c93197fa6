"""Rows that differ in a single numeric setting → accuracy against that setting, one panel per sweep."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Any

from ruplar.evaluate.record import EXECUTION
from ruplar.report.figures.style import MARKERS, SERIES, Drawing, panels, styled
from ruplar.report.rows import Row

ABOUT = {
    "prior.operand_share": ("λ", "share of a step's prior on its operands; the rest is on its result"),
    "prior.temperature": ("τ", "temperature of the prior; lower is sharper"),
    "prior.result_logit": ("β", "logit of a step's result above its other symbols"),
    "method.prior_weight": ("weight of the prior loss", "weight of the prior loss relative to the answer loss"),
    "prompt.question_repeats": ("question_repeats", "how often the prompt repeats the question"),
    "method.halt_threshold": ("halting threshold", "probability of `</think>` at which thinking stops"),
}
"""Setting → its symbol and what it is; others are shown under their own name."""

_TITLE = 40
"""Characters per line of a title."""


@dataclass(frozen=True)
class Sweep:
    """A sweep over one setting, everything else equal.

    Attributes:
        setting: Its dotted name.
        label: What distinguishes it from other sweeps of the setting: the prior and other settings' values.
        lines: Benchmark → value of the setting → its row; ascending.
        scale: Sweeps with the same value share their y axis.
    """

    setting: str
    label: tuple[str, ...]
    lines: dict[str, dict[float, Row]]
    scale: str


def find(rows: Sequence[Row]) -> list[Sweep]:
    """Find every setting in which some rows differ and in nothing else, except names and seeds."""
    lines: dict[str, dict[tuple[Any, ...], dict[str, list[Row]]]] = {}
    for row in rows:
        settings = settings_of(row)
        for name in (name for name, value in settings.items() if type(value) in (int, float)):
            rest = (_kind(row), *sorted((key, str(value)) for key, value in settings.items() if key != name))
            lines.setdefault(name, {}).setdefault(rest, {}).setdefault(row.benchmark, []).append(row)
    found: dict[str, list[dict[str, list[Row]]]] = {}
    for name, by_rest in lines.items():
        swept = [{b: line for b, line in one.items() if len(line) > 1} for one in by_rest.values()]
        found[name] = [one for one in swept if one]
    # the setting that varies fastest comes first, as in the table
    seconds = {name: [rows.index(line[1]) for one in some for line in one.values()] for name, some in found.items()}
    names = sorted((name for name in found if seconds[name]), key=lambda name: min(seconds[name]))
    return [sweep for name in names for sweep in _sweeps(name, found[name])]


def _sweeps(setting: str, clusters: Sequence[Mapping[str, Sequence[Row]]]) -> list[Sweep]:
    """Make the sweeps of one setting, labelled by their prior and the other settings in which they differ."""

    def value(row: Row) -> float:
        return float(settings_of(row)[setting])

    firsts = [min((row for line in one.values() for row in line), key=value) for one in clusters]
    configs = [settings_of(row) for row in firsts]
    priors = [str(config.get("prior.name", "")) for config in configs]
    apart = {key for config in configs for key in config | configs[0] if config.get(key) != configs[0].get(key)}
    values = {key: [config.get(key) for config in configs] for key in sorted(apart - {setting, "prior.name"})}
    if len(set(priors)) > 1:  # settings that only one prior has are implied by its name
        values = {key: found for key, found in values.items() if not (key.startswith("prior.") and None in found)}
    made = []
    for i, (cluster, prior) in enumerate(zip(clusters, priors, strict=True)):
        label = [f"{prior} prior"] if prior else []
        label += [f"{_sign(key)} = {found[i]}" for key, found in values.items()]
        lines = {name: {value(row): row for row in sorted(line, key=value)} for name, line in cluster.items()}
        made.append(Sweep(setting, tuple(label), lines, prior))
    return made


def _sign(setting: str) -> str:
    return ABOUT.get(setting, (setting, ""))[0]


def _kind(row: Row) -> tuple[Any, ...]:
    """What rows of one sweep share beyond their configs; a soup has the config of its members."""
    return row.study, row.backbone, tuple(row.runs[0].record.mean_of or ())


def settings_of(row: Row) -> dict[str, Any]:
    """Dotted name → value of every setting that distinguishes rows."""

    def flat(config: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
        for key, value in config.items():
            if isinstance(value, Mapping):
                yield from flat(value, f"{prefix}{key}.")
            elif f"{prefix}{key}" not in EXECUTION and not f"{prefix}{key}".startswith(EXECUTION[2:]):
                yield f"{prefix}{key}", value

    return dict(flat(row.runs[0].record.config, ""))


@styled
def draw(sweeps: Sequence[Sweep]) -> Drawing:
    """Draw at least one sweep, one panel each."""
    columns = min(3, len(sweeps))
    rows = -(-len(sweeps) // columns)
    figure, axes = panels(rows, columns, 4.8 * columns + 1.5, 4.6 * rows)
    benchmarks = list(dict.fromkeys(name for sweep in sweeps for name in sweep.lines))
    drawn: dict[str, Any] = {}
    for panel, sweep in zip(axes, sweeps, strict=False):
        drawn |= _panel(panel, sweep, benchmarks)
    for panel, sweep in zip(axes, sweeps, strict=False):  # panels of a grid share their y axis
        same = [p for p, s in zip(axes, sweeps, strict=False) if (s.setting, s.scale) == (sweep.setting, sweep.scale)]
        limits = [p.get_ylim() for p in same]
        panel.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
    for empty in axes[len(sweeps) :]:
        empty.set_visible(False)
    figure.legend(list(drawn.values()), list(drawn), loc="outside lower center", ncols=min(len(drawn), 5))
    return Drawing("Sweeps over one setting", _caption(sweeps), figure)


def _caption(sweeps: Sequence[Sweep]) -> str:
    settings = dict.fromkeys(s.setting for s in sweeps)
    about = "; ".join("{}: {}".format(*ABOUT[name]) for name in settings if name in ABOUT)
    seeds = {len(row.seeds) for s in sweeps for line in s.lines.values() for row in line.values()}
    return (
        "Accuracy when a single setting changes, with 95 % confidence intervals over questions"
        + (
            f" and {min(seeds)} or more seeds"
            if min(seeds) > 1
            else " (one seed: the variance of training is not covered)"
        )
        + f". The small numbers at the bottom are soft tokens per question (#L).{' ' + about + '.' if about else ''}"
    )


def _panel(axes: Any, sweep: Sweep, benchmarks: Sequence[str]) -> dict[str, Any]:
    drawn = {}
    sign = _sign(sweep.setting)
    for benchmark, line in sweep.lines.items():
        i, rows = benchmarks.index(benchmark), list(line.values())  # one colour per benchmark in all panels
        low, high = ([abs(bound - r.accuracy) for r, bound in pairs] for pairs in (
            [(r, r.low) for r in rows], [(r, r.high) for r in rows],
        ))  # fmt: skip
        drawn[benchmark] = axes.errorbar(
            list(line), [r.accuracy for r in rows], [low, high],
            color=SERIES[i % len(SERIES)], marker=MARKERS[i % len(MARKERS)], capsize=5,
        )  # fmt: skip
    for x in {x for line in sweep.lines.values() for x in line}:  # in one row below all intervals
        latents = [line[x].latents for line in sweep.lines.values() if x in line]
        lengths = dict.fromkeys(f"{of(latents):.1f}" for of in (min, max))
        axes.text(x, 0.03, "–".join(lengths), transform=axes.get_xaxis_transform(), ha="center", fontsize=11)
    axes.text(0.01, 0.03, "#L", transform=axes.transAxes, fontsize=11)
    axes.set(xlabel=f"{sign}  ({sweep.setting})" if sign != sweep.setting else sign, ylabel="accuracy, %")
    axes.set_xticks(sorted({x for line in sweep.lines.values() for x in line}))
    axes.xaxis.set_major_formatter(lambda value, place=None: f"{value:g}")
    axes.margins(x=0.15, y=0.22)
    axes.set_title(fill(", ".join([sign, *sweep.label]), _TITLE))
    return drawn
