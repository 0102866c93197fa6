"""Model shape → latency at batch size 1: ruplar, the published procedure, text CoT and the floor; engine agreement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ruplar.bench import published
from ruplar.bench.report import about, ratio
from ruplar.bench.shapes import build, random_prompts
from ruplar.bench.timing import Load, Peak, Spread, ceilings, question_floor_ms, repeat
from ruplar.data.sources import SourceConfig, open_source
from ruplar.engine.fast import FastEngine
from ruplar.engine.options import EngineOptions
from ruplar.engine.sampling import Decoding
from ruplar.engine.scheduler import Scheduler
from ruplar.engine.selfcheck import check_agreement
from ruplar.engine.thinker import SoftThinker
from ruplar.errors import UserError
from ruplar.model.backbone import Backbone
from ruplar.model.store import load_model
from ruplar.plugins import make
from ruplar.types import Prompt


@dataclass(frozen=True)
class Lengths:
    """Forced lengths of every question: prompt tokens, latents, answer tokens, and tokens of a text chain."""

    prompt: int = 110
    latents: int = 3
    answer: int = 10
    chain: int = 26

    def fields(self) -> dict[str, int]:
        """Return the fields of the record."""
        lengths = {"prompt_tokens": self.prompt, "latents": self.latents, "answer_tokens": self.answer}
        return {**lengths, "cot_tokens": self.chain}

    @property
    def forwards(self) -> int:
        """Forward passes per question: the prefill, every latent, `</think>`, every answer token but one."""
        return 1 + self.latents + self.answer


SLOTS = (1, 8, 64)
QUICK = Lengths(prompt=12, latents=2, answer=3, chain=4)


def fixed_length_thinker(backbone: Backbone, latents: int) -> SoftThinker:
    """Return a thinker that never halts early: each thought has exactly `latents` soft tokens."""
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
    """Time a fast engine with that many slots: milliseconds for all prompts, and peak GB including its construction."""
    thinker, decoding = fixed_length_thinker(backbone, lengths.latents), Decoding(max_answer_tokens=lengths.answer)
    need = max(len(p.ids) for p in prompts) + lengths.latents + lengths.answer + 2
    options = EngineOptions(columns=-(-need // 64) * 64, release=True)
    with Peak(backbone.device) as peak:
        engine = FastEngine.of(backbone, thinker, decoding, slots, options)
        if engine is None:
            raise UserError("the fast engine does not support this shape.")
        scheduler = Scheduler(engine)
        took = repeat(lambda: scheduler.run_all(prompts), backbone.device, repeats, warm_up, budget_s)
    return took, peak.gb


def latency(
    shape: str, device: str, dtype: str, repeats: int = 30, lengths: Lengths | None = None, checked: int = 64
) -> dict[str, Any]:
    """Measure latency at batch size 1."""
    lengths = lengths or Lengths()
    backbone = build(shape, device, getattr(torch, dtype))
    load = Load.of(backbone)
    best = ceilings(device, getattr(torch, dtype), load, quick=lengths == QUICK)
    [prompt] = random_prompts(backbone, [lengths.prompt])
    some = max(3, repeats // 3)
    # before the engine is built: its buffers would count as their memory
    with Peak(device) as theirs:
        slow = repeat(
            lambda: published.ask(backbone, prompt, lengths.latents, lengths.answer, halts=False), device, some
        )
    ids = torch.tensor([[*prompt.ids, backbone.think_id]], device=device)
    written = lengths.chain + lengths.answer
    text = repeat(lambda: published.hf_generate(backbone, written, input_ids=ids), device, some)
    fast, peak = time_engine(
        backbone, lengths, 1, [prompt], repeats, warm_up=max(2, repeats // 3)
    )  # until GPU clocks have risen
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
        **_agreement(backbone, shape, lengths, checked),
    }


def _agreement(backbone: Backbone, shape: str, lengths: Lengths, count: int) -> dict[str, Any]:
    """Compare the fast with the reference engine on prompts of many lengths, more of them than slots.

    Answers are compared in float32. With random weights every token is nearly a tie, so bfloat16 rounding alone changes
    answers; there only the logits on equal inputs are compared, and `bench agreement` compares a trained model.
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
        fixed_length_thinker(backbone, lengths.latents),
        prompts,
        Decoding(max_answer_tokens=lengths.answer),
        slots=min(8, max(1, len(prompts) // 2)),
        options=EngineOptions(release=True),
    )


def agreement(device: str, questions: int = 300, dtypes: tuple[str, ...] = ("float32", "bfloat16")) -> dict[str, Any]:
    """Compare the answers of both engines on word problems, with the embedded model's trained weights.

    The slow engine with one slot gets an eighth of the questions.
    """
    source = SourceConfig(source="word-problems", count=questions)
    every = [e.question for e in open_source(source, make("domains", "arithmetic")).examples]
    rows = []
    for dtype in dtypes:
        for slots in SLOTS:
            model = load_model("embedded:ruplar", device, dtype)
            backbone = model.backbone
            some = every if slots > 1 else every[: max(8, questions // 8)]
            found = check_agreement(
                backbone,
                model.method.thinker(backbone),
                [model.prompt(question) for question in some],
                Decoding(max_answer_tokens=16),
                slots,
                EngineOptions(release=True),
            )
            rows.append({"dtype": dtype, "slots": slots, **found})
    exact = [row["same"] for row in rows if row["dtype"] == "float32"]
    return {
        **about("agreement", "embedded", device, ",".join(dtypes)),
        "allows_tf32": bool(torch.backends.cuda.matmul.allow_tf32),
        "float32_same": min(exact) if exact else None,
        "rows": rows,
    }
