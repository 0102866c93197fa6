"""The recipe's `training:` section → its problems, checked against the fields of transformers' `TrainingArguments`.

Importing `TrainingArguments` imports torch (seconds), so names and types are read from its source. Transformers itself checks the
rest, such as the names of schedulers.
"""

import ast
import builtins
import importlib.util
import typing
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from ruplar.errors import UserError
from ruplar.settings import explain

OURS = {
    "output_dir": "the run's folder is chosen on the command line",
    "seed": "set seed: at the top of the recipe",
    "label_smoothing_factor": "a method computes its own loss",
    "neftune_noise_alpha": "method.input_noise adds noise to the soft tokens of the method ruplar",
    **dict.fromkeys(
        ("disable_tqdm", "label_names", "logging_nan_inf_filter", "remove_unused_columns"), "the trainer sets it"
    ),
}
"""Fields a recipe may not set, and what to do instead."""

METRICS = ("accuracy", "latents", "forwards", "halting", "unreadable")  # what validation measures
_UNUSABLE: dict[str, tuple[Callable[[Any], bool], str]] = {
    # -1 leaves it to the epochs
    "max_steps": (lambda value: value == 0 or value < -1, "would train nothing. Use 1 or more"),
    "num_train_epochs": (lambda value: value <= 0, "would train nothing. Use 1 or more"),
    "metric_for_best_model": (
        lambda value: value is not None and value.removeprefix("eval_") not in METRICS,
        f"is not measured on the validation questions. Use {', '.join(METRICS[:-1])} or {METRICS[-1]}",
    ),
}
"""Values that transformers accepts but that cannot work here."""


def problems(section: Mapping[str, Any]) -> list[str]:
    """Return a sentence for every unknown field and wrong type."""
    found = {key: f"training.{key}: cannot be set here; {OURS[key]}." for key in section if key in OURS}
    try:
        _fields().model_validate({key: value for key, value in section.items() if key not in OURS})
    except ValidationError as error:
        for detail in error.errors():
            key = detail["loc"][0]
            said = explain({**detail, "loc": (key,)}, _fields(), prefix="training", owner=" of TrainingArguments")
            found.setdefault(str(key), said.split(" Known:")[0])  # some hundred names would hide the hint
    for key, (unusable, why) in _UNUSABLE.items():
        if key in section and key not in found and unusable(section[key]):
            found[key] = f"training.{key}: {section[key]} {why}."
    return list(found.values())


def fields() -> set[str]:
    """Return the names that a recipe may set."""
    return _fields().model_fields.keys() - OURS.keys()


@cache
def _fields() -> type[BaseModel]:
    spec = importlib.util.find_spec("transformers")  # finding a top-level name does not import it
    if spec is None or spec.origin is None:
        raise UserError("transformers is not installed. Install ruplar again, with its dependencies.")
    source = Path(spec.origin).with_name("training_args.py").read_text(encoding="utf-8")
    [node] = [n for n in ast.parse(source).body if isinstance(n, ast.ClassDef) and n.name == "TrainingArguments"]
    declared = {
        item.target.id: item.annotation
        for item in node.body
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    }
    used = {name.id for kind in declared.values() for name in ast.walk(kind) if isinstance(name, ast.Name)}
    fields: dict[str, Any] = {key: (ast.unparse(kind), None) for key, kind in declared.items()}
    fields["fsdp"] = (Any, None)  # declared as text for the command line only
    model = create_model("TrainingArguments", __config__=ConfigDict(extra="forbid", strict=True), **fields)
    model.model_rebuild(_types_namespace={**dict.fromkeys(used, Any), **vars(typing), **vars(builtins)})
    return model
