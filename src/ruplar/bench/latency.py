"""Model shape → latency at batch size 1: soft tokens, a written chain, the published procedure, the floor; engine agreement."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ruplar.bench import published
from ruplar.bench.report import about, ratio
from ruplar.bench.shapes import NO_ID, build, random_prompts
from ruplar.bench.timing import Ceilings, Load, Peak, ceilings, interleave, question_floor_ms
from ruplar.data.sources import SourceConfig
from ruplar.domains.base import Domain
from ruplar.engine.fast import FastEngine
from ruplar.engine.options import EngineOptions
from ruplar.engine.sampling import Decoding
from ruplar.engine.scheduler import Scheduler
from ruplar.engine.selfcheck import check_agreement
from ruplar.engine.thinker import SoftThinker, TextThinker, Thinker
from ruplar.evaluate.question_sets import open_questions
from ruplar.model.backbone import Backbone
from ruplar.model.store import load_model
from ruplar.types import Prompt


@dataclass(frozen=True)
class Lengths:
    """Forced lengths of every question: prompt tokens, latents, answer tokens, and tokens of a text chain."""

    prompt: int = 110
    latents: int = 3
    answer: int = 10
    chain: int = 26
    written: bool = False  # think in text: the chain instead of the latents

    def fields(self) -> dict[str, int]:
        """Return the fields of the record: lengths, forward passes, and tokens that these process."""
        text = replace(self, written=True)
        lengths = {"prompt_tokens": self.prompt, "latents": self.latents, "answer_tokens": self.answer}
        cost = {"forwards": self.forwards, "tokens": self.tokens, "text_forwards": text.forwards}
        return {**lengths, "cot_tokens": self.chain, **cost, "text_tokens": text.tokens}

    @property
    def thought(self) -> int:
        """Latents, or tokens of the chain."""
        return self.chain if self.written else self.latents

    @property
    def forwards(self) -> int:
        """Forward passes per question: the prefill, the whole thought, `</think>`, every answer token but one."""
        return 1 + self.thought + self.answer

    @property
    def tokens(self) -> int:
        """Tokens processed per question: the prompt, `<think>`, and one in each other forward pass."""
        return self.prompt + self.forwards


def floor_fields(load: Load, best: Ceilings, lengths: Lengths, batch: int = 1) -> dict[str, float]:
    """Return the least times of soft tokens and of a written chain, and the ratio that an engine at this floor would show."""
    soft, text = (
        question_floor_ms(load, best, lengths.prompt, thought, lengths.answer, batch)
        for thought in (lengths.latents, lengths.chain)
    )
    return {"floor_ms": soft, "text_floor_ms": text, "floor_vs_text": text / soft}


SLOTS = (1, 8, 64)
QUICK = Lengths(prompt=12, latents=2, answer=3, chain=4)


def fixed_length_thinker(backbone: Backbone, lengths: Lengths) -> Thinker:
    """Return a thinker that never halts early: each thought has exactly as many soft tokens, or written ones."""
    if lengths.written:
        return TextThinker(backbone.embedding, NO_ID, cap=lengths.chain)
    return SoftThinker(backbone.embedding, backbone.end_think_id, halt_threshold=1.0, cap=lengths.latents)


def engine_work(
    backbone: Backbone, lengths: Lengths, slots: int, prompts: Sequence[Prompt]
) -> tuple[Callable[[], Any], float | None]:
    """Build a fast engine with that many slots → what answers all prompts, and peak GB with its construction and a first run."""
    thinker, decoding = fixed_length_thinker(backbone, lengths), Decoding(max_answer_tokens=lengths.answer)
    need = max(len(p.ids) for p in prompts) + lengths.thought + lengths.answer + 2
    options = EngineOptions(columns=-(-need // 64) * 64, release=True)
    with Peak(backbone.device) as peak:
        engine = FastEngine.of(backbone, thinker, decoding, slots, options)
        scheduler = Scheduler(engine)
        scheduler.run_all(prompts)
    return lambda: scheduler.run_all(prompts), peak.gb


def latency(shape: str, device: str, dtype: str, repeats: int = 30, lengths: Lengths | None = None) -> dict[str, Any]:
    """Measure latency at batch size 1."""
    lengths = lengths or Lengths()
    backbone = build(shape, device, getattr(torch, dtype))
    load = Load.of(backbone)
    best = ceilings(device, getattr(torch, dtype), load, quick=lengths == QUICK)
    [prompt] = random_prompts(backbone, [lengths.prompt])
    ids = torch.tensor([[*prompt.ids, backbone.think_id]], device=device)

    def slow() -> None:
        published.ask(backbone, prompt, lengths.latents, lengths.answer, halts=False)

    with Peak(device) as theirs:  # before the engine is built: its buffers would count as their memory
        slow()
    others = {
        "published": slow,
        "hf_cot": lambda: published.hf_generate(backbone, lengths.chain + lengths.answer, input_ids=ids),
    }
    ours, peak = engine_work(backbone, lengths, 1, [prompt])
    text, _ = engine_work(backbone, replace(lengths, written=True), 1, [prompt])
    # on a GPU apart from the others, which leave it idle; a long warm-up until its clocks have risen
    took = interleave(others, device, max(3, repeats // 3))
    took |= interleave({"ours": ours, "text": text}, device, repeats, warm_up=max(2, repeats // 3))
    fast = took["ours"]
    floor = floor_fields(load, best, lengths)
    return {
        **about("latency", shape, device, dtype),
        **lengths.fields(),
        "repeats": fast.count,
        **{key: value for name, one in took.items() for key, value in one.fields(name, "ms").items()},
        **floor,
        **{f"vs_{name}": ratio(took[name].median, fast.median) for name in ("text", "hf_cot", "published")},
        "vs_floor": ratio(fast.median, floor["floor_ms"]),
        "peak_gb": peak,
        "published_peak_gb": theirs.gb,
        "weights_gb": load.total_bytes / 1e9,
        **best.fields(),
    }


def questions_of(on: str, domain: Domain, count: int) -> list[str]:
    """Return the first questions of a benchmark, or that many generated ones."""
    source = SourceConfig.model_validate(on)
    if source.is_generated:
        source = source.model_copy(update={"count": count})
    [found] = open_questions([source], domain, limit=count)
    return [example.question for example in found.examples]


def agreement(
    model: str,
    device: str,
    questions: int = 300,
    slots: Sequence[int] = SLOTS,
    dtypes: Sequence[str] = ("float32", "bfloat16"),
    on: str = "word-problems",
) -> dict[str, Any]:
    """Compare the answers of both engines with a trained model, with the kernels that are timed; one row per data type and slots."""
    rows = []
    for dtype in dtypes:
        for count in slots:
            loaded = load_model(model, device, dtype)  # anew, since the engine merges the adapter
            found = check_agreement(
                loaded.backbone,
                loaded.method.thinker(loaded.backbone),
                [loaded.prompt(question) for question in questions_of(on, loaded.domain, questions)],
                Decoding(),
                count,
                EngineOptions(release=True),
            )
            rows.append({"dtype": dtype, "slots": count, **found})
    exact = [row["same"] for row in rows if row["dtype"] == "float32"]
    return {
        **about("agreement", model, device, ",".join(dtypes)),
        "on": on,
        "allows_tf32": bool(torch.backends.cuda.matmul.allow_tf32),
        "float32_same": min(exact) if exact else None,
        "rows": rows,
    }
