"""Recipe and overrides → one frozen, checked `RunConfig`; all problems are reported together, without importing torch."""

from ruplar.config.recipes import from_dict, load_recipe, recipes
from ruplar.config.run import DataSettings, RunConfig, to_yaml

__all__ = ["DataSettings", "RunConfig", "from_dict", "load_recipe", "recipes", "to_yaml"]
