"""The base class of every `Config`: each field defines its default, range and help text in one place.

`explain` turns an error of pydantic into a sentence that names the setting, its value and the fix.
"""

import typing
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from ruplar.errors import unknown
from ruplar.renamed import hint

_BOUNDS = {"greater_than_equal": "at least", "greater_than": "more than", "less_than_equal": "at most"}
_BOUNDS |= {"less_than": "less than"}
_LIMITS = ("ge", "gt", "le", "lt")
_TYPES = {"int": "a whole number", "float": "a number", "bool": "true or false", "string": "text", "tuple": "a list"}
_TYPES |= {"model": "a section (key: value)", "dict": "a section (key: value)"}


class Settings(BaseModel):
    """Frozen settings; an unknown name or a value out of range is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


def explain(
    detail: Mapping[str, Any], model: type[BaseModel], *, prefix: str = "", owner: str = "", one_train=False
) -> str:
    """Return one pydantic error as a sentence with the setting, its value and the fix."""
    loc = [str(part) for part in detail["loc"]]
    if one_train and loc[:3] == ["data", "train", "0"]:
        loc = ["data", "train", *loc[3:]]
    parts = [prefix, *loc] if prefix else loc
    kind, shown, context = detail["type"], _short(detail.get("input")), detail.get("ctx", {})
    if kind == "extra_forbidden":
        if gone := hint(".".join(parts)):
            return gone
        known = _fields_at(model, detail["loc"][:-1])
        noun = "setting" + owner if len(parts) > 1 else "section"
        said = unknown(noun, parts[-1], known)
        return f"{'.'.join(parts[:-1])}: {said}" if len(parts) > 1 else said
    place = ".".join(parts)
    if kind == "missing":
        return f"{place}: is required."
    if kind in _BOUNDS:
        limit = next(context[key] for key in _LIMITS if key in context)
        limit = f"{limit:,}" if isinstance(limit, int) else f"{limit:g}"
        return f"{place}: must be {_BOUNDS[kind]} {limit}, got {shown}."
    if kind == "literal_error":
        return f"{place}: must be {context['expected']}, got {shown}."
    if kind == "string_pattern_mismatch":
        return f"{place}: letters, digits, '.', '_' and '-' only, beginning with a letter or digit; got {shown}."
    if kind == "value_error":
        return f"{place}: {context['error']}."
    noun = _TYPES.get(kind.split("_")[0], "")
    if noun and kind.endswith(("_type", "_parsing", "_from_float")):
        return f"{place}: must be {noun}, got {shown}."
    return f"{place}: {detail['msg'][:1].lower()}{detail['msg'][1:]}, got {shown}."


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _fields_at(model: type[BaseModel], loc: Sequence[Any]) -> list[str]:
    """Return the field names of the settings class at `loc` below `model`."""
    for part in loc:
        if isinstance(part, str) and part in model.model_fields:
            model = model_in(model.model_fields[part].annotation) or model
    return list(model.model_fields)


def model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the settings class in a field's type, e.g. that of `SourceConfig | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for arg in typing.get_args(annotation) if (found := model_in(arg))), None)
