"""Model shape → tokens per second and peak memory of a RuPLaR training step, against dense priors and full logits.

Both train the same items with the same LoRA without dropout (or all weights): forward, backward and AdamW. Ours is what the
trainer runs: folded adapters, and for packed rows variable-length attention or, with `graph`, captured passes. Building
priors is not timed, because data-loader workers can do it in parallel. Moving dense priors to the device is.

MFU counts only the necessary products with weights: forward and backward through the layers for every token, through the
LM head for supervised positions, and weight gradients only for trained weights; relative to the measured rate of a large
matrix product.
"""

import contextlib
import gc
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ruplar import plugins
from ruplar.bench import published
from ruplar.bench.report import about, ratio
from ruplar.bench.shapes import build, gsm8k_lengths
from ruplar.bench.timing import Ceilings, Load, Peak, Spread, ceilings, repeat
from ruplar.data.collate import collate
from ruplar.errors import UserError
from ruplar.methods.base import latent_item
from ruplar.model.backbone import Backbone
from ruplar.model.cuda_graphs import replay_passes
from ruplar.model.fold_lora import fold_adapters
from ruplar.model.lora import add_lora
from ruplar.model.settings import LoraSettings
from ruplar.model.varlen import use_varlen
from ruplar.types import Batch, Item, Prompt, SparsePrior

_PUBLISHED = ("published_ms", "published_p10_ms", "published_p90_ms")
_BATCHES = 4
"""Number of different batches that the steps alternate between."""


@dataclass(frozen=True)
class TrainOptions:
    """Options of a training step; `pack` to `liger` apply to ours only."""

    batch: int = 32  # sequences per step
    lora: bool = True  # train a LoRA adapter; False trains all weights, stored in float32
    pack: int = 0  # tokens per packed row; 0: no packing
    compile: bool = False  # compile the layers
    checkpoint: bool = False  # gradient checkpointing
    graph: bool = False  # replay the layers as CUDA graphs, as `speed.graph` does
    liger: bool = False  # Liger's kernels, as `training.use_liger_kernel` does
    published: bool = True  # also measure the published procedure, whose dense priors take long to build
    latents: int = 3  # latents per sequence
    answer: int = 10  # answer tokens per sequence


def train(shape: str, device: str, dtype: str, options: TrainOptions, repeats: int = 20) -> dict[str, Any]:
    """Measure training steps."""
    if options.graph:
        _check_graph(device, options)
    precision = getattr(torch, dtype)
    # ours last: memory held by the compiler must not count as theirs
    theirs = _measure_dense(shape, device, precision, options, max(4, repeats // 2)) if options.published else None
    ours = _measure(_our_step, shape, device, precision, options, repeats)
    tokens = ours.tokens / (ours.took.median / 1000)
    dense = theirs.tokens / (theirs.took.median / 1000) if theirs else None
    best = ceilings(device, precision, ours.load, quick=options.batch < 4)
    return {
        **about("train", shape, device, dtype),
        "batch": options.batch,
        "trains": "lora" if options.lora else "all",
        "pack": options.pack,
        "compiled": options.compile,
        "checkpoint": options.checkpoint,
        "graph": options.graph,
        "liger": options.liger,
        "latents": options.latents,
        "answer_tokens": options.answer,
        "tokens_per_step": ours.tokens,
        "repeats": ours.took.count,
        **ours.took.fields("ours", "ms"),
        **(theirs.took.fields("published", "ms") if theirs else dict.fromkeys(_PUBLISHED)),
        "published_fits": theirs is not None if options.published else None,
        "tokens_per_s": tokens,
        "published_tokens_per_s": dense,
        "mfu": _mfu(ours, options, best),
        "vs_published_speed": ratio(tokens, dense),
        "vs_published_memory": ratio(ours.peak_gb, theirs.peak_gb) if theirs else None,
        "peak_gb": ours.peak_gb,
        "published_peak_gb": theirs.peak_gb if theirs else None,
        "weights_gb": ours.load.total_bytes / 1e9,
        **best.fields(),
    }


def _check_graph(device: str, options: TrainOptions) -> None:
    """Refuse --graph where the passes would not be captured."""
    wrong = {
        "it needs an NVIDIA GPU": torch.device(device).type != "cuda",
        "only packed rows are captured; set --pack, for example --pack 512": not options.pack,
        "recomputed layers cannot be captured; leave out --gradient-checkpointing": options.checkpoint,
    }
    if any(wrong.values()):
        raise UserError(*(f"--graph: {reason}." for reason, applies in wrong.items() if applies))


@dataclass
class _Found:
    took: Spread
    peak_gb: float | None
    tokens: float
    load: Load


Step = Callable[[], Tensor]
Maker = Callable[[Backbone, list[list[Item]], TrainOptions], list[Step]]


def _measure_dense(shape: str, device: str, dtype: torch.dtype, options: TrainOptions, repeats: int) -> _Found | None:
    """Measure the published step; None if it runs out of memory."""
    try:
        return _measure(_published_step, shape, device, dtype, options, repeats)
    except torch.OutOfMemoryError:
        pass
    gc.collect()  # outside the handler, whose traceback references the allocated tensors
    torch.cuda.empty_cache()
    return None


def _measure(make: Maker, shape: str, device: str, dtype: torch.dtype, options: TrainOptions, repeats: int) -> _Found:
    """Measure one procedure on its own model, so that memory is counted separately."""
    with Peak(device) as peak:
        step, load, tokens = training_step(shape, device, dtype, options, make)
        took = repeat(step, device, repeats, warm_up=_BATCHES)
    return _Found(took, peak.gb, tokens, load)


def training_step(
    shape: str, device: str, precision: torch.dtype, options: TrainOptions, make: Maker | None = None
) -> tuple[Callable[[], None], Load, float]:
    """Build a model → a training step of ours (or `make`'s), the model's load, and the mean tokens per step."""
    torch.manual_seed(0)
    backbone = build(shape, device, precision if options.lora else torch.float32)
    load = Load.of(backbone)
    if options.lora:
        add_lora(backbone, LoraSettings(dropout=0.0))
    backbone.model.train()
    groups = [random_items(backbone, options, seed) for seed in range(_BATCHES)]
    losses = cycle((make or _our_step)(backbone, groups, options))
    weights = [w for w in backbone.model.parameters() if w.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=1e-5, fused=torch.device(device).type == "cuda")
    half = precision != torch.float32

    def step() -> None:
        with torch.autocast(torch.device(device).type, precision) if half else contextlib.nullcontext():
            loss = next(losses)()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step, load, sum(len(item.ids) for group in groups for item in group) / len(groups)


def _our_step(backbone: Backbone, groups: list[list[Item]], options: TrainOptions) -> list[Step]:
    method = plugins.make("methods", "ruplar")
    if options.checkpoint:
        backbone.plain_model.gradient_checkpointing_enable({"use_reentrant": False})
    if options.lora:
        fold_adapters(backbone)
    if options.pack and not options.graph and backbone.device.type == "cuda":
        backbone.varlen = use_varlen(backbone.plain_model, torch.bfloat16)
    if options.liger:
        backbone.use_liger_kernels()
    if options.compile:
        backbone.compile_layers()
    if options.graph:
        replay_passes(backbone)
    batches = [collate(items, backbone.pad_id, options.pack).to(backbone.device) for items in groups]

    def loss(batch: Batch) -> Tensor:
        backbone.begin_step()
        return method.loss(backbone, batch).total

    return [partial(loss, batch) for batch in batches]


def _published_step(backbone: Backbone, groups: list[list[Item]], options: TrainOptions) -> list[Step]:
    vocabulary = backbone.embedding_weight.shape[0]
    batches = [published.dense_batch(items, backbone.pad_id, vocabulary, torch.bfloat16) for items in groups]
    return [lambda batch=batch: published.training_loss(backbone, batch.to(backbone.device)) for batch in batches]  # type: ignore[misc]


def random_items(backbone: Backbone, options: TrainOptions, seed: int) -> list[Item]:
    """Return a batch of random training sequences: prompt lengths of GSM8K, priors of six tokens."""
    draw = np.random.default_rng(seed)
    top = backbone.embedding_weight.shape[0] - 2
    lengths = draw.choice(gsm8k_lengths(), size=options.batch).tolist()
    return [_item(backbone, draw, top, length, options) for length in lengths]


def _item(backbone: Backbone, draw: np.random.Generator, top: int, length: int, options: TrainOptions) -> Item:
    answer = draw.integers(0, top, size=options.answer).tolist()
    probs = np.array([0.8, 0.04, 0.04, 0.04, 0.04, 0.04], dtype=np.float32)
    priors = [SparsePrior(draw.choice(top, size=6, replace=False), probs) for _ in range(options.latents)]
    prompt = Prompt(tuple(draw.integers(0, top, size=length).tolist()), length - 1)
    return replace(latent_item(prompt, backbone, options.latents, answer), priors=priors)


def _mfu(ours: _Found, options: TrainOptions, best: Ceilings) -> float:
    """Return the model FLOP utilisation, without attention scores and adapters."""
    supervised = options.batch * (options.latents + options.answer + 1)
    passes = 2 if options.lora else 3  # forward and backward; plus weight gradients when all weights are trained
    flops = 2 * passes * (ours.load.body * ours.tokens + ours.load.head * supervised)
    return flops / (ours.took.median / 1000) / best.flops_per_s
