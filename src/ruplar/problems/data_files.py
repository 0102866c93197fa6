"""YAML data file → checked values: the templates, word lists and frames of the generators.

The generators are Python code; all their texts are in data files beside them. A mistake in a data file (an unknown field, a
placeholder that nothing fills in) is a `UserError` that names the file and the field.
"""

from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any

import yaml

from ruplar.errors import UserError, unknown

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def load(path: Path) -> dict[str, Any]:
    """A data file → its fields; parsed once per process."""
    try:
        found = yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)  # noqa: S506  (a SafeLoader)
    except (OSError, yaml.YAMLError) as error:
        raise UserError(f"{path}: cannot be read as YAML: {error}") from error
    if not isinstance(found, dict):
        raise UserError(f"{path}: must be a mapping of fields, not a {type(found).__name__}.")
    return found


def check_fields(
    value: object, where: str, known: Collection[str], required: Collection[str] = ()
) -> Mapping[str, Any]:
    """The mapping itself, if all its fields are known and none of the required ones is missing."""
    if not isinstance(value, Mapping):
        raise UserError(f"{where}: must be a mapping of fields, not {value!r}.")
    wrong = [unknown("field", str(name), known) for name in value if name not in known]
    wrong += [f"field '{name}' is missing." for name in required if name not in value]
    if wrong:
        raise UserError(*wrong, where=where)
    return value


def check_placeholders(value: object, where: str, known: Collection[str]) -> None:
    """Check the placeholders of all templates in a string, or in lists and mappings of strings."""
    for text in _strings(value):
        try:
            names = {
                field.split(".")[0].split("[")[0] for _, field, _, _ in Formatter().parse(text) if field is not None
            }
        except ValueError as error:
            raise UserError(f"{where}: {text!r} is not a template: {error}.") from error
        for name in sorted(names - set(known)):
            raise UserError(f"{where}: {unknown('placeholder', name, known)} The text is {text!r}.")


def frozen(value: Any) -> Any:
    """Lists → tuples, at every depth, so that values can be shared and hashed."""
    if isinstance(value, list):
        return tuple(frozen(one) for one in value)
    return {key: frozen(one) for key, one in value.items()} if isinstance(value, dict) else value


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _strings(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _strings(one)
