"""The recipe's `training:` section → its problems, checked against the fields of transformers' `TrainingArguments`.

Importing `TrainingArguments` imports torch (seconds), so its source is parsed instead: names, simple types and the values of
its enums. Transformers itself checks the rest.
"""

import ast
import importlib.util
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ruplar.errors import UserError, unknown

OURS = {
    "output_dir": "the run's folder is chosen on the command line",
    "seed": "set seed: at the top of the recipe",
    **dict.fromkeys(
        ("disable_tqdm", "label_names", "logging_nan_inf_filter", "remove_unused_columns"),
        "the trainer sets it",
    ),
}
"""Fields a recipe may not set, and what to do instead."""

_CHECKS = {
    "bool": ("true or false", lambda v: isinstance(v, bool)),
    "int": ("a whole number", lambda v: isinstance(v, int) and not isinstance(v, bool)),
    "float": ("a number", lambda v: isinstance(v, int | float) and not isinstance(v, bool)),
    "str": ("text", lambda v: isinstance(v, str)),
    "list": ("a list", lambda v: isinstance(v, list)),
    "dict": ("a section", lambda v: isinstance(v, dict)),
    "None": ("null", lambda v: v is None),
}

_NO_TRAINING: dict[str, Callable[[Any], bool]] = {
    "max_steps": lambda value: value == 0 or value < -1,  # -1 leaves it to the epochs
    "num_train_epochs": lambda value: value <= 0,
}
"""Values that transformers accepts but that train nothing."""


def problems(section: Mapping[str, Any]) -> list[str]:
    """Return a sentence for every unknown field, wrong type and unknown choice."""
    known, choices = _source()
    found = []
    for key, value in section.items():
        if key in OURS:
            found.append(f"training.{key}: cannot be set here; {OURS[key]}.")
        elif key not in known:
            found.append(f"training: {_unknown(key, known)}")
        elif (wrong := _wrong(value, known[key], choices)) is not None:
            found.append(f"training.{key}: {wrong}")
        elif key in _NO_TRAINING and _NO_TRAINING[key](value):
            found.append(f"training.{key}: {value} would train nothing. Use 1 or more.")
    return found


def _unknown(key: str, known: Mapping[str, Any]) -> str:
    # without the list of some hundred fields, which would hide the hint
    return unknown("field of transformers' TrainingArguments", key, known).split(" Known:")[0]


def _wrong(value: Any, types: list[str], choices: Mapping[str, list[str]]) -> str | None:
    allowed = next((choices[t] for t in types if t in choices), None)
    if allowed is not None:
        return None if value in allowed else f"{unknown('value', str(value), allowed)}"
    if any(t not in _CHECKS for t in types) or any(_CHECKS[t][1](value) for t in types):
        return None
    return f"must be {' or '.join(_CHECKS[t][0] for t in types)}, got {value!r}."


@cache
def _source() -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return field → names of its types, and enum → its values."""
    spec = importlib.util.find_spec("transformers")  # finding a top-level name does not import it
    if spec is None or spec.origin is None:
        raise UserError("transformers is not installed. Install ruplar again, with its dependencies.")
    folder = Path(spec.origin).parent
    classes = {
        node.name: node
        for file in ("training_args.py", "trainer_utils.py")
        for node in ast.parse((folder / file).read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    }
    fields = {
        item.target.id: _types(item.annotation)
        for item in classes["TrainingArguments"].body
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    }
    fields["fsdp"] = ["bool", *fields["fsdp"]]  # declared as text for the command line only
    enums = {name: _values(node) for name, node in classes.items() if "ExplicitEnum" in map(ast.unparse, node.bases)}
    return fields, enums


def _types(annotation: ast.expr) -> list[str]:
    if isinstance(annotation, ast.BinOp):
        return _types(annotation.left) + _types(annotation.right)
    if isinstance(annotation, ast.Subscript):
        return [ast.unparse(annotation.value)]
    return [ast.unparse(annotation)]


def _values(node: ast.ClassDef) -> list[str]:
    assigned = (item.value for item in node.body if isinstance(item, ast.Assign))
    return [value.value for value in assigned if isinstance(value, ast.Constant) and isinstance(value.value, str)]
