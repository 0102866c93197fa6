"""Configs of a study's rows → in what they differ that must be equal: a comparison is fair or it is not made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ruplar.config import RunConfig

STEPS = {"max_steps": -1, "num_train_epochs": 3.0}
"""Transformers' own defaults, for recipes that name only one of the two."""

_OPTIMISER = ("learning_rate", "weight_decay", "warmup_steps", "lr_scheduler_type", "adam_beta2")

ASPECTS: dict[str, Callable[[RunConfig], dict[str, Any]]] = {
    "data": lambda c: {f"data.{key}": value for key, value in c.as_dict()["data"].items()},
    "steps": lambda c: {f"training.{key}": c.training.get(key, default) for key, default in STEPS.items()},
    "batch": lambda c: {"chains a step": _batch(c)},
    "init": lambda c: {f"backbone.{key}": getattr(c.backbone, key) for key in ("name", "weights", "init")},
    "adapter": lambda c: {"backbone.lora": c.as_dict()["backbone"]["lora"]},
    "prompt": lambda c: {f"prompt.{key}": value for key, value in c.as_dict()["prompt"].items()},
    "optimiser": lambda c: {f"training.{key}": c.training.get(key) for key in _OPTIMISER},
}
"""What can be held equal → its settings and their values."""


def _batch(config: RunConfig) -> int:
    each, times = "per_device_train_batch_size", "gradient_accumulation_steps"
    return config.training.get(each, 8) * config.training.get(times, 1)


def problems(configs: Mapping[str, RunConfig], same: Sequence[str]) -> list[str]:
    """Label → config, and what must be equal → a sentence for every difference; the first row is the measure."""
    return list(_problems(configs, same))


def _problems(configs: Mapping[str, RunConfig], same: Sequence[str]) -> Iterator[str]:
    rows = iter(configs.items())
    first, measure = next(rows, ("", None))
    for label, config in rows:
        assert measure is not None
        for aspect in same:
            wanted, found = ASPECTS[aspect](measure), ASPECTS[aspect](config)
            for key in wanted:
                if wanted[key] != found[key]:
                    yield (
                        f"rows.{label}: {key} is {_short(found[key])}, but {_short(wanted[key])} in '{first}'. Make them "
                        f"equal, or take '{aspect}' out of same: when that is what the study is about."
                    )


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 90 else f"{text[:87]}..."
