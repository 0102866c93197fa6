"""Shape → questions a second: our engine at each batch size, on prompts as long as GSM8K's, and the published loop.

The published procedure answers one question at a time; it is timed on a sample spread evenly over the same lengths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ruplar.bench import published
from ruplar.bench.floor import Load, ceilings, question_floor_ms
from ruplar.bench.latency import Lengths, time_engine
from ruplar.bench.report import about, ratio
from ruplar.bench.shapes import build, gsm8k_lengths, random_prompts
from ruplar.bench.timing import Peak, Spread, repeat
from ruplar.types import Prompt

ALL = 1319
"""Questions in GSM8K's test set."""

_PER_SLOT = 64
"""Questions a small engine is timed on for each of its slots: all of them, one at a time, would only take longer."""


def throughput(
    shape: str,
    device: str,
    dtype: str,
    batches: Sequence[int] = (1, 8, 64),
    questions: int = ALL,
    sample: int = 24,
    repeats: int = 3,
) -> dict[str, Any]:
    """Measure questions a second.

    Args:
        shape: A name in `shapes.SHAPES`.
        device: Where.
        dtype: Precision of the weights.
        batches: Slots of our engine, one measurement each.
        questions: How many, at most all of GSM8K's; their lengths are spread as those of all.
        sample: Of them, how many the published procedure is timed on.
        repeats: Times each is measured, within a minute.

    Returns:
        One flat record; figures by batch size stand in dictionaries from its digits to a number.
    """
    lengths = Lengths()
    backbone = build(shape, device, getattr(torch, dtype))
    load = Load.of(backbone)
    best = ceilings(device, getattr(torch, dtype), load, quick=questions < 32)
    every = gsm8k_lengths(min(questions, ALL))
    some = random_prompts(backbone, gsm8k_lengths(min(sample, questions)), seed=1)

    def one_by_one() -> None:
        for prompt in some:
            published.ask(backbone, prompt, lengths.latents, lengths.answer, halts=False)

    with Peak(device) as theirs:
        before = repeat(one_by_one, device, repeats, warm_up=1)
    prompts = random_prompts(backbone, every)
    rates: dict[int, Spread] = {}
    peaks: dict[int, float | None] = {}
    asked = {batch: _spread_out(prompts, _PER_SLOT * batch) for batch in batches}
    for batch in batches:
        took, peaks[batch] = time_engine(backbone, lengths, batch, asked[batch], repeats)
        rates[batch] = _rate(took, len(asked[batch]))
    # once more at the end: a machine that grew busier or idler meanwhile must not flatter either
    slow = Spread.of(before.values + repeat(one_by_one, device, repeats, warm_up=0).values)
    theirs_rate, top = _rate(slow, len(some)), max(rates, key=lambda b: rates[b].median)
    mean = replace(lengths, prompt=round(sum(every) / len(every)))
    floors = {b: 1000 * b / question_floor_ms(load, best, mean.prompt, mean.latents, mean.answer, b) for b in rates}
    return {
        **about("throughput", shape, device, dtype),
        **mean.fields(),
        "questions": len(prompts),
        "questions_by_batch": {str(b): len(some) for b, some in asked.items()},
        "published_sample": len(some),
        "questions_per_s": {str(b): r.median for b, r in rates.items()},
        "questions_per_s_p10": {str(b): r.low for b, r in rates.items()},
        "questions_per_s_p90": {str(b): r.high for b, r in rates.items()},
        "floor_questions_per_s": {str(b): f for b, f in floors.items()},
        "peak_gb_by_batch": {str(b): p for b, p in peaks.items()},
        "best_batch": top,
        "best_questions_per_s": rates[top].median,
        "published_questions_per_s": theirs_rate.median,
        "published_questions_per_s_p10": theirs_rate.low,
        "published_questions_per_s_p90": theirs_rate.high,
        "vs_published": ratio(rates[top].median, theirs_rate.median),
        "vs_batch_1": ratio(rates[top].median, rates[1].median) if 1 in rates else None,
        "vs_floor": ratio(floors[top], rates[top].median),
        "peak_gb": peaks[top],
        "published_peak_gb": theirs.gb,
        "weights_gb": load.total_bytes / 1e9,
        **best.fields(),
    }


def _spread_out(prompts: Sequence[Prompt], count: int) -> list[Prompt]:
    """At most `count` of the prompts, evenly over their lengths."""
    ordered = sorted(prompts, key=lambda prompt: len(prompt.ids))
    chosen = np.linspace(0, len(prompts) - 1, min(count, len(prompts))).round().astype(int)
    return [ordered[i] for i in chosen]


def _rate(took: Spread, count: int) -> Spread:
    """Milliseconds of a whole run → questions a second."""
    return Spread(1000 * count / took.median, 1000 * count / took.high, 1000 * count / took.low, took.count)
