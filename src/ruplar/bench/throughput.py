"""Model shape → questions per second by batch size on GSM8K's prompt lengths; how latency grows with each size.

Soft tokens and a written chain take turns on the same engine. The published procedure (batch size 1) and Hugging Face
`generate` (one batch) are timed on a sample spread evenly over the same lengths.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ruplar.bench import published
from ruplar.bench.latency import Lengths, engine_work, floor_fields
from ruplar.bench.report import about, ratio
from ruplar.bench.shapes import build, gsm8k_lengths, random_prompts
from ruplar.bench.timing import Load, Peak, Spread, ceilings, interleave, repeat
from ruplar.engine.reference import left_pad
from ruplar.types import Prompt

LATENTS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 32)
PROMPTS = (16, 32, 64, 110, 192, 256, 384, 512, 768)

ALL = 1319  # GSM8K's test set

_PER_SLOT = 64
"""Questions per slot that a small engine is timed on; all of them at batch size 1 would only take longer."""


def throughput(
    shape: str,
    device: str,
    dtype: str,
    batches: Sequence[int] = (1, 8, 64),
    questions: int = ALL,
    sample: int = 24,
    repeats: int = 3,
) -> dict[str, Any]:
    """Measure questions per second."""
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
        theirs_rate = _rate(repeat(one_by_one, device, repeats, warm_up=1), len(some))
    ids, mask = left_pad([[*prompt.ids, backbone.think_id] for prompt in some], 0, device)
    written, given = replace(lengths, written=True), {"input_ids": ids, "attention_mask": mask}
    hf = repeat(lambda: published.hf_generate(backbone, written.chain + written.answer, **given), device, repeats)
    prompts = random_prompts(backbone, every)
    rates: dict[int, Spread] = {}
    text: dict[int, Spread] = {}
    peaks: dict[int, float | None] = {}
    timed = {batch: _spread_out(prompts, _PER_SLOT * batch) for batch in batches}
    for batch in batches:
        ours, peaks[batch] = engine_work(backbone, lengths, batch, timed[batch])
        works = {"ours": ours, "text": engine_work(backbone, written, batch, timed[batch])[0]}
        took = interleave(works, device, repeats, warm_up=1)
        rates[batch], text[batch] = (_rate(took[name], len(timed[batch])) for name in works)
    top = max(rates, key=lambda b: rates[b].median)
    mean = replace(lengths, prompt=round(sum(every) / len(every)))
    least = {b: floor_fields(load, best, mean, b) for b in rates}
    floors = {b: 1000 * b / one["floor_ms"] for b, one in least.items()}
    return {
        **about("throughput", shape, device, dtype),
        **mean.fields(),
        "questions": len(prompts),
        "questions_by_batch": {str(b): len(some) for b, some in timed.items()},
        "published_sample": len(some),
        "questions_per_s": {str(b): r.median for b, r in rates.items()},
        "questions_per_s_p10": {str(b): r.low for b, r in rates.items()},
        "questions_per_s_p90": {str(b): r.high for b, r in rates.items()},
        "text_questions_per_s": {str(b): r.median for b, r in text.items()},
        "vs_text_by_batch": {str(b): ratio(r.median, text[b].median) for b, r in rates.items()},
        "floor_vs_text_by_batch": {str(b): one["floor_vs_text"] for b, one in least.items()},
        "hf_cot_questions_per_s": 1000 * len(some) / hf.median,
        "floor_questions_per_s": {str(b): f for b, f in floors.items()},
        "peak_gb_by_batch": {str(b): p for b, p in peaks.items()},
        "best_batch": top,
        "best_questions_per_s": rates[top].median,
        "published_questions_per_s": theirs_rate.median,
        "vs_text": ratio(rates[top].median, text[top].median),
        "vs_hf_cot": ratio(rates[top].median, 1000 * len(some) / hf.median),
        "vs_published": ratio(rates[top].median, theirs_rate.median),
        "vs_batch_1": ratio(rates[top].median, rates[1].median) if 1 in rates else None,
        "vs_floor": ratio(floors[top], rates[top].median),
        **least[top],
        "peak_gb": peaks[top],
        "published_peak_gb": theirs.gb,
        "weights_gb": load.total_bytes / 1e9,
        **best.fields(),
    }


def _spread_out(prompts: Sequence[Prompt], count: int) -> list[Prompt]:
    ordered = sorted(prompts, key=lambda prompt: len(prompt.ids))
    chosen = np.linspace(0, len(prompts) - 1, min(count, len(prompts))).round().astype(int)
    return [ordered[i] for i in chosen]


def _rate(took: Spread, count: int) -> Spread:
    return Spread(1000 * count / took.median, 1000 * count / took.high, 1000 * count / took.low, took.count)


def growth(
    shape: str, device: str, dtype: str, batches: Sequence[int] = (1, 2, 4, 8, 16, 32, 64), repeats: int = 10
) -> dict[str, Any]:
    """Vary one size at a time; the others are as in `bench latency`."""
    backbone = build(shape, device, getattr(torch, dtype))
    load = Load.of(backbone)
    best = ceilings(device, getattr(torch, dtype), load, quick=repeats < 3)
    rows = []
    for vary, x, lengths, batch in _sizes(batches):
        prompts = random_prompts(backbone, [lengths.prompt] * batch)
        ours, peak = engine_work(backbone, lengths, batch, prompts)
        text, _ = engine_work(backbone, replace(lengths, written=True), batch, prompts)
        both = interleave({"ours": ours, "text": text}, device, repeats, warm_up=1, budget_s=10)
        took, written = both["ours"], both["text"]
        floor = floor_fields(load, best, lengths, batch)
        row = {"vary": vary, "x": x, "batch": batch, **took.fields("ours", "ms"), **written.fields("text", "ms")}
        row |= {"vs_text": ratio(written.median, took.median), **floor}
        rows.append({**row, "vs_floor": ratio(took.median, floor["floor_ms"]), "peak_gb": peak})
    return {
        **about("growth", shape, device, dtype),
        **Lengths().fields(),
        "weights_gb": load.total_bytes / 1e9,
        **best.fields(),
        "rows": rows,
    }


def _sizes(batches: Sequence[int]) -> Iterator[tuple[str, int, Lengths, int]]:
    usual = Lengths()
    yield from (("latents", n, replace(usual, latents=n), 1) for n in LATENTS)
    yield from (("prompt", n, replace(usual, prompt=n), 1) for n in PROMPTS)
    yield from (("batch", n, usual, n) for n in batches)
