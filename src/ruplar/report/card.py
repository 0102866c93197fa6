"""An exported model and its records → README.md, a Hub model card made from records only; `card.md` is its template.

Facts without a record are omitted or called unknown. Local paths are cut to their last part.
"""

from __future__ import annotations

import json
import logging
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import resources
from typing import TYPE_CHECKING, Any

from ruplar import plugins
from ruplar.errors import UserError
from ruplar.evaluate.samples import SAMPLES, read_samples
from ruplar.model.fetch import KNOWN, backbones
from ruplar.report.front_matter import as_yaml, front_matter, hub_model, public, trained_on, without_places
from ruplar.report.model_records import ModelRecords, filled
from ruplar.report.paired import pairs
from ruplar.report.rows import Row, Run, pool, with_how
from ruplar.report.sets import is_selection, set_label
from ruplar.report.table import NONE, Table, as_code, modes_table
from ruplar.report.tables import cost_table, pairs_table, results_table

if TYPE_CHECKING:
    from ruplar.model.store import ModelMetadata

log = logging.getLogger(__name__)

README = "README.md"
LONGEST = 240


@dataclass(frozen=True)
class Written:
    """An exported model: an adapter only, or all weights; parameters of the whole model, and the size of its files."""

    name: str
    card: ModelMetadata
    adapter: bool
    parameters: int
    megabytes: float


def build_card(written: Written, subject: ModelRecords, *, licence: str | None = None) -> str:
    """Make the card's text; `licence` is the Hub's identifier."""
    import jinja2

    source = resources.files("ruplar.report").joinpath("card.md").read_text(encoding="utf-8")
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    quoted = partial(json.dumps, ensure_ascii=False)
    environment.filters |= {"shell": shlex.quote, "python": quoted, "public": public, "last_part": _last_part}
    text = environment.from_string(source).render(**_content(written, subject, licence))
    return re.sub(r"\n{3,}", "\n\n", without_places(text))


def _content(written: Written, subject: ModelRecords, licence: str | None) -> dict[str, Any]:
    card, record, backbone = written.card, subject.record, written.card.backbone.name
    rows = _in_order(subject)
    hub, scores, results = hub_model(backbone), results_table(rows), record.benchmarks
    latents = list(dict.fromkeys(f"{of(r.latents for r in results):.1f}" for of in (min, max)))
    question, answered = _example(subject)
    sources = [(*source.partition(": ")[::2], mark) for source, mark in record.data.items()]
    data = tuple((part, public(name) or NONE, mark) for part, name, mark in sources)
    fields = front_matter(written.name, record, adapter=written.adapter, backbone=backbone, licence=licence)
    return {
        **vars(written),
        "subject": subject,
        "record": record,
        "machine": record.machine,
        "licence": licence,
        "front": as_yaml(fields),
        "linked": f"[{hub}](https://huggingface.co/{hub})" if hub else f"`{_last_part(backbone)}`",
        "known": KNOWN.get(backbone),
        "packaged": backbone in backbones() and backbone not in KNOWN,
        "init": record.config.get("backbone", {}).get("init"),
        "soft": any(r.latents for r in results) and card.method.name != "cot",
        "latents": " to ".join(latents),
        "settings": Table(("setting", "value", "what it means"), tuple(_settings(card)), 3).markdown(),
        "question": question,
        "answered": answered,
        "others": ", ".join(str(seed) for seed in subject.seeds if seed != record.seed),
        "data": Table(("part", "source", "fingerprint"), data, 3).markdown() if data else "",
        "left_out": "; ".join(f"{count:,} {public(why)}" for why, count in record.left_out.items() if count),
        "recipe": as_yaml(public(record.config)),
        "own_scores": _own_scores(subject).markdown(),
        "scores": scores,
        "scores_table": _bold(scores, [row in subject.rows for row in rows]).markdown(),
        "costs": cost_table(rows).markdown(),
        "tests": _tests(rows, subject),
        "ablations": _ablations(subject),
        "sources": ", ".join(f"`{source}`" for source in public(trained_on(record))),
        "tested": [r for r in results if not is_selection(r.name)] or results,
        "unreadable": [f"{r.unreadable:,} of {r.n:,} on {r.name}" for r in results if r.unreadable],
    }


def _last_part(place: str) -> str:
    return public(place, ["init"])


def _settings(card: ModelMetadata) -> list[tuple[str, str, str]]:
    """List the plug-ins, their settings that differ from the defaults, and the adapter."""
    found = []
    for kind, section in (("methods", "method"), ("priors", "prior"), ("spans", "spans"), ("domains", "domain")):
        named = getattr(card, section)
        if named is None or (section in ("prior", "spans") and card.method.name in ("cot", "no_cot", "icot")):
            continue
        packaged = named.name in plugins.names(kind)
        about = plugins.describe(kind, named.name) if packaged else f"`{named.name}`, an external plug-in."
        found.append((section, f"`{named.name}`", about))
        usual, own = filled(kind, named.name, {}), filled(kind, named.name, named.settings)
        always = ("max_latents", "operand_share")
        keep = [key for key, value in own.items() if value != usual.get(key) or key in always]
        found += [(f"{section}.{key}", f"`{own[key]}`", as_code(_help(kind, named.name, key))) for key in keep]
    lora = card.backbone.lora
    if lora is not None:
        found.append(("backbone.lora", f"`rank {lora.rank}, alpha {lora.alpha}`", "Low-rank adapter (PEFT)."))
    if card.backbone.number_tokens:
        found.append(("backbone.number_tokens", "`True`", "One token for every group of two or three digits."))
    return found


def _help(kind: str, name: str, key: str) -> str:
    try:
        field = plugins.load(kind, name).Config.model_fields.get(key)
    except UserError:
        field = None
    return (field.description if field else None) or NONE


def _example(subject: ModelRecords) -> tuple[str, str]:
    """Choose a short question that the model answered correctly, and its answer; "…" where no answers are stored."""
    rows = read_samples(subject.folder) if (subject.folder / SAMPLES).is_file() else []
    rows = [r for r in rows if r["correct"] and len(r["question"]) <= LONGEST and "\n" not in r["question"]]
    # test questions before the selection set, and those with stored latents first
    first = min(rows, key=lambda r: (is_selection(r["benchmark"]), not r.get("latents"), r["index"]), default=None)
    if first is None:
        return "…", ""
    thoughts = ", ".join(f"`{z['tokens'][0]}`" for z in first.get("latents") or () if z.get("tokens"))
    how = f" after latents whose most likely tokens are {thoughts}" if thoughts else ""
    answer, right = first["text"].strip(), first["marked"]
    return first["question"], f"In the evaluation it answered `{answer}`{how}; the correct answer is `{right}`."


def _in_order(subject: ModelRecords) -> list[Row]:
    """The model's rows beside the others of its study, by benchmark, the best first."""
    place = {row.benchmark: (is_selection(row.benchmark), i) for i, row in enumerate(subject.rows)}
    return sorted([*subject.rows, *subject.beside], key=lambda row: (place[row.benchmark], -row.accuracy))


def _bold(table: Table, own: Sequence[bool]) -> Table:
    column = table.names.index("method")
    lines = tuple(
        tuple(f"**{cell}**" if i == column and mine else cell for i, cell in enumerate(line))
        for mine, line in zip(own, table.lines, strict=True)
    )
    return replace(table, lines=lines, note="")


def _own_scores(subject: ModelRecords) -> Table:
    lines = []
    for r in sorted(subject.record.benchmarks, key=lambda r: is_selection(r.name)):
        [row] = pool([Run(subject.folder, subject.record, r)], drafts=True)  # clusters questions that share a scenario
        accuracy = f"{r.accuracy:.1f} [{row.low:.1f}, {row.high:.1f}]"
        lines.append((with_how(set_label(r.name), r), f"{r.n:,}", accuracy, f"{r.latents:.2f}", f"{r.unreadable:,}"))
    return Table(("benchmark", "n", "accuracy % [95 % CI]", "#L", "unreadable"), tuple(lines), 1)


def _tests(rows: Sequence[Row], subject: ModelRecords) -> Table | str:
    """Test the other rows of its study against this model; "" outside a study, or why there are no tests."""
    if not (subject.record.study and subject.beside):
        return ""
    try:
        return pairs_table(pairs(rows, subject.rows[0].method))
    except UserError as error:
        log.warning("no paired tests: %s", error)
        return "The stored answers do not allow paired tests.\n"


def _ablations(subject: ModelRecords) -> list[Table]:
    parts = []
    for (seed, name), modes in subject.ablated.items():
        other = "another soup, seed" if subject.record.mean_of else "the same recipe, seed"
        title = f"{name}, {'these weights' if seed == subject.record.seed else f'{other} {seed}'}"
        parts.append(modes_table(title, modes))
    return parts
