"""What `ruplar preview` is given → plug-ins and chains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ruplar import plugins
from ruplar.data.rows import SUFFIXES
from ruplar.errors import UserError


def make(kind: str, name: str, settings: dict[str, Any]) -> Any:
    """A plug-in with its settings checked; what is wrong with them is told by name."""
    from pydantic import ValidationError

    try:
        return plugins.make(kind, name, settings)
    except ValidationError as error:
        raise UserError(*(f"{name}.{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())) from error


def plugin_settings(pairs: list[str], prior: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """`prior.operand_share=0.3` → {"prior": {"operand_share": 0.3}, …}."""
    import yaml

    found: dict[str, dict[str, Any]] = {"prior": dict(prior), "spans": {}, "domain": {}}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        section, _, name = key.partition(".")
        if not equals or section not in found or not name:
            raise UserError(
                f"--set: cannot read '{pair}'. Write prior.NAME=VALUE, spans.NAME=VALUE or domain.NAME=VALUE."
            )
        try:
            found[section][name] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise UserError(f"--set: cannot read the value of '{pair}'; quote it.") from error
    return found


def chains_of(text: str, domain: Any, limit: int) -> list[Any]:
    """The chains of a file, or the literal chain."""
    try:
        is_file = Path(text).is_file()
    except OSError:  # longer than any file's name: a chain
        is_file = False
    if not is_file:
        if "<<" not in text and Path(text).suffix in SUFFIXES and len(text.split()) == 1:
            raise UserError(f"{text}: no such file. Give a file of chains, or a chain such as '<<20*1.20=24>>'.")
        return [text]
    from ruplar.data.read import iterate

    return [example.steps for example in iterate(text, domain, limit=limit, skip_bad=True)]
