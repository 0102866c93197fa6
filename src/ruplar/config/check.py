"""Plain data → `RunConfig`, or every problem in it as one `UserError`.

Every problem names its setting as it is written on the command line, and the value found.
"""

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ruplar import plugins
from ruplar.config import training
from ruplar.config.run import DataSettings, PluginConfig, RunConfig, WrongPlugin
from ruplar.config.text import at
from ruplar.data.decontamination import why_not_train
from ruplar.data.locations import KNOWN_SETS, locate, role_of
from ruplar.data.scenarios import JOINED
from ruplar.data.sources import GENERATORS, TEST_SEED, SourceConfig
from ruplar.errors import UserError
from ruplar.model.fetch import KNOWN, fetched
from ruplar.model.settings import BackboneConfig
from ruplar.settings import explain, model_in

PLUGIN_SECTIONS = ("spans", "prior", "method", "data.domain")
"""Sections that name a plug-in."""


def normal(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the recipe in its long form: bare names become sections, a single training source becomes a list."""
    data = dict(data)
    if isinstance(data.get("data"), Mapping):
        section = data["data"] = dict(data["data"])
        if "train" in section:
            train = section["train"] if isinstance(section["train"], list) else [section["train"]]
            section["train"] = [_named("source", item) for item in train]
        if "valid" in section:
            section["valid"] = _named("source", section["valid"])
        if "domain" in section:
            section["domain"] = _named("name", section["domain"])
    return {key: _named("name", value) if key in PLUGIN_SECTIONS else value for key, value in data.items()}


def _named(key: str, value: Any) -> Any:
    return {key: value} if isinstance(value, str) else value


def check(data: Mapping[str, Any], where: str, *, check_files: bool = True, check_init: bool = True) -> RunConfig:
    """Check data in any form a recipe may have, and return the config."""
    data = normal(data)
    problems: list[str] = []
    section = data.get("training", {})
    if isinstance(section, Mapping):
        problems += training.problems(section)
    config = None
    try:
        config = RunConfig.model_validate(data)
    except ValidationError as error:
        single = len(at(data, "data.train") or ()) == 1
        details = error.errors()
        if any(d["loc"][:2] == ("data", "train") and len(d["loc"]) > 2 for d in details):
            details = [d for d in details if d["type"] != "too_short"]  # follows from the problems of its items
        for detail in details:
            cause = detail.get("ctx", {}).get("error")
            if isinstance(cause, WrongPlugin):
                problems += cause.problems(".".join(map(str, detail["loc"])))
            else:
                problems.append(_misplaced(detail, data) or explain(detail, RunConfig, one_train=single))
    problems += list(_across(data, config, check_files, check_init))
    if problems or config is None:
        raise UserError(*dict.fromkeys(problems), where=where)
    return config


def _misplaced(detail: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    """Say where a setting belongs that is written without its section; "" if no section has it."""
    name, *below = detail["loc"]
    if detail["type"] != "extra_forbidden" or below:
        return ""
    places = [f"training.{name}"] if name in training.fields() else []
    for key, field in RunConfig.model_fields.items():
        section = model_in(field.annotation)
        with suppress(UserError):
            if section is not None and issubclass(section, PluginConfig):
                section = plugins.load(section.KIND, str(at(data, f"{key}.name") or section.DEFAULT)).Config
            places += [f"{key}.{name}"] if section is not None and name in section.model_fields else []
    return f"{name}: is not a top-level setting. Write {' or '.join(places)}." if places else ""


def _across(data: Mapping[str, Any], config: RunConfig | None, check_files: bool, check_init: bool) -> Iterable[str]:
    """Yield problems that concern several fields: missing files, data that leak into each other."""
    if check_files:
        yield from _missing(data, check_init)
    if config is None:
        return
    for item in config.data.train:
        yield from (f"data.train: {wrong}" for wrong in _leaks(item, config.data.valid))
    if config.data.valid is not None and role_of(config.data.valid.source) == "test":
        yield f"data.valid: '{config.data.valid.source}' is a test set. Select checkpoints on another, such as gsm8k-aug-valid."
    if config.data.valid is None and config.training.get("eval_strategy", "no") != "no":
        yield "training.eval_strategy: there is nothing to evaluate on. Set data.valid, or eval_strategy: no."


def _missing(data: Mapping[str, Any], check_init: bool) -> Iterable[str]:
    """Yield missing files and folders; read from the plain data, so that they are reported with other problems."""
    train = at(data, "data.train")
    many = isinstance(train, list) and len(train) > 1
    named = [(f"data.train.{i}" if many else "data.train", item) for i, item in enumerate(train or ())]
    for place, item in [*named, ("data.valid", at(data, "data.valid"))]:
        source = item.get("source") if isinstance(item, Mapping) else None
        if isinstance(source, str) and source.partition(":")[0] not in GENERATORS:
            try:
                for name in JOINED.get(source, (source,)):
                    locate(name).check_packages()
            except UserError as error:
                yield f"{place}.source: {error}"
    against = at(data, "data.decontaminate")
    for name in against if isinstance(against, list | tuple) else ():
        try:
            locate(str(name)).check_packages()
        except UserError as error:
            yield f"data.decontaminate: {error}"
    name, init = at(data, "backbone.name"), at(data, "backbone.init")
    continues = at(data, "backbone.lora.continue_adapter")
    if isinstance(name, str) and (wrong := wrong_start(name, None if continues else init)):
        yield wrong
    if isinstance(name, str) and name in KNOWN:
        try:
            fetched(name)
        except UserError as error:
            yield f"backbone.name: {error}"
    if check_init and isinstance(init, str) and not init.startswith("embedded") and not os.path.isdir(init):
        yield f"backbone.init: no folder '{init}'. Train it first, or set it to null to start from the base model."


def wrong_start(name: str, init: Any, setting: str = "backbone.name") -> str:
    """Return what is wrong with a backbone's name: it is a trained model, or has no effect beside `init`; "" if nothing."""
    adapters = (os.path.join(name, place, "adapter_config.json") for place in ("", "model"))
    if (of := _backbone_of(name)) and (name.startswith("embedded:") or any(map(os.path.isfile, adapters))):
        return f"{setting}: '{name}' is a trained model. To start from it, set backbone.init: {name}, {setting}: {of}."
    of = _backbone_of(init) if name != BackboneConfig().name else None
    if of is None or len({KNOWN[one].hub if one in KNOWN else os.path.realpath(one) for one in (name, of)}) == 1:
        return ""
    return f"{setting}: '{name}' has no effect: backbone.init '{init}' is a trained '{of}'. Set {setting}: {of}, or init: null."


def _backbone_of(model: Any) -> str | None:
    """Return the backbone that a model was trained from, by name or folder; None where it is no trained model."""
    if str(model).startswith("embedded:"):
        return "embedded"
    for folder in (Path(str(model)), Path(str(model)) / "model"):
        with suppress(OSError, ValueError, LookupError, TypeError):
            section = json.loads((folder / "ruplar.json").read_text(encoding="utf-8"))["backbone"]
            return _backbone_of(section["init"]) if section["init"] else section["name"]
    return None


def unverified(section: DataSettings) -> list[str]:
    """Return the datasets of which only the Hub can tell whether they exist."""
    sources = [one.source for one in (*section.train, section.valid) if one is not None and not one.is_generated]
    named = dict.fromkeys(name for name in (*sources, *section.decontaminate) if name not in {**KNOWN_SETS, **JOINED})
    return [name for name in named if locate(name).hub]


def _leaks(train: SourceConfig, valid: SourceConfig | None) -> Iterable[str]:
    """Yield why training on this source would contaminate an evaluation."""
    if not train.is_generated:
        why = why_not_train(train.source)
        if why is not None:
            yield f"{why}; it must not be trained on."
        return
    if train.count is None:
        yield f"'{train.source}' needs a count, e.g. {{source: {train.source}, count: 100000, seed: 1}}."
    if train.seed == TEST_SEED:
        yield f"'{train.source}' needs a seed of its own; without one it is the test problems."
    if valid is not None and valid.is_generated:
        if valid.seed == TEST_SEED:
            yield f"data.valid would be the test problems; give '{valid.source}' a seed of its own."
        elif valid.seed == train.seed and valid.source == train.source:
            yield f"seed {train.seed} also generates data.valid; use another."
