"""Prompts, thinkers and schedulers for the engine tests, on random models whose rows halt and end at different steps."""

import random
from dataclasses import dataclass
from types import SimpleNamespace

import torch

from ruplar.engine.reference import left_pad
from ruplar.engine.scheduler import Scheduler
from ruplar.engine.thinker import SoftThinker
from ruplar.model.backbone import Backbone
from ruplar.types import Markers, Prompt

VOCAB, PAD, EOS, THINK, END_THINK = 60, 0, 1, 2, 3
FAMILIES = ["llama", "qwen2", "qwen3", "gpt2"]


def many_prompts(count: int, seed: int = 0) -> list[Prompt]:
    """Prompts of 1 to 24 random tokens, none of them a marker."""
    draw = random.Random(seed)
    return [Prompt(tuple(draw.randrange(4, VOCAB) for _ in range(draw.randint(1, 24))), 0) for _ in range(count)]


def backbone_of(model) -> Backbone:
    """A backbone without a tokenizer; prompts are ids."""
    with torch.no_grad():
        model.get_output_embeddings().weight[EOS] *= 2.5  # so that answers end at different lengths
    nothing = SimpleNamespace()
    return Backbone(model, nothing, nothing, Markers(THINK, END_THINK, EOS), PAD)


@dataclass
class HashedThinker(SoftThinker):
    """Soft tokens that halt by which of some tokens is most likely: a thinker the engine does not know."""

    def next(self, logits, hidden, made):
        decision = super().next(logits, hidden, made)
        decision.halt = logits[:, 10:40].argmax(1) % 3 == 0  # not sensitive to rounding
        return decision


def threshold_for(backbone: Backbone) -> float:
    """A P(halt) that about a third of random prompts exceed, so that thoughts end at different steps."""
    ids, mask = left_pad([[*prompt.ids, THINK] for prompt in many_prompts(40, seed=9)], PAD, "cpu")
    with torch.inference_mode():
        hidden, _ = backbone.trunk(backbone.embedding(ids), mask, (mask.cumsum(1) - 1).clamp_min(0))
        found = backbone.logits(hidden[:, -1]).softmax(-1)[:, END_THINK].tolist()
    return sorted(found)[len(found) * 2 // 3]


def soft(backbone: Backbone, **options) -> SoftThinker:
    """Soft tokens with thoughts of different lengths, up to 5."""
    options = {"halt_threshold": threshold_for(backbone), "cap": 5} | options
    return SoftThinker(backbone.embedding, backbone.end_think_id, **options)


def finish(scheduler: Scheduler) -> None:
    """Run rounds until every question is answered."""
    while scheduler.queue or scheduler.in_flight:
        scheduler.turn()


def submit(scheduler: Scheduler, prompt: Prompt, key=0, decoding=None, listen=None):
    """Queue one sample of a question."""
    return scheduler.submit_samples(prompt, [key], decoding, [listen])[0]
