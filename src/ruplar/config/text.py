"""YAML text → plain data, and `key=value` overrides → changes to it.

YAML without its surprises: `3e-4` is a number, only `true` and `false` are booleans (so `eval_strategy: no` stays the
word that transformers expects), dates stay text, and duplicate keys are errors. The number of aliases is limited, so that no text
takes all memory.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from ruplar.errors import UserError

_ALIASES = 20
_LEFT_OUT = {"tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp"}


class _Loader(yaml.SafeLoader):
    """YAML's safe loader without its surprises."""

    aliases = 0

    def compose_node(self, parent, index):
        self.aliases += self.check_event(yaml.AliasEvent)
        if self.aliases > _ALIASES:
            mark = self.peek_event().start_mark
            raise yaml.constructor.ConstructorError(None, None, f"more than {_ALIASES} aliases", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node, deep=False):
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"duplicate key '{key.value}'", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag not in _LEFT_OUT]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), "tTfF")
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+(?:\.[0-9]*)?[eE][-+]?[0-9]+$"), "-+0123456789"
)


def parse(text: str, where: str) -> Any:
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506  (a SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise UserError(f"{place}{error.problem or error.context}.", where=where) from error
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:  # `!!int x`
        raise UserError(f"not readable as YAML: {error}", where=where) from error


def read_yaml(file: Path) -> Any:
    try:
        written = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"is not UTF-8 text ({error.reason} at byte {error.start}).", where=str(file)) from error
    except OSError as error:
        raise UserError(f"cannot be read ({error.strerror}).", where=str(file)) from error
    return parse(written, where=str(file))


def merge(under: Mapping[str, Any], over: Mapping[str, Any], plugin_sections: Sequence[str]) -> dict[str, Any]:
    """Return `over` merged over `under`: sections merge, values and lists replace.

    A plug-in's section whose `name` changes starts empty, also inside a study: its settings belong to the other plug-in.
    """
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            plugin = any(key == section.rpartition(".")[2] for section in plugin_sections)
            other = plugin and "name" in value and "name" in below and value["name"] != below["name"]
            merged[key] = dict(value) if other else merge(below, value, plugin_sections)
        else:
            merged[key] = value
    return merged


def override(
    data: dict[str, Any],
    overrides: Sequence[str],
    plugin_sections: Sequence[str],
    normal: Callable[[Mapping[str, Any]], dict[str, Any]],
) -> dict[str, Any]:
    """Return data with `a.b=value` applied in order; values are YAML, `data.train.1.count=5` counts list items from 0.

    Changing a plug-in's name drops the recipe's settings of the other plug-in, wherever the name is in the order;
    settings given as overrides stay and must be settings of the named plug-in. `normal` brings a recipe to its
    long form, so that `data.train=FILE data.train.count=5` works.
    """
    problems, changes = [], []
    for text in overrides:
        try:
            changes.append(_change(text))
        except UserError as error:
            problems += error.problems
    by_path = dict(changes)
    for section in plugin_sections:
        path = tuple(section.split("."))
        named = by_path.get((*path, "name"))
        if named is not None and named != at(data, f"{section}.name"):
            changes.insert(0, (path, {"name": named}))
    for path, value in changes:
        try:
            data = normal(_put(data, path, value, ".".join(path)))
        except UserError as error:
            problems += error.problems
    if problems:
        raise UserError(*problems, where="the overrides")
    return data


def _change(text: str) -> tuple[tuple[str, ...], Any]:
    key, equals, value = text.partition("=")
    path = tuple(part.strip() for part in key.split("."))
    if not equals or not all(path):
        raise UserError(f"'{text}' is not an override. Write key=value, e.g. training.learning_rate=1e-4.")
    if not value.strip():
        raise UserError(f"'{text}' has no value. Write {key}=null to unset it.")
    try:
        return path, parse(value, text)
    except UserError as error:
        raise UserError(f"'{text[:80]}': the value is not YAML ({error.problems[0]})") from error


def at(data: Any, path: str) -> Any:
    """Return the value at a dotted path; None where there is none."""
    for key in path.split("."):
        data = data.get(key) if isinstance(data, Mapping) else None
    return data


def differing(first: Mapping[str, Any], second: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Compare two configs → dotted names of the settings in which they differ."""
    found = []
    for key in sorted({*first, *second}):
        a, b, name = first.get(key), second.get(key), f"{prefix}{key}"
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            found += differing(a, b, f"{name}.")
        elif a != b:
            found.append(name)
    return found


def _put(data: Any, path: Sequence[str], value: Any, whole: str) -> Any:
    """Return a copy of `data` with the value at `path`; missing sections are created, so that the check can name them."""
    if not path:
        return value
    key, rest = path[0], path[1:]
    if isinstance(data, list):
        number = key.isascii() and key.isdecimal()
        if not number and len(data) == 1:
            return [_put(data[0], path, value, whole)]
        if not number or len(key) > 9 or int(key) >= len(data):
            raise UserError(f"'{whole}': '{key}' is not one of its {len(data)} items; they are counted from 0.")
        return [_put(item, rest, value, whole) if i == int(key) else item for i, item in enumerate(data)]
    if data is not None and not isinstance(data, Mapping):
        raise UserError(f"'{whole}': there is no '{key}' inside {data!r}.")
    return {**(data or {}), key: _put((data or {}).get(key), rest, value, whole)}
