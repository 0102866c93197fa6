"""Fast and reference engine on the same prompts → how far they agree.

In float32 every token must agree. In bfloat16 rounding can decide a near tie either way and so change an answer; there the
share of equal answers and the largest difference of logits on equal inputs are the measures.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ruplar.engine.decoder import SlotDecoder
from ruplar.engine.fast import FastEngine
from ruplar.engine.options import EngineOptions
from ruplar.engine.reference import Generation, generate
from ruplar.engine.sampling import Decoding
from ruplar.engine.scheduler import Scheduler
from ruplar.engine.thinker import Thinker
from ruplar.model.backbone import Backbone
from ruplar.types import Prompt


def check_agreement(
    backbone: Backbone,
    thinker: Thinker,
    prompts: Sequence[Prompt],
    decoding: Decoding | None = None,
    slots: int = 16,
    options: EngineOptions | None = None,
) -> dict[str, Any]:
    """Answer the prompts with both engines and compare: shares of equal answers, latents and tokens; difference of logits."""
    decoding = decoding or Decoding()
    wanted: list[Generation] = []
    for start in range(0, len(prompts), 64):
        some = list(range(start, min(start + 64, len(prompts))))
        wanted += generate(backbone, thinker, [prompts[i] for i in some], decoding, some)
    engine = FastEngine.of(backbone, thinker, decoding, slots, options)
    found = Scheduler(engine).run_all(prompts)
    pairs = list(zip(found, wanted, strict=True))
    tokens = [a == b for f, w in pairs for a, b in zip(f.answer_ids, w.answer_ids, strict=False)]
    total = sum(max(len(f.answer_ids), len(w.answer_ids)) for f, w in pairs)
    largest, relative = logit_difference(engine.decoder, backbone, prompts[:16])
    return {
        "questions": len(pairs),
        "same": _share([_same(f, w) for f, w in pairs]),
        "same_latents": _share([f.latent_count == w.latent_count for f, w in pairs]),
        "same_tokens": sum(tokens) / total if total else 1.0,
        "largest_logit_difference": largest,
        "relative_logit_difference": relative,
        "decoder": type(engine.decoder).__name__,
        "kernels": getattr(engine.decoder, "small_batch", None) is not None,
    }


@torch.inference_mode()
def logit_difference(decoder: SlotDecoder, backbone: Backbone, prompts: Sequence[Prompt]) -> tuple[float, float]:
    """Largest and relative difference of logits on equal tokens, in one slot; discards the cache.

    The decoder prefills each prompt but its last eight tokens, which it decodes one by one; the model reads all at once.
    """
    longest = max(len(p.ids) for p in prompts)
    decoder.allocate(1, longest)
    ours: list[Tensor] = []
    theirs: list[Tensor] = []
    for prompt in prompts:
        ids = torch.tensor([prompt.ids], device=decoder.device)
        size = ids.shape[1]
        first = max(1, size - 8)
        positions = torch.arange(size, device=decoder.device)
        length = torch.tensor([first], device=decoder.device)
        ours.append(decoder.logits(decoder.prefill(decoder.embed(ids[:, :first]), length, slice(0, 1))))
        for at in range(first, size):
            ours.append(decoder.logits(decoder.step(decoder.embed(ids[:, at]), positions[at : at + 1], at + 1)))
        hidden, _ = backbone.trunk(backbone.embedding(ids), None, positions[None])
        theirs.append(backbone.logits(hidden[0, first - 1 :]))
    found, wanted = torch.cat(ours), torch.cat(theirs)
    return float((found - wanted).abs().max()), float((found - wanted).norm() / wanted.norm())


def _same(a: Generation, b: Generation) -> bool:
    names = ("answer_ids", "thought_ids", "latent_count", "forwards", "halted", "ended")
    return all(getattr(a, name) == getattr(b, name) for name in names)


def _share(hits: Sequence[bool]) -> float:
    return sum(hits) / len(hits) if hits else 1.0
