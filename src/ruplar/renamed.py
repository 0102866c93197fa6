"""Settings as earlier versions wrote them → today's settings: how old records and model folders stay readable.

`RENAMED` maps an old dotted path to the new one. `RETIRED` lists settings that no longer exist, with the value at which they
did nothing: at that value they are dropped, at any other value the file describes a feature this version does not have.
`ADDED` and `ADDED_TO` hold settings that came later, with the value that older files were made under.
"""

import copy
from collections.abc import Mapping
from typing import Any

from ruplar.errors import UserError

RENAMED: dict[str, str] = {
    "backbone.lora.go_on": "backbone.lora.continue_adapter",
    "data.operands": "data.canonical_operands",
    "prompt.readings": "prompt.question_repeats",
    "speed.encode_ahead": "speed.pretokenize",
}
"""Old path → new path."""

VALUES: dict[str, dict[Any, Any]] = {"data.canonical_operands": {"as_written": False, "as_read": True}}
"""New path → old value → new value, where the values changed with the name."""

RETIRED: dict[str, Any] = {
    "method.block": 1,
    "method.own_latents": 0.0,
    "method.own_latents_ramp": 0.0,
    "method.own_passes": 1,
    "method.step_weight": 0.0,
    "method.step_decoder": "small",
    "method.step_layers": 1,
    "method.step_reads": "predicting",
    "method.distill_hidden": 0.0,
    "method.align_layer": -1,
    "method.align_stop_gradient": False,
    "method.feature_file": None,
    "method.feature_width": None,
    "method.head_chunk": 0,
}
"""Path of a removed setting → the value at which it had no effect."""

_RETIRED_IN = ("ruplar", "cot", "no_cot", "icot", "coconut", "codi", "colar", "regular", "pause")
"""The methods of this package, whose settings `RETIRED` lists; other methods may have settings of the same names."""

ADDED: dict[str, Any] = {"data.canonical_operands": False, "prompt.question_repeats": 1}
"""Path of a setting that later versions added → what files without it were made under."""

ADDED_TO: dict[str, dict[str, Any]] = {"cot": {"method.chain": "steps"}}
"""The same for settings of one method: name of the method → path → what files without it were made under."""

_MISSING = object()


def hint(path: str) -> str:
    """Return what became of a setting of an earlier version, as a sentence; "" for any other path."""
    if path in RENAMED:
        values = "".join(
            f" ({old} is {str(new).lower()})" for old, new in VALUES.get(RENAMED[path], {}).items() if new
        )
        return f"{path}: was renamed to {RENAMED[path]}{values}."
    return f"{path}: was removed. Version 0.1 is the last one that has it." if path in RETIRED else ""


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
        if path.startswith("method.") and name not in _RETIRED_IN:
            continue
        value = _pop(found, path)
        if value is not _MISSING and value != neutral:
            in_use.append(f"{path}: {value!r} was removed from ruplar. Version 0.1 is the last one that has it.")
            _put(found, path, value)
    if in_use and strict:
        raise UserError(*in_use, where=where)
    for path, value in {**ADDED, **ADDED_TO.get(str(name), {})}.items():
        if path.split(".")[0] in found and _get(found, path) is _MISSING:
            _put(found, path, value)
    return found


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
