"""What is known of a model → the YAML that opens a Hub model card: library, base model, data, and its scores.

The fields and their shape are the Hub's own library's (huggingface.co/docs/hub/model-cards).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from ruplar.data.locations import KNOWN_SETS
from ruplar.evaluate.record import BenchmarkResult, RunRecord
from ruplar.model.fetch import KNOWN
from ruplar.report.model_records import VALID

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

TASK = "text-generation"
TAGS = ("ruplar", "latent-reasoning")
_PLACE = re.compile(r"(?<![\w./:~-])~?/(?:[\w.@+-]+/)+[\w.@+-]+")


def hub_model(name: str) -> str | None:
    """A backbone's name → the Hub's name of it; None for folders and models that the Hub does not have."""
    if name in KNOWN:
        return KNOWN[name].hub
    owner, _, rest = name.partition("/")
    plain = bool(owner and rest) and "/" not in rest and not name.startswith((".", "~"))
    return name if plain and not Path(name).exists() else None


def hub_set(source: str) -> tuple[str, str | None, str | None] | None:
    """A data set's name → owner/name, config and split at the Hub; None where it is not there."""
    address = source.removeprefix("hub:") if source.startswith("hub:") else ""
    if source in KNOWN_SETS:
        address = KNOWN_SETS[source].hub
    if not address:
        return None
    path, _, split = address.partition(":")
    owner, name, *config = path.split("/")
    return f"{owner}/{name}", (config[0] if config else None), split or None


def trained_on(record: RunRecord) -> list[str]:
    """The sources of a run's training data, as its recipe names them; [] for a record of an evaluation alone."""
    return list(dict.fromkeys(str(s["source"]) for s in record.config.get("data", {}).get("train", ())))


def front_matter(
    name: str, record: RunRecord, *, adapter: bool, backbone: str, licence: str | None = None
) -> dict[str, Any]:
    """The fields; those that nothing is known of are left out.

    Args:
        name: Of the model.
        record: The run that made it.
        adapter: Whether the weights are an adapter alone.
        backbone: As the model's own card names it.
        licence: The Hub's identifier of it, e.g. apache-2.0.
    """
    from huggingface_hub import ModelCardData

    sets = [found[0] for found in map(hub_set, trained_on(record)) if found]
    results = [] if record.partial else scores(record.benchmarks)  # a draft's figures are not for the Hub's index
    return ModelCardData(
        license=licence,
        library_name="peft" if adapter else "transformers",
        base_model=hub_model(backbone),
        pipeline_tag=TASK,
        tags=list(TAGS),
        datasets=list(dict.fromkeys(sets)) or None,
        model_name=name if results else None,
        eval_results=results or None,
    ).to_dict()


def scores(results: Sequence[BenchmarkResult]) -> list[EvalResult]:
    """Results of one model → the Hub's: graded strictly, and not those on what the model was chosen by."""
    return [_score(result) for result in results if result.name != VALID and not result.lenient]


def _score(result: BenchmarkResult) -> EvalResult:
    from huggingface_hub import EvalResult

    place, config, split = hub_set(result.name) or (result.name, None, None)
    return EvalResult(
        task_type=TASK,
        dataset_type=place,
        dataset_name=result.name,
        dataset_config=config,
        dataset_split=split,
        metric_type="accuracy",
        metric_name="accuracy, %",
        metric_value=round(result.accuracy, 2),
        metric_args={
            "questions": result.n,
            "low": round(result.low, 2),
            "high": round(result.high, 2),
            "decoding": result.decoding,
        },
    )


def as_yaml(fields: Any) -> str:
    """Plain data → YAML in the order given."""
    return yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=100)


def without_places(text: str) -> str:
    """Text in which of every absolute path only the last part is left; addresses of the web stay."""
    return _PLACE.sub(lambda found: found[0].rpartition("/")[2], text)


def public(value: Any, keys: Iterable[str] = ()) -> Any:
    """Plain data without places of this machine: of a path only its last part is kept, Hub names stay whole.

    Args:
        value: A config, or a part of it.
        keys: The keys that lead to it; what `init` names is always a folder.
    """
    keys = tuple(keys)
    if isinstance(value, dict):
        return {key: public(one, (*keys, key)) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [public(one, keys) for one in value]
    if not isinstance(value, str):
        return value
    placed = value.startswith(("/", "~", "./", "../", "file:")) or value[1:3] in (":\\", ":/")
    # what the prompt says is text, whatever it begins with
    if keys[:1] != ("prompt",) and (placed or keys[-1:] == ("init",)):
        return value.replace("\\", "/").rstrip("/").rpartition("/")[2]
    return value
