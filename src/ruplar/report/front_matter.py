"""A run → the YAML front matter of a Hub model card: library, base model, data, scores.

The fields are those of huggingface_hub (huggingface.co/docs/hub/model-cards).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from ruplar.data.locations import KNOWN_SETS
from ruplar.evaluate.record import BenchmarkResult, RunRecord
from ruplar.model.fetch import KNOWN
from ruplar.report.sets import is_selection

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

TASK = "text-generation"
_PLACE = re.compile(r"(?<![\w./:~-])~?/(?:[\w.@+-]+/)+[\w.@+-]+")


def hub_model(name: str) -> str | None:
    """Convert a backbone's name to the Hub's; None for folders and models that are not on the Hub."""
    if name in KNOWN:
        return KNOWN[name].hub
    owner, _, rest = name.partition("/")
    plain = bool(owner and rest) and "/" not in rest and not name.startswith((".", "~"))
    return name if plain and not Path(name).exists() else None


def hub_set(source: str) -> tuple[str, str | None, str | None] | None:
    """Convert a data set's name to owner/name, config and split on the Hub; None where it is not there."""
    address = source.removeprefix("hub:") if source.startswith("hub:") else ""
    if source in KNOWN_SETS:
        address = KNOWN_SETS[source].hub
    if not address:
        return None
    path, _, split = address.partition(":")
    owner, name, *config = path.split("/")
    return f"{owner}/{name}", (config[0] if config else None), split or None


def trained_on(record: RunRecord) -> list[str]:
    """List the sources of a run's training data, as its recipe names them; [] for an evaluation."""
    return list(dict.fromkeys(str(s["source"]) for s in record.config.get("data", {}).get("train", ())))


def front_matter(
    name: str, record: RunRecord, *, adapter: bool, backbone: str, licence: str | None = None
) -> dict[str, Any]:
    """Make the fields; unknown ones are left out."""
    from huggingface_hub import ModelCardData

    sets = [found[0] for found in map(hub_set, trained_on(record)) if found]
    # published are strictly graded results of whole runs, without selection sets
    shown = [] if record.partial else [r for r in record.benchmarks if not is_selection(r.name) and not r.lenient]
    results = [_score(result) for result in shown]
    return ModelCardData(
        license=licence,
        library_name="peft" if adapter else "transformers",
        base_model=hub_model(backbone),
        pipeline_tag=TASK,
        tags=["ruplar", "latent-reasoning"],
        datasets=list(dict.fromkeys(sets)) or None,
        model_name=name if results else None,
        eval_results=results or None,
    ).to_dict()


def _score(result: BenchmarkResult) -> EvalResult:
    from huggingface_hub import EvalResult

    known = KNOWN_SETS.get(result.name)
    whole = known is None or result.n == known.rows  # older records name a benchmark after its file, whatever it held
    place, config, split = (hub_set(result.name) if whole else None) or (result.name, None, None)
    bounds = {"low": round(result.low, 2), "high": round(result.high, 2)}
    return EvalResult(
        task_type=TASK,
        dataset_type=place,
        dataset_name=result.name,
        dataset_config=config,
        dataset_split=split,
        metric_type="accuracy",
        metric_name="accuracy, %",
        metric_value=round(result.accuracy, 2),
        metric_args={"questions": result.n, **bounds, "decoding": result.decoding},
    )


def as_yaml(fields: Any) -> str:
    """Format plain data as YAML, keeping its order."""
    return yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=100)


def without_places(text: str) -> str:
    """Shorten every absolute path in a text to its last part; URLs are unchanged."""
    return _PLACE.sub(lambda found: found[0].rpartition("/")[2], text)


def public(value: Any, keys: Iterable[str] = ()) -> Any:
    """Shorten local paths in plain data to their last part; Hub names are unchanged."""
    keys = tuple(keys)
    if isinstance(value, dict):
        return {key: public(one, (*keys, key)) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [public(one, keys) for one in value]
    if not isinstance(value, str):
        return value
    placed = value.startswith(("/", "~", "./", "../", "file:")) or value[1:3] in (":\\", ":/")
    # prompt settings are text, never paths
    if keys[:1] != ("prompt",) and (placed or keys[-1:] == ("init",)):
        return value.replace("\\", "/").rstrip("/").rpartition("/")[2]
    return value
