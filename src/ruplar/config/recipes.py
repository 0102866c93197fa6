"""Name or path of a recipe, and overrides → `RunConfig`.

A recipe with `base: NAME` (a packaged recipe, or a path relative to its own folder) has only the differences to that one.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ruplar.config import check, text
from ruplar.config.run import RunConfig
from ruplar.errors import UserError, unknown
from ruplar.renamed import upgrade

FOLDER = Path(__file__).parents[1] / "recipes"
"""Where the packaged recipes are."""


def recipes() -> dict[str, str]:
    """Packaged recipes: name → the first line of its heading."""
    files = sorted(FOLDER.glob("*.yaml"))
    return {f.stem: f.read_text(encoding="utf-8").split("\n", 1)[0].lstrip("# ") for f in files}


def load_recipe(
    name_or_path: str | Path, overrides: Sequence[str] = (), *, check_files: bool = True, check_init: bool = True
) -> RunConfig:
    """Load a packaged recipe by name or any recipe by path, apply `key=value` overrides, and check it.

    Args:
        name_or_path: `ruplar`, or `experiments/mine.yaml`.
        overrides: Dotted, values in YAML: `prior.operand_share=0.3`, `backbone.lora=null`.
        check_files: Whether data files and folders must exist; off for listing and documentation.
        check_init: Whether the run named by `backbone.init` must exist too; off where no weights are needed.
    """
    file = _find(name_or_path)
    data = text.override(check.normal(_read(file, ())), overrides, list(check.PLUGIN_SECTIONS), check.normal)
    where = str(name_or_path) if file.parent != FOLDER else f"recipe {file.stem}"
    try:
        return check.check(data, where, check_files=check_files, check_init=check_init)
    except UserError as error:
        raise UserError(*(_mark(p, overrides) for p in error.problems), where=error.where) from None


def from_dict(data: Mapping[str, Any], where: str = "the saved config") -> RunConfig:
    """Read what `RunConfig.as_dict` wrote, by this version or an earlier one; data files need not exist any more."""
    return check.check(upgrade(data, where), where, check_files=False)


def _mark(problem: str, overrides: Sequence[str]) -> str:
    place = problem.split(":", 1)[0]
    given = next((o for o in reversed(overrides) if o.split("=")[0].strip() == place), None)
    return f"{problem} (given as {given})" if given else problem


def _find(name_or_path: str | Path, beside: Path | None = None) -> Path:
    name = str(name_or_path)
    if not name.endswith((".yaml", ".yml")):
        if name not in recipes():
            raise UserError(f"{unknown('recipe', name, recipes())} For a recipe of your own give its path, FILE.yaml.")
        return FOLDER / f"{name}.yaml"
    path = beside / name if beside else Path(name)
    if not os.path.isfile(path):
        raise UserError(f"no recipe file '{path}'.")
    return path


def _read(file: Path, below: tuple[Path, ...]) -> dict[str, Any]:
    """Return the file's data merged over its base's."""
    data = text.read_yaml(file)
    if not isinstance(data, Mapping):
        raise UserError("a recipe consists of sections (key: value); this file has none.", where=str(file))
    odd = [key for key in data if not isinstance(key, str)]
    if odd:
        raise UserError(f"section names must be text, got {odd[0]!r}.", where=str(file))
    rest = check.normal({key: value for key, value in data.items() if key != "base"})
    if "base" not in data:
        return rest
    base = _find(data["base"], beside=file.parent).resolve()
    if base in (*below, file.resolve()):
        raise UserError(f"base: '{data['base']}' leads back to this recipe.", where=str(file))
    return text.merge(_read(base, (*below, file.resolve())), rest)
