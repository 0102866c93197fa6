"""Recipe → its chains opened and encoded, kept where training finds them; training itself does so by the same functions.

Encoding takes the tokenizer and the prompt of the model training starts from, never its weights. So it can be done ahead, on
a machine without a GPU, and before a run that `backbone.init` names has been trained.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruplar.config import RunConfig
from ruplar.data import pretokenize as ahead
from ruplar.data.cache import bytes_of, is_complete
from ruplar.data.encoding import ChainDataset, Encoder
from ruplar.data.pretokenize import PretokenizedDataset, pretokenize
from ruplar.domains.base import Domain
from ruplar.errors import UserError
from ruplar.methods.base import Method
from ruplar.model.backbone import EMBEDDED, Backbone
from ruplar.model.number_tokens import with_number_tokens
from ruplar.model.prompt_format import PromptFormat, plain_tokenizer, prompt_format_of
from ruplar.model.settings import BackboneConfig, PromptConfig
from ruplar.model.store import find_model, read_metadata, relocated
from ruplar.model.tokenizers import load_tokenizer
from ruplar.priors.base import PriorTable
from ruplar.train import dataset_cache as opened
from ruplar.train.dataset import TrainingData
from ruplar.train.dataset_cache import load_cached, load_section
from ruplar.types import Example


@dataclass(frozen=True)
class Kept:
    """A folder that later runs will find.

    Attributes:
        folder: Where it is.
        bytes: How much disk it takes.
        there: Whether an earlier run had left it already.
    """

    folder: Path
    bytes: int
    there: bool


@dataclass(frozen=True)
class Prepared:
    """What was done ahead for a recipe.

    Attributes:
        chains: Training chains; None where they were not looked at.
        seconds: Wall time.
        opened: The chains themselves; None where they open in moments, so that nothing is kept.
        encoded: The chains as sequences; None where training has to make them.
        notes: Why something is not kept, or what was taken for granted; a sentence each.
    """

    chains: int | None
    seconds: float
    opened: Kept | None = None
    encoded: Kept | None = None
    notes: tuple[str, ...] = ()


def prepare(config: RunConfig, folder: Path) -> Prepared:
    """Do ahead what training does before its first step.

    Args:
        config: The recipe, checked; the run that `backbone.init` names need not be there.
        folder: Where what is opened and encoded is kept: `.encoded` beside the runs that are to find it.

    Raises:
        UserError: The data or the tokenizer cannot be read, or the folder cannot be written.
    """
    if not config.speed.pretokenize:
        note = "speed.pretokenize is false, so nothing is kept. Add speed.pretokenize=true here and when training."
        return Prepared(None, 0.0, notes=(note,))
    started = time.monotonic()
    method, domain = config.method.make(), config.data.domain.make()
    place = opened.place_of(config.data, domain, method.needs_steps, folder)
    there = place is not None and is_complete(place)
    data = open_chains(config, domain, method, folder)
    chains = chains_of(config, data.train, method, domain, start_prompt_format(config.backbone, config.prompt))
    found = Kept(place, bytes_of(place), there) if place is not None else None
    why = _why_not(config, chains)
    if why:
        more = (
            () if found else ("Their source opens in moments, or lies on the Hub, so nothing is kept of it either.",)
        )
        return Prepared(len(data.train), time.monotonic() - started, found, notes=(why, *more))
    columns = ahead.place_of(chains, _names(config, data, method), folder)
    there = is_complete(columns)
    # as many processes as training would take, but no more than can run at once
    dataset_of(config, data, chains, folder, min(config.training.get("dataloader_num_workers", 0), _cores()))
    note = _taken_for_granted(config.backbone)
    seconds = time.monotonic() - started
    return Prepared(len(data.train), seconds, found, Kept(columns, bytes_of(columns), there), (note,) if note else ())


def encoding_of(config: RunConfig) -> str:
    """What a recipe says of its encoding: where two recipes say the same, preparing one of them does for both."""
    method, backbone = config.method.make(), config.backbone
    start = (backbone.name, backbone.number_tokens, backbone.init, _goes_on(backbone))
    return json.dumps([_sections(config, method), start, method.needs_steps, method.dynamic, config.speed.pretokenize])


def open_chains(config: RunConfig, domain: Domain, method: Method, folder: Path) -> TrainingData:
    """The recipe's data: from the folder, or left there, where the recipe has `speed.pretokenize`."""
    if config.speed.pretokenize:
        return load_cached(config.data, domain, method.needs_steps, folder)
    return load_section(config.data, domain, method.needs_steps)


def chains_of(
    config: RunConfig,
    examples: Sequence[Example],
    method: Method,
    domain: Domain,
    words: PromptFormat | Backbone,
    keep: bool = False,
) -> ChainDataset:
    """Training chains as the items of a method, encoded when asked for; kept after that when `keep` is set."""
    table = PriorTable(config.prior.make(), words.prompt.plain, config.seed)
    ids = (words.think_id, words.end_think_id, words.eos_id)
    return ChainDataset(examples, method, Encoder(words.prompt, *ids, domain, config.spans.make(), table), keep)


def dataset_of(
    config: RunConfig, data: TrainingData, chains: ChainDataset, folder: Path, workers: int
) -> ChainDataset | PretokenizedDataset:
    """The chains, encoded ahead where the recipe wants it and where no row changes from visit to visit."""
    if not config.speed.pretokenize or chains.dynamic:
        return chains
    return pretokenize(chains, _names(config, data, chains.method), folder, workers)


def start_prompt_format(config: BackboneConfig, prompt: PromptConfig) -> PromptFormat:
    """How the model that `store.open_start` opens writes, found without its weights.

    Where `init` is not there yet it is taken to have the tokenizer of `name`, as a run of the same family has.
    """
    return prompt_format_of(_start_tokenizer(config), prompt)


def _start_tokenizer(config: BackboneConfig) -> Any:
    if config.init is None or _goes_on(config) or not _is_there(config.init):
        return plain_tokenizer(config)
    folder = find_model(config.init)
    card = read_metadata(folder)
    if (folder / "adapter_config.json").is_file():
        tokenizer = _start_tokenizer(relocated(card.backbone, folder))
    else:
        tokenizer = load_tokenizer("embedded" if folder.resolve() == EMBEDDED.resolve() else str(folder))
    tokenizer = prompt_format_of(tokenizer, card.prompt).tokenizer  # its markers come before tokens added now
    return with_number_tokens(tokenizer) if config.number_tokens and not card.backbone.number_tokens else tokenizer


def _goes_on(config: BackboneConfig) -> bool:
    """Whether `init`'s adapter is trained further: its backbone and tokens are then those that the recipe names."""
    return config.lora is not None and config.lora.continue_adapter


def _is_there(init: str) -> bool:
    """Whether a start is a model already."""
    try:
        return find_model(init).is_dir()
    except UserError:
        return False


def _taken_for_granted(config: BackboneConfig) -> str:
    """What had to be guessed of a start that is not there yet; "" where nothing was."""
    if config.init is None or _goes_on(config) or _is_there(config.init):
        return ""
    return (
        f"backbone.init '{config.init}' is not there yet: it is taken to have the tokenizer of '{config.name}'"
        f"{' with number tokens' if config.number_tokens else ''}. If it has another, training encodes anew."
    )


def _why_not(config: RunConfig, chains: ChainDataset) -> str:
    """Why only training can encode these chains; "" where it can be done ahead."""
    method = chains.method
    measured = [name for name in method.calibrated if getattr(method.config, name) is None]
    if chains.dynamic:
        what = f"method '{config.method.name}'" if method.dynamic else f"prior '{config.prior.name}'"
        return f"{what} changes rows from visit to visit, so they are opened only; training encodes them as it goes."
    if measured:
        return (
            f"method '{config.method.name}' measures {', '.join(measured)} on the weights, so its rows are opened only; "
            "training encodes them."
        )
    return ""


def _sections(config: RunConfig, method: Method) -> dict[str, Any]:
    sections = config.model_dump(mode="json", include={"prompt", "data", "spans", "prior"})
    return {**sections, "method": {"name": config.method.name, **method.encodes_by()}}


def _names(config: RunConfig, data: TrainingData, method: Method) -> dict[str, Any]:
    """Everything the encoding depends on but the tokenizer and the code, as plain data."""
    return {**_sections(config, method), "fingerprints": data.fingerprints, "left_out": data.left_out}


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
