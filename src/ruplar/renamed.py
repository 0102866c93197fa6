"""Settings as earlier versions wrote them → today's settings: how old records and model folders stay readable.

`renamed.yaml` lists them. A setting that no longer exists is dropped at the value at which it did nothing; at any other value
the file describes a feature this version does not have.
"""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from ruplar.errors import UserError

_TABLES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
RENAMED: dict[str, str] = _TABLES["renamed"]
VALUES: dict[str, dict[Any, Any]] = _TABLES["values"]
RETIRED: dict[str, Any] = _TABLES["retired"]
_MISSING = object()


def hint(path: str) -> str:
    """Return what became of a setting of an earlier version, as a sentence; "" for any other path."""
    if path in RENAMED:
        values = VALUES.get(RENAMED[path], {})
        said = "".join(f" ({old} is {str(new).lower()})" for old, new in values.items() if new)
        return f"{path}: was renamed to {RENAMED[path]}{said}."
    return f"{path}: was removed. {_instead(path)}" if path in RETIRED else ""


def upgrade(config: Mapping[str, Any], where: str = "", strict: bool = True) -> dict[str, Any]:
    """Return a config in today's terms; the input is not changed.

    `config` is a whole recipe, or the metadata of a model (`method: {name, settings}`). A retired setting that is in use is refused:
    this version cannot run the model as it was trained. Records pass `strict=False`: they keep what the run was made with.
    """
    found = copy.deepcopy(dict(config))
    for old, new in RENAMED.items():
        value = _pop(found, old)
        if value is not _MISSING:
            _put(found, new, VALUES.get(new, {}).get(value, value))
    in_use = []
    method = found.get("method")
    name = method.get("name") if isinstance(method, dict) else method
    for path, neutral in RETIRED.items():
        if path.startswith("method.") and name not in _TABLES["retired_in"]:
            continue
        value = _pop(found, path)
        if value is not _MISSING and value != neutral:
            in_use.append(f"{path}: {value!r} was removed from ruplar. {_instead(path)}")
            _put(found, path, value)
    if in_use and strict:
        raise UserError(*in_use, where=where)
    for path, value in {**_TABLES["added"], **_TABLES["added_to"].get(str(name), {})}.items():
        if path.split(".")[0] in found and _get(found, path) is _MISSING:
            _put(found, path, value)
    return found


def _instead(path: str) -> str:
    return _TABLES["instead"].get(path, "Version 0.1 is the last one that has it.")


def _section(config: dict[str, Any], path: str) -> tuple[dict[str, Any] | None, str]:
    """The mapping that holds a setting, and its key there; plug-in sections of a model's metadata keep theirs in `settings`."""
    *above, key = path.split(".")
    at: Any = config
    for name in above:
        at = at.get(name) if isinstance(at, dict) else None
    if not isinstance(at, dict):
        return None, key
    nested = at.get("settings")
    return (nested if isinstance(nested, dict) else at), key


def _get(config: dict[str, Any], path: str) -> Any:
    at, key = _section(config, path)
    return _MISSING if at is None else at.get(key, _MISSING)


def _pop(config: dict[str, Any], path: str) -> Any:
    at, key = _section(config, path)
    return _MISSING if at is None else at.pop(key, _MISSING)


def _put(config: dict[str, Any], path: str, value: Any) -> None:
    at, key = _section(config, path)
    if at is not None:
        at[key] = value
