"""A model's metadata (`ruplar.json`) and folders of records → the run that made it, its rows, and the other rows of its study.

A model folder does not name the run that made it: it is the run given, else the run.json beside the model, and must have the
model's settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from ruplar import plugins
from ruplar.errors import UserError
from ruplar.evaluate.record import ABLATION, RunRecord, read_ablation, read_record
from ruplar.model.settings import BackboneConfig
from ruplar.report.rows import Row, find_runs, of_section, pool

if TYPE_CHECKING:
    from ruplar.model.store import ModelMetadata

SHAPE = ("rank", "alpha", "targets", "embedding", "words")
"""Settings of an adapter that determine its weights' shapes and use."""


@dataclass(frozen=True)
class ModelRecords:
    """The run that made a model, its rows pooled over the seeds on record, and other rows of its study on the same benchmarks.

    `ablated`: seed of the ablated run and benchmark → one row per mode; empty where there is none.
    """

    folder: Path
    record: RunRecord
    rows: list[Row]
    beside: list[Row]
    ablated: dict[tuple[int, str], list[dict[str, Any]]]

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of all runs that its rows pool."""
        return tuple(sorted({seed for row in self.rows for seed in row.seeds}))

    @property
    def partial(self) -> list[str]:
        """Reasons why some of these runs may not enter a table."""
        runs = [run.record for row in (*self.rows, *self.beside) for run in row.runs]
        return list(dict.fromkeys(reason for record in runs for reason in record.partial))


def find_model_records(
    card: ModelMetadata, made_by: Path, paths: Sequence[Path] = (), *, drafts: bool = False
) -> ModelRecords:
    """Find the records of the model that a run made; `paths` hold the other seeds and the rest of its study."""
    record = read_record(made_by)
    wrong = differing(card, record)
    if wrong:
        raise UserError(f"{made_by}: not the run that trained this model; it differs in {', '.join(wrong)}.")
    known = {run.folder: run.record for run in find_runs(paths, drafts=True)} if paths else {}
    # a copy of the run among the records is not another seed
    sign = (record.study, record.name, record.seed, record.started)
    same = (f for f, r in known.items() if (r.study, r.name, r.seed, r.started) == sign)
    folder = next(same, made_by if made_by.is_dir() else made_by.parent)
    record = known.get(folder, record)
    if not record.benchmarks:
        raise UserError(f"{made_by}: this run has no results. Run `ruplar evaluate`, then write the card.")
    if record.partial and not drafts:
        raise UserError(
            f"{made_by} cannot be used in a model card: {'; '.join(record.partial)}. Repeat the complete run with "
            "committed code, or use --drafts to mark the card as a draft."
        )
    places = [*paths, *([] if folder in known else [folder])]
    rows = pool(find_runs(places, drafts), drafts)
    own = [row for row in rows if any(run.folder == folder for run in row.runs)]
    benchmarks = {row.benchmark for row in own}
    others = [r for r in rows if r not in own and r.study == record.study and r.benchmark in benchmarks]
    return ModelRecords(folder, record, own, others, _ablated(folder, own))


def differing(card: ModelMetadata, record: RunRecord) -> list[str]:
    """List the settings in which a run differs from a model's metadata, except its initial weights."""
    config = record.config
    found: list[str] = []
    for kind, name, raw in (
        ("methods", "method", config.get("method")),
        ("priors", "prior", config.get("prior")),
        ("spans", "spans", config.get("spans")),
        ("domains", "domain", config.get("domain") or config.get("data", {}).get("domain")),
    ):
        own = getattr(card, name)
        if own is not None and raw:
            found += _differing(kind, name, (own.name, own.settings), of_section(raw))
        elif own is not None:
            found.append(name)
    prompt = config.get("prompt", {})
    found += [f"prompt.{k}" for k, v in card.prompt.model_dump(mode="json").items() if prompt.get(k, v) != v]
    return found + list(_backbone(card.backbone, config.get("backbone", {})))


def _differing(
    kind: str, place: str, own: tuple[str, Mapping[str, Any]], other: tuple[str, Mapping[str, Any]]
) -> Iterator[str]:
    if own[0] != other[0]:
        yield f"{place}.name"
        return
    first, second = (filled(kind, name, settings) for name, settings in (own, other))
    # the model may have measured what the recipe left unset
    yield from (f"{place}.{key}" for key in sorted(first) if second.get(key) not in (first[key], None))


def filled(kind: str, name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in the defaults of this version, as plain data; unchanged where the plug-in is not installed."""
    try:
        return plugins.load(kind, name).Config(**settings).model_dump(mode="json")
    except (UserError, ValidationError):
        return dict(settings)


def _backbone(own: BackboneConfig, raw: Mapping[str, Any]) -> Iterator[str]:
    try:
        other = BackboneConfig.model_validate(raw)
    except ValidationError:
        yield "backbone"
        return
    if Path(own.name).name != Path(other.name).name:
        yield "backbone.name"
    if own.number_tokens != other.number_tokens:
        yield "backbone.number_tokens"
    if own.lora is not None:  # an exported model may have merged it
        lora = other.lora
        yield from (f"backbone.lora.{k}" for k in SHAPE if lora is None or getattr(own.lora, k) != getattr(lora, k))


def _ablated(folder: Path, rows: Sequence[Row]) -> dict[tuple[int, str], list[dict[str, Any]]]:
    """Read the ablations of these weights, else of the first other seed that has one."""
    runs = sorted((run for row in rows for run in row.runs), key=lambda run: run.folder != folder)
    for run in runs:
        if (run.folder / ABLATION).is_file():
            return {(run.record.seed, name): modes for name, modes in read_ablation(run.folder / ABLATION).items()}
    return {}
