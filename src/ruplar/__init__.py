"""Language models that think in a handful of soft tokens.

    from ruplar import LatentReasoner
    LatentReasoner.from_pretrained("embedded").ask("Tom has 3 bags of 4 apples. How many apples are there?", return_latents=True)

The verbs are functions of their own modules: `ruplar.train.run.train`, `ruplar.evaluate.benchmark.evaluate`,
`ruplar.evaluate.ablate.ablate`. Names are imported when first used, so `import ruplar` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "LatentReasoner": "ruplar.reasoner",
    "Decoding": "ruplar.engine.sampling",
    "UserError": "ruplar.errors",
    "load_recipe": "ruplar.config",
    "load_tokenizer": "ruplar.model.tokenizers",
}

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'ruplar' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
