"""Shape → how long one question takes: ours, the published procedure, text CoT and the floor, at batch 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ruplar.bench import published
from ruplar.bench.floor import Load, ceilings, question_floor_ms
from ruplar.bench.report import about, ratio
from ruplar.bench.shapes import build, random_prompts
from ruplar.bench.timing import Peak, Spread, repeat
from ruplar.engine.fast import FastEngine
from ruplar.engine.options import EngineOptions
from ruplar.engine.sampling import Decoding
from ruplar.engine.scheduler import Scheduler
from ruplar.engine.selfcheck import check_agreement
from ruplar.engine.thinker import SoftThinker
from ruplar.errors import UserError
from ruplar.model.backbone import Backbone
from ruplar.types import Prompt


@dataclass(frozen=True)
class Lengths:
    """What every question is made to take: tokens of the prompt, latents, tokens of the answer and of a text chain."""

    prompt: int = 110
    latents: int = 3
    answer: int = 10
    chain: int = 26

    def fields(self) -> dict[str, int]:
        """For the record."""
        return {
            "prompt_tokens": self.prompt,
            "latents": self.latents,
            "answer_tokens": self.answer,
            "cot_tokens": self.chain,
        }

    @property
    def forwards(self) -> int:
        """Model calls of a question with one cache: the prefill, each latent, `</think>`, all answer tokens but one."""
        return 1 + self.latents + self.answer


QUICK = Lengths(prompt=12, latents=2, answer=3, chain=4)


def tireless(backbone: Backbone, latents: int) -> SoftThinker:
    """Our own way of thinking, except that it never ends a thought by itself: each has `latents` soft tokens."""
    return SoftThinker(backbone.embedding, backbone.end_think_id, halt_threshold=1.0, cap=latents)


def time_engine(
    backbone: Backbone,
    lengths: Lengths,
    slots: int,
    prompts: Sequence[Prompt],
    repeats: int,
    budget_s: float = 60.0,
    warm_up: int = 1,
) -> tuple[Spread, float | None]:
    """Answer the prompts through a fast engine of that many slots, which is gone afterwards.

    Returns:
        Milliseconds for all of them, and the peak memory in GB, the making of the engine included.

    Raises:
        UserError: The model runs only in the plain loop.
    """
    thinker, decoding = tireless(backbone, lengths.latents), Decoding(max_answer_tokens=lengths.answer)
    need = max(len(p.ids) for p in prompts) + lengths.latents + lengths.answer + 2
    options = EngineOptions(columns=-(-need // 64) * 64, release=True)
    with Peak(backbone.device) as peak:
        engine = FastEngine.of(backbone, thinker, decoding, slots, options)
        if engine is None:
            raise UserError("this shape runs only in the plain loop; there is no fast engine to measure.")
        scheduler = Scheduler(engine)
        took = repeat(lambda: scheduler.run_all(prompts), backbone.device, repeats, warm_up, budget_s)
    return took, peak.gb


def latency(
    shape: str, device: str, dtype: str, repeats: int = 30, lengths: Lengths | None = None, agreement: int = 64
) -> dict[str, Any]:
    """Measure one question at a time.

    Args:
        shape: A name in `shapes.SHAPES`.
        device: Where.
        dtype: Precision of the weights.
        repeats: Timed questions of each kind; fewer of the slow kinds.
        lengths: Forced lengths.
        agreement: Questions on which the fast engine is compared with the plain loop.

    Returns:
        One flat record; see `report.KEYS`.
    """
    lengths = lengths or Lengths()
    backbone = build(shape, device, getattr(torch, dtype))
    load = Load.of(backbone)
    best = ceilings(device, getattr(torch, dtype), load, quick=lengths == QUICK)
    [prompt] = random_prompts(backbone, [lengths.prompt])
    some = max(3, repeats // 3)
    # the others first: they need nothing of the engine, and its buffers would count as theirs
    with Peak(device) as theirs:
        slow = repeat(
            lambda: published.ask(backbone, prompt, lengths.latents, lengths.answer, halts=False), device, some
        )
    ids = torch.tensor([[*prompt.ids, backbone.think_id]], device=device)
    written = lengths.chain + lengths.answer
    text = repeat(lambda: published.hf_generate(backbone, written, input_ids=ids), device, some)
    fast, peak = time_engine(
        backbone, lengths, 1, [prompt], repeats, warm_up=max(2, repeats // 3)
    )  # clocks rise first
    floor = question_floor_ms(load, best, lengths.prompt, lengths.latents, lengths.answer)
    return {
        **about("latency", shape, device, dtype),
        **lengths.fields(),
        "forwards": lengths.forwards,
        "repeats": fast.count,
        **fast.fields("ours", "ms"),
        **slow.fields("published", "ms"),
        **text.fields("hf_cot", "ms"),
        "floor_ms": floor,
        "vs_published": ratio(slow.median, fast.median),
        "vs_hf_cot": ratio(text.median, fast.median),
        "vs_floor": ratio(fast.median, floor),
        "peak_gb": peak,
        "published_peak_gb": theirs.gb,
        "weights_gb": load.total_bytes / 1e9,
        **best.fields(),
        **_agreement(backbone, shape, lengths, agreement),
    }


def _agreement(backbone: Backbone, shape: str, lengths: Lengths, count: int) -> dict[str, Any]:
    """The fast engine against the plain loop on prompts of many lengths, more of them than slots.

    Answers are compared in float32. Random weights are nearly undecided at every token, so in bfloat16 rounding alone
    makes two right ways part at once; there only the logits on equal inputs are compared, and `bench agreement` compares
    answers of a trained model.
    """
    spread = [max(10, lengths.prompt // 2 + i % lengths.prompt) for i in range(count)]
    prompts = random_prompts(backbone, spread, seed=1)
    measured = _check(backbone, lengths, prompts[: min(8, count)])
    dtype, device = backbone.embedding_weight.dtype, backbone.device
    if dtype == torch.float32 and count <= 8:
        exact = measured
    else:
        exact = _check(build(shape, str(device), torch.float32), lengths, prompts)
    return {
        "agreement": exact["same"],
        "agreement_questions": exact["questions"],
        "agreement_tokens": exact["same_tokens"],
        "agreement_dtype": "float32",
        "max_logit_difference": measured["largest_logit_difference"],
        "relative_logit_difference": measured["relative_logit_difference"],
        "kernels": measured["kernels"],
    }


def _check(backbone: Backbone, lengths: Lengths, prompts: Sequence[Prompt]) -> dict[str, Any]:
    return check_agreement(
        backbone,
        tireless(backbone, lengths.latents),
        prompts,
        Decoding(max_answer_tokens=lengths.answer),
        slots=min(8, max(1, len(prompts) // 2)),
        options=EngineOptions(release=True),
    )
