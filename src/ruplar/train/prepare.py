"""Recipe → its chains, loaded and pre-tokenized in the cache that training reads; training uses the same functions.

    recipe –`load_chains`→ TrainingData –`chains_of`→ items on demand –`dataset_of`→ pre-tokenized

Pre-tokenizing needs the tokenizer and prompt of the start model, never its weights. So it works on a machine without a GPU,
and before the run that `backbone.init` names has been trained.
"""

import json
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ruplar.config import RunConfig
from ruplar.data.cache import is_complete
from ruplar.data.encoding import ChainDataset, Encoder, EncodingMethod
from ruplar.data.pretokenize import PretokenizedDataset, place_of, pretokenize
from ruplar.data.read import SKIP_WITH
from ruplar.domains.base import Domain
from ruplar.errors import UserError
from ruplar.methods.base import Method
from ruplar.model.backbone import Backbone
from ruplar.model.load import EMBEDDED
from ruplar.model.number_tokens import with_number_tokens
from ruplar.model.prompt import PromptFormat, named_tokenizer, prompt_format_of
from ruplar.model.settings import BackboneConfig, PromptConfig
from ruplar.model.store import Model, find_model, read_metadata, relocated
from ruplar.model.tokenizers import load_tokenizer
from ruplar.model.weights import ADAPTER_CONFIG
from ruplar.priors.base import PriorTable
from ruplar.train.dataset import TrainingData, Without, from_files, load_data
from ruplar.train.dataset_cache import load_cached
from ruplar.types import Example, Item, SampleContext

log = logging.getLogger(__name__)

_FRAME = 512
"""More tokens than a method adds to the prompt, the chain and the answer."""


@dataclass(frozen=True)
class Prepared:
    """Result of preparing a recipe."""

    chains: int = 0  # number of training chains; 0 if they were not loaded
    folder: Path | None = None  # cache of the pre-tokenized chains; None if only training can tokenize them
    there: bool = False  # whether it existed already
    note: str = ""  # why nothing is pre-tokenized, or what was assumed


def prepare(config: RunConfig, folder: Path) -> Prepared:
    """Load and pre-tokenize the data of a recipe, as training would before its first step.

    Args:
        config: The recipe, checked; the run that `backbone.init` names need not exist.
        folder: The cache: `.encoded` beside the run folders.
    """
    if not config.speed.pretokenize:
        note = "speed.pretokenize is false, so nothing is cached. Add speed.pretokenize=true here and when training."
        return Prepared(note=note)
    method, domain = config.method.make(), config.data.domain.make()
    data = load_chains(config, domain, method, folder)
    chains = chains_of(config, data.train, method, domain, start_prompt_format(config.backbone, config.prompt))
    if why := _why_not(config, chains):
        return Prepared(len(data.train), note=why)
    place = place_of(chains, _names(config, data, method), folder)
    there = is_complete(place)
    # as many processes as training would use, but no more than cores
    dataset_of(config, data, chains, folder, min(config.training.get("dataloader_num_workers", 0), _cores()))
    return Prepared(len(data.train), place, there, _assumption(config.backbone))


def encoding_of(config: RunConfig) -> str:
    """Return a key of a recipe's encoding: two recipes with the same key share their pre-tokenized data."""
    method, backbone = config.method.make(), config.backbone
    start = (backbone.name, backbone.number_tokens, backbone.init, _continues(backbone))
    return json.dumps([_sections(config, method), start, method.needs_steps, method.dynamic, config.speed.pretokenize])


def load_chains(config: RunConfig, domain: Domain, method: Method, folder: Path) -> TrainingData:
    """Load the recipe's data, through the cache if the recipe has `speed.pretokenize`."""
    if config.speed.pretokenize:
        return load_cached(config.data, domain, method.needs_steps, folder, method.dynamic)
    return load_data(config.data, domain, method.needs_steps)


def chains_of(
    config: RunConfig,
    examples: Sequence[Example],
    method: Method,
    domain: Domain,
    form: PromptFormat | Backbone,
    keep: bool = False,
) -> ChainDataset:
    """Return the chains as training items of a method, encoded on access and cached in memory if `keep` is set."""
    table = PriorTable(config.prior.make(), form.prompt.plain, config.seed)
    return ChainDataset(examples, method, Encoder(form.prompt, form.markers, domain, config.spans.make(), table), keep)


def within_window(data: TrainingData, chains: ChainDataset, model: Model, skip_bad: bool) -> TrainingData:
    """Return the data without rows that are longer than the model's window; without `skip_bad` they are an error."""
    window = model.max_positions
    if window is None:
        return data
    form = chains.encoder.prompt
    frame = len("".join((*form.frame, form.config.answer)).encode()) + _FRAME

    def may_be_long(example: Example) -> bool:
        """Bound a row's tokens without tokenizing it: a token has at least a byte, a step at most a latent for each byte."""
        text = "".join((form.user_text(example.question), *example.steps, *example.steps, example.answer))
        return frame + len(text.encode()) + 8 * len(example.steps) > window

    unsure = ((row, e) for row, e in from_files(data.train) if may_be_long(e))
    long = [(row, e.source) for row, e in unsure if _tokens(chains[SampleContext(0, row)]) > window]
    unsure = ((row, e) for row, e in enumerate(data.valid) if may_be_long(e))
    asked = [(row, e.source) for row, e in unsure if len(model.prompt(e.question).ids) >= window]
    if not long and not asked:
        return data
    places = [source for _, source in (*long, *asked)]
    said = f"{len(places):,} rows are longer than the model's window of {window:,} tokens (first: {', '.join(places[:3])})."
    if not skip_bad:
        raise UserError(f"{said} Shorten them, or {SKIP_WITH} to leave them out.")
    if len(long) == len(data.train):
        raise UserError(f"{said} No row is left to train on.")
    log.warning("%s They are left out.", said)
    return replace(
        data,
        train=_without(data.train, long),
        valid=_without(data.valid, asked),
        left_out={**data.left_out, "longer than the model's window": len(places)},
    )


def _tokens(item: Item) -> int:
    return max(len(item.ids), *(_tokens(one) for companions in item.also.values() for one in companions), 0)


def _without(examples: Sequence[Example], rows: Sequence[tuple[int, str]]) -> Sequence[Example]:
    return Without(examples, [row for row, _ in rows]) if rows else examples


def dataset_of(
    config: RunConfig, data: TrainingData, chains: ChainDataset, folder: Path, workers: int
) -> ChainDataset | PretokenizedDataset:
    """Return the chains, pre-tokenized if the recipe has `speed.pretokenize` and rows do not change between epochs."""
    if not config.speed.pretokenize or chains.dynamic:
        return chains
    return pretokenize(chains, _names(config, data, chains.method), folder, workers)


def start_prompt_format(config: BackboneConfig, prompt: PromptConfig) -> PromptFormat:
    """Return the prompt format of the model that `store.load_start` loads, without its weights.

    An `init` that does not exist yet is assumed to have the tokenizer of `name`, as a run of the same family has.
    """
    return prompt_format_of(_start_tokenizer(config), prompt)


def _start_tokenizer(config: BackboneConfig) -> Any:
    if config.init is None or _continues(config) or not _exists(config.init):
        return named_tokenizer(config)
    folder = find_model(config.init)
    metadata = read_metadata(folder)
    if (folder / ADAPTER_CONFIG).is_file():
        tokenizer = _start_tokenizer(relocated(metadata.backbone, folder))
    else:
        tokenizer = load_tokenizer("embedded" if folder.resolve() == EMBEDDED.resolve() else str(folder))
    tokenizer = prompt_format_of(tokenizer, metadata.prompt).tokenizer  # its markers precede tokens added now
    return with_number_tokens(tokenizer) if config.number_tokens and not metadata.backbone.number_tokens else tokenizer


def _continues(config: BackboneConfig) -> bool:
    """Return whether the adapter of `init` is trained further; its backbone and tokens are then those of the recipe."""
    return config.lora is not None and config.lora.continue_adapter


def _exists(init: str) -> bool:
    """Return whether a start model exists."""
    try:
        return find_model(init).is_dir()
    except UserError:
        return False


def _assumption(config: BackboneConfig) -> str:
    """Return what was assumed about a start model that does not exist yet; "" if nothing."""
    if config.init is None or _continues(config) or _exists(config.init):
        return ""
    return (
        f"backbone.init '{config.init}' does not exist yet: it is assumed to have the tokenizer of '{config.name}'"
        f"{' with number tokens' if config.number_tokens else ''}. If it has another, training tokenizes again."
    )


def _why_not(config: RunConfig, chains: ChainDataset) -> str:
    """Return why only training can tokenize these chains; "" if they can be pre-tokenized."""
    if not chains.dynamic:
        return ""
    what = f"method '{config.method.name}'" if chains.method.dynamic else f"prior '{config.prior.name}'"
    return f"{what} changes rows between epochs, so they are not pre-tokenized; training tokenizes them on the fly."


def _sections(config: RunConfig, method: EncodingMethod) -> dict[str, Any]:
    sections = config.model_dump(mode="json", include={"prompt", "data", "spans", "prior"})
    return {**sections, "method": {"name": config.method.name, **method.encodes_by()}}


def _names(config: RunConfig, data: TrainingData, method: EncodingMethod) -> dict[str, Any]:
    """Return everything the encoding depends on, apart from the tokenizer and the code, as plain data."""
    return {**_sections(config, method), "fingerprints": data.fingerprints, "left_out": data.left_out}


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
