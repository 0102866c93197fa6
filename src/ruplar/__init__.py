"""Language models that reason in a few soft tokens.

    from ruplar import LatentReasoner
    LatentReasoner.from_pretrained("embedded").ask("Tom has 3 bags of 4 apples. How many apples are there?", return_latents=True)

`LatentTrainer` trains a model on a dataset, `train` trains a recipe, `evaluate` runs benchmarks. Names are imported on first
use, so `import ruplar` is fast.
"""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ruplar.config import load_recipe
    from ruplar.engine.sampling import Decoding
    from ruplar.errors import UserError
    from ruplar.evaluate.benchmark import evaluate
    from ruplar.model.tokenizers import load_tokenizer
    from ruplar.reasoner import LatentReasoner
    from ruplar.train.latent_trainer import LatentTrainer, TrainConfig
    from ruplar.train.run import train

__version__ = "0.2.0"

_HOME = {
    "Decoding": "ruplar.engine.sampling",
    "LatentReasoner": "ruplar.reasoner",
    "LatentTrainer": "ruplar.train.latent_trainer",
    "TrainConfig": "ruplar.train.latent_trainer",
    "UserError": "ruplar.errors",
    "load_recipe": "ruplar.config",
    "load_tokenizer": "ruplar.model.tokenizers",
}
_CALLABLE_PACKAGES = ("evaluate", "train")

__all__ = [
    "Decoding",
    "LatentReasoner",
    "LatentTrainer",
    "TrainConfig",
    "UserError",
    "__version__",
    "evaluate",
    "load_recipe",
    "load_tokenizer",
    "train",
]


def make_callable(package: str, module: str, function: str) -> None:
    """Let a package be called like its main function, so that both `ruplar.train(…)` and `ruplar.train.run` work."""

    class CallablePackage(ModuleType):
        """A package that can be called."""

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return getattr(importlib.import_module(module), function)(*args, **kwargs)

    sys.modules[package].__class__ = CallablePackage


def __getattr__(name: str) -> Any:
    if name in _CALLABLE_PACKAGES:
        return importlib.import_module(f"ruplar.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'ruplar' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
