"""Name or path of a recipe, and overrides → `RunConfig`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ruplar.config import check, text
from ruplar.config.files import YamlFiles
from ruplar.config.run import RunConfig
from ruplar.errors import UserError
from ruplar.renamed import upgrade

RECIPES = YamlFiles("recipe", Path(__file__).parents[1] / "recipes")
recipes = RECIPES.names


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
    file = RECIPES.find(name_or_path)
    data = text.override(RECIPES.read(file, check.normal), overrides, check.PLUGIN_SECTIONS, check.normal)
    where = str(name_or_path) if file.parent != RECIPES.folder else f"recipe {file.stem}"
    try:
        return check.check(data, where, check_files=check_files, check_init=check_init)
    except UserError as error:
        raise UserError(*(_mark(p, overrides) for p in error.problems), where=error.where) from None


def from_dict(data: Mapping[str, Any], where: str = "the saved config") -> RunConfig:
    """Read what `RunConfig.as_dict` wrote, by this version or an earlier one; data files need not exist any more."""
    return check.check(upgrade(data, where), where, check_files=False)


def _mark(problem: str, overrides: Sequence[str]) -> str:
    place = problem.split(":", 1)[0]
    keys = {o.split("=")[0].strip(): o for o in overrides}  # the last one of a key counts
    inner = (o for key, o in keys.items() if key.startswith(f"{place}.") and f"'{key.rpartition('.')[2]}'" in problem)
    given = next(inner, keys.get(place))
    return f"{problem} (given as {given})" if given else problem
