"""Shape → rows that say how cost grows: with latents, with prompt length, with batch size; the floor beside each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from ruplar.bench.floor import Ceilings, Load, ceilings, question_floor_ms
from ruplar.bench.latency import Lengths, time_engine
from ruplar.bench.report import about, ratio
from ruplar.bench.shapes import build, random_prompts

LATENTS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 32)
PROMPTS = (16, 32, 64, 110, 192, 256, 384, 512, 768)


def growth(
    shape: str, device: str, dtype: str, batches: Sequence[int] = (1, 2, 4, 8, 16, 32, 64), repeats: int = 10
) -> dict[str, Any]:
    """Measure one thing at a time, the others as in `bench latency`.

    Args:
        shape: A name in `shapes.SHAPES`.
        device: Where.
        dtype: Precision of the weights.
        batches: Batch sizes: questions of equal length, begun together.
        repeats: Times each is measured.

    Returns:
        One record whose `rows` hold `vary`, `x`, `ours_ms` with its spread, `floor_ms`, `vs_floor`, `peak_gb`.
    """
    backbone = build(shape, device, getattr(torch, dtype))
    load = Load.of(backbone)
    best = ceilings(device, getattr(torch, dtype), load, quick=repeats < 3)
    rows = []
    for vary, x, lengths, batch in _plan(batches):
        prompts = random_prompts(backbone, [lengths.prompt] * batch)
        took, peak = time_engine(backbone, lengths, batch, prompts, repeats, budget_s=10)
        floor = _floor(load, best, lengths, batch)
        row = {"vary": vary, "x": x, "batch": batch, **took.fields("ours", "ms"), "floor_ms": floor}
        rows.append({**row, "vs_floor": ratio(took.median, floor), "peak_gb": peak})
    return {
        **about("growth", shape, device, dtype),
        **Lengths().fields(),
        "weights_gb": load.total_bytes / 1e9,
        **best.fields(),
        "rows": rows,
    }


def _plan(batches: Sequence[int]) -> Iterator[tuple[str, int, Lengths, int]]:
    usual = Lengths()
    yield from (("latents", n, replace(usual, latents=n), 1) for n in LATENTS)
    yield from (("prompt", n, replace(usual, prompt=n), 1) for n in PROMPTS)
    yield from (("batch", n, usual, n) for n in batches)


def _floor(load: Load, best: Ceilings, lengths: Lengths, batch: int) -> float:
    return question_floor_ms(load, best, lengths.prompt, lengths.latents, lengths.answer, batch)
