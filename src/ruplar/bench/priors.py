"""Chains → priors per second: sparse and cached, against one dense vocabulary-sized vector per step.

Ours is the encoder used in training. The published procedure is timed on a sample and reported per chain. Chains are read
before timing starts; only the encoder's own cache keeps priors.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ruplar import plugins
from ruplar.bench.published import dense_prior
from ruplar.bench.report import about, ratio
from ruplar.bench.shapes import sizes_of
from ruplar.bench.timing import Peak, Spread, held_gb
from ruplar.data.encoding import Encoder
from ruplar.data.read import read
from ruplar.model.prompt import PromptBuilder
from ruplar.model.settings import PromptConfig
from ruplar.model.tokenizers import load_tokenizer
from ruplar.priors.base import PriorTable
from ruplar.problems.word_problems import generate
from ruplar.types import Example, Markers


def priors(
    shape: str, prior: str = "mixture", chains: int = 100_000, file: Path | None = None, sample: int = 200
) -> dict[str, Any]:
    """Measure how fast priors are built, on one core."""
    vocabulary = int(sizes_of(shape)["vocab_size"])
    domain = plugins.make("domains", "arithmetic")
    examples = read(file, domain, skip_bad=True).examples if file else list(generate(chains, seed=1))
    encoder = _encoder(prior)
    before = held_gb()
    with Peak("cpu") as peak:
        passes = [_build(encoder, examples)]
    growth = None if before is None else (held_gb() or 0.0) - before
    passes += [_build(_encoder(prior), examples) for _ in range(2)] if len(examples) <= 20_000 else []
    took, count = Spread.of([seconds for seconds, _ in passes]), passes[0][1]
    some = examples[:: max(1, len(examples) // sample)][:sample]
    slow = _published_rate(some, vocabulary)
    rate = len(examples) / took.median
    return {
        **about("priors", shape, "cpu", "float32"),
        "prior": prior,
        "source": file.name if file else "word problems",
        "vocabulary": vocabulary,
        "chains": len(examples),
        "steps": sum(len(example.steps) for example in examples),
        "distinct_steps": len({step for example in examples for step in example.steps}),
        "priors": count,
        "ours_s": took.median,
        "chains_per_s": rate,
        "published_sample": len(some),
        "published_chains_per_s": slow,
        "vs_published": ratio(rate, slow),
        "peak_gb": peak.gb,
        "growth_gb": growth,
    }


def _encoder(prior: str) -> Encoder:
    tokenizer = load_tokenizer("embedded")
    controls = frozenset(tokenizer.all_special_ids)
    prompt = PromptBuilder(tokenizer, PromptConfig(), controls)
    table = PriorTable(plugins.make("priors", prior), prompt.plain, seed=0)
    markers = Markers(-1, -1, -1)  # not used: no sequence is built
    return Encoder(prompt, markers, plugins.make("domains", "arithmetic"), plugins.make("spans", "step"), table)


def _build(encoder: Encoder, examples: Sequence[Example]) -> tuple[float, int]:
    start, count = time.perf_counter(), 0
    for row, example in enumerate(examples):
        for latent, span in enumerate(encoder.spans(example)):
            encoder.prior(span, (0, row, latent))
            count += 1
    return time.perf_counter() - start, count


def _published_rate(examples: Sequence[Example], vocabulary: int) -> float:
    """Time the published procedure three times → chains per second, the median."""
    tokenizer = load_tokenizer("embedded")
    domain = plugins.make("domains", "arithmetic", {"rule": "published"})

    def encode(text: str) -> list[int]:
        return tokenizer.encode(text, add_special_tokens=False)

    found = []
    for _ in range(3):
        start = time.perf_counter()
        for example in examples:
            for step in example.steps:
                dense_prior(step, domain, encode, vocabulary)
        found.append(time.perf_counter() - start)
    return len(examples) / Spread.of(found).median
