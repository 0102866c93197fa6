"""YAML data file → checked values: the templates, word lists and frames of the generators.

The generators are Python code; all their texts are in data files beside them.
"""

from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from ruplar.errors import UserError, unknown

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def load(path: Path) -> dict[str, Any]:
    """A data file → its fields; parsed once per process."""
    with path.open("rb") as file:
        return yaml.load(file, Loader=_LOADER)  # noqa: S506  (a SafeLoader)


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


def frozen(value: Any) -> Any:
    """Lists → tuples, at every depth, so that values can be shared and hashed."""
    if isinstance(value, list):
        return tuple(frozen(one) for one in value)
    return {key: frozen(one) for key, one in value.items()} if isinstance(value, dict) else value
