"""A model and its records → the sections of its card with data: training, scores, latent ablation, limits."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ruplar.errors import UserError
from ruplar.evaluate.record import BenchmarkResult, RunRecord
from ruplar.model.fetch import KNOWN
from ruplar.report.front_matter import as_yaml, public, trained_on
from ruplar.report.model_records import ModelRecords
from ruplar.report.paired import pairs
from ruplar.report.rows import VALID, Row, Run, pool
from ruplar.report.table import Table
from ruplar.report.tables import MINUS, NONE, pairs_table, results_table

if TYPE_CHECKING:
    from ruplar.model.store import ModelMetadata

log = logging.getLogger(__name__)


def training(subject: ModelRecords) -> str:
    """Describe how the model was trained: seed, commit, versions, machine, data with fingerprints, the whole recipe."""
    record = subject.record
    if "training" not in record.config:
        known = "The records hold its scores, not its training; `ruplar.json` has the settings it was saved with."
        of = ", ".join(map(str, record.mean_of))
        return f"{known} It is a model soup of the trainings with seeds {of}." if of else known
    init = record.config.get("backbone", {}).get("init")
    again = " `backbone.init` must then name the run it starts from." if init else ""
    what = "trains it again"
    if record.mean_of:
        seeds = ", ".join(f"seed={seed}" for seed in record.mean_of)
        what = f"with {seeds} trains the members of the soup that `ruplar average` makes"
    return f"""{_facts(subject)}
**Data**

{_data(record)}
The recipe with every setting written out. Saved as `recipe.yaml`, `ruplar train recipe.yaml` {what}.{again}

<details>
<summary>recipe.yaml</summary>

```yaml
{as_yaml(public(record.config))}```

</details>
"""


def _facts(subject: ModelRecords) -> str:
    record, machine = subject.record, subject.record.machine
    memory = "" if machine.memory_gb is None else f", {machine.memory_gb:.0f} GB"
    init = record.config.get("backbone", {}).get("init")
    seeds = ", ".join(str(seed) for seed in subject.seeds if seed != record.seed)
    facts = (
        ("recipe", str(record.config.get("name", record.name)) + (f", study {record.study}" if record.study else "")),
        (
            "initial weights",
            "the backbone" if init is None else f"the run `{public(init, ['init'])}`, on the backbone",
        ),
        _seed(record, seeds),
        ("commit", (record.commit or "unknown") + (", with uncommitted changes" if record.dirty else "")),
        ("versions", ", ".join(f"{name} {version}" for name, version in record.versions.items()) or "unknown"),
        ("machine", ", ".join(filter(None, [machine.gpu, f"{machine.cpu}, {machine.cores} cores{memory}"]))),
        ("training time", "unknown" if record.train_seconds is None else f"{record.train_seconds:,.0f} seconds"),
        ("peak memory", "unknown" if record.peak_gb is None else f"{record.peak_gb:.2f} GB"),
        ("started", record.started[:10]),
    )
    return Table(("what", "value"), facts, 2).markdown()


def _seed(record: RunRecord, others: str) -> tuple[str, str]:
    if record.mean_of:
        what = f"{', '.join(map(str, record.mean_of))}: a model soup of {len(record.mean_of)} seeds"
        return "seeds", what + (" (the scores pool other such soups too)" if others else "")
    return "seed", str(record.seed) + (f" (the scores pool {others} too)" if others else "")


def _data(record: RunRecord) -> str:
    lines = []
    for source, mark in record.data.items():
        part, _, name = source.partition(": ")
        lines.append((part, public(name) or NONE, mark))
    table = Table(("part", "source", "fingerprint"), tuple(lines), 3).markdown()
    text = table if lines else "No fingerprint is on record.\n"
    left = [f"{count:,} {public(why)}" for why, count in record.left_out.items() if count]
    text += f"\nRows left out: {'; '.join(left)}.\n" if left else "\nNo row was left out.\n"
    clean = record.config.get("data", {}).get("decontaminate")
    if clean:
        sets = ", ".join(public(clean))
        text += f"Training rows that equal a question of {sets}, or share 13 words in a row with one, were dropped.\n"
    return text


def scores(subject: ModelRecords) -> str:
    """Show the model's row beside the others of its study, its own scores where several seeds are pooled, and paired tests."""
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
    note = table.note or "Accuracy has its 95 % confidence interval over questions."
    text += f"#L counts latents, or the tokens of a written chain. {note}"
    return text + "\n\n" + replace(table, lines=lines, note="").markdown() + _tests(rows, label, subject)


def _whose(subject: ModelRecords, label: str) -> str:
    if len(subject.seeds) == 1:
        return f"**{label}** is this model. "
    seeds = ", ".join(map(str, subject.seeds))
    others = ", beside the other rows of its study" if subject.beside else ""
    own = _own_scores(subject).markdown()
    if subject.record.mean_of:
        averaged = ", ".join(map(str, subject.record.mean_of))
        return (
            f"These weights, the soup of seeds {averaged}:\n\n{own}\n"
            f"The row **{label}** pools {len(subject.seeds)} such soups{others}. "
        )
    return (
        f"These weights, seed {subject.record.seed}:\n\n{own}\nThe row **{label}** pools the seeds {seeds} of its "
        f"recipe{others}. "
    )


def _own_scores(subject: ModelRecords) -> Table:
    lines = []
    for r in sorted(subject.results, key=lambda r: r.name == VALID):
        [row] = pool([Run(subject.folder, subject.record, r)], drafts=True)  # clusters questions that share a scenario
        interval = f"[{row.low:.1f}, {row.high:.1f}]"
        lines.append((_named(r), f"{r.n:,}", f"{r.accuracy:.1f} {interval}", f"{r.latents:.2f}", f"{r.unreadable:,}"))
    return Table(("benchmark", "n", "accuracy % [95 % CI]", "#L", "unreadable"), tuple(lines), 1)


def _named(result: BenchmarkResult) -> str:
    how = ([] if result.decoding == "greedy" else [result.decoding]) + (["lenient grading"] if result.lenient else [])
    return result.name + (f" ({', '.join(how)})" if how else "")


def _tests(rows: Sequence[Row], label: str, subject: ModelRecords) -> str:
    """Test the other rows of its study against this model; "" outside a study."""
    if not (subject.record.study and subject.beside):
        return ""
    try:
        found = pairs(rows, label)
    except UserError as error:
        log.warning("no paired tests: %s", error)
        return "\nThe stored answers do not allow paired tests.\n"
    table = pairs_table(found).markdown()
    return f"\n<details>\n<summary>Paired tests of the other rows against {label}</summary>\n\n{table}\n</details>\n"


def ablation(subject: ModelRecords) -> str:
    """Show the latent ablations; "" where there is none."""
    parts = []
    for (seed, name), modes in subject.ablated.items():
        lines = tuple(
            (m["mode"], as_code(m["about"]), f"{m['n']:,}", _interval(m, "accuracy", ""), _gap(m)) for m in modes
        )
        names = ("mode", "in place of the latents", "n", "accuracy % [95 % CI]", "difference, points [95 % CI]")
        other = "another soup, seed" if subject.record.mean_of else "the same recipe, seed"
        title = f"{name}, {'these weights' if seed == subject.record.seed else f'{other} {seed}'}"
        parts.append(Table(names, lines, 2, title).markdown())
    head = "Accuracy with something else in place of the latents; differences are paired by question."
    return "\n\n".join([head, *parts]) if parts else ""


def _gap(mode: dict[str, Any]) -> str:
    return NONE if mode["difference"] is None else _interval(mode, "difference", "difference_", "+")


def _interval(mode: dict[str, Any], key: str, prefix: str, sign: str = "") -> str:
    low, high = mode[f"{prefix}low"], mode[f"{prefix}high"]
    text = f"{mode[key]:{sign}.1f}" + ("" if low is None else f" [{low:{sign}.1f}, {high:{sign}.1f}]")
    return text.replace("-", MINUS)


def as_code(text: str) -> str:
    """Format marker tokens as code, so that Markdown does not take them for HTML tags."""
    return re.sub(r"(?<!`)</?think>(?!`)", r"`\g<0>`", text)


def limits(card: ModelMetadata, subject: ModelRecords, adapter: bool, parameters: int) -> str:
    """List what the records do not support."""
    machine = subject.record.machine
    folded = "" if adapter else ", or with the adapter merged,"
    found = [
        f"It is a small model: {parameters / 1e6:,.0f} million parameters." if parameters < 1e9 else "",
        _backbone(card.backbone.name),
        _domain(card, subject),
        _tested(subject),
        _thoughts(card, subject),
        _decoding(subject),
        _unreadable(subject),
        _one_seed(subject),
        f"The scores were measured with the weights as trained: in another precision{folded} near ties can be decided "
        "differently.",
        f"Milliseconds were measured on {machine.gpu or f'{machine.cpu}, {machine.cores} cores'}.",
    ]
    return "\n".join(f"- {one}" for one in found if one)


def _backbone(name: str) -> str:
    """A fetched backbone differs slightly from the Hub's: it is converted from a GGUF file."""
    if name not in KNOWN:
        return ""
    known = KNOWN[name]
    return (
        f"It was trained on `{name}` as `ruplar fetch` makes it from the GGUF file in {known.package}; it was not tested on the "
        f"weights of {known.hub} at the Hub, from which that file was made."
    )


def _domain(card: ModelMetadata, subject: ModelRecords) -> str:
    sources = ", ".join(f"`{source}`" for source in public(trained_on(subject.record)))
    init = subject.record.config.get("backbone", {}).get("init")
    before = f", starting from `{public(init, ['init'])}`" if init else ""
    trained = f" It was trained on {sources}{before}." if sources else ""
    return (
        f"It is made for one domain, {card.domain.name}.{trained} Whether it retains the other abilities of its backbone was "
        "not tested."
    )


def _tested(subject: ModelRecords) -> str:
    tested = [r for r in subject.results if r.name != VALID] or subject.results
    worst = min(tested, key=lambda r: r.accuracy)
    several = len({r.name for r in tested}) > 1
    lowest = f" The lowest score is {worst.accuracy:.1f} %, on {worst.name}." if several else ""
    names = ", ".join(dict.fromkeys(r.name for r in tested))
    return (
        f"It was tested on {names} only; other kinds of questions, other languages, harmful or leading questions are "
        f"untested.{lowest}"
    )


def _thoughts(card: ModelMetadata, subject: ModelRecords) -> str:
    cap = card.method.settings.get("max_latents")
    shares = [r.halted for r in subject.results if r.halted is not None]
    if cap is None or not shares:
        return ""
    ended = (
        "all questions"
        if min(shares) == 1
        else f"at least {100 * min(shares):.1f} % of the questions of each benchmark"
    )
    return (
        f"It thinks in at most {cap} latents; it stopped by itself on {ended}. The most likely tokens of a latent are an "
        "interpretation, not a proof of how the answer was found."
    )


def _decoding(subject: ModelRecords) -> str:
    ways = list(dict.fromkeys(r.decoding for r in subject.results))
    if ways == ["greedy"]:
        return "All scores use greedy decoding; sampling was not tested."
    return f"The scores use these ways of decoding: {'; '.join(ways)}."


def _unreadable(subject: ModelRecords) -> str:
    found = [f"{r.unreadable:,} of {r.n:,} on {r.name}" for r in subject.results if r.unreadable]
    return f"Some answers could not be parsed and count as wrong: {', '.join(found)}." if found else ""


def _one_seed(subject: ModelRecords) -> str:
    """What the intervals do not cover."""
    if len(subject.seeds) > 1:
        return ""
    one = "soup" if subject.record.mean_of else "seed"
    return f"Only one {one} is on record: the intervals cover the questions, not the variance of training."
