"""Prompts, and what makes the rows of a random model part ways: shared by the tests of the fast engine."""

from __future__ import annotations

import random
from dataclasses import dataclass
from types import SimpleNamespace

import torch

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
    """A model without a tokenizer; its prompts are ids."""
    with torch.no_grad():
        model.get_output_embeddings().weight[EOS] *= 2.5  # so that answers end at different lengths
    nothing = SimpleNamespace()
    return Backbone(model, nothing, nothing, Markers(THINK, END_THINK, EOS), PAD)


@dataclass
class HashedThinker(SoftThinker):
    """Soft tokens that halt by which of some tokens is likeliest: any number of latents, the same whoever is beside."""

    def next(self, logits, hidden, made):
        thought = super().next(logits, hidden, made)
        thought.halt = logits[:, 10:40].argmax(1) % 3 == 0  # rounding decides nothing, unless two are equal
        return thought


def threshold_for(backbone: Backbone) -> float:
    """The median P(halt) after random prompts: about half of the thoughts end at each step."""
    prompts = many_prompts(40, seed=9)
    found = []
    with torch.inference_mode():
        for prompt in prompts:
            ids = torch.tensor([[*prompt.ids, THINK]])
            hidden, _ = backbone.trunk(backbone.embedding(ids), None, torch.arange(ids.shape[1])[None])
            found.append(float(backbone.logits(hidden[:, -1]).softmax(-1)[0, END_THINK]))
    return sorted(found)[len(found) * 2 // 3]
