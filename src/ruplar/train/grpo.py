"""A trained model whose thoughts can be drawn → the same model, reinforced by whether its answers are right (GRPO).

    round   questions –draw a group of thoughts each→ rewards –within the group→ advantages
            –mini-batches of thoughts→ clipped policy loss –AdamW→ the next round

What is reinforced is every latent and every token of the answer, the `</think>` before it included. There is no value
model and no KL to the model it started from.

Axes: Q questions, G thoughts of each, B thoughts of a mini-batch, M latents, T labels, D width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor

from ruplar.data.collate import collate
from ruplar.engine.reference import Generation, generate
from ruplar.engine.sampling import Decoding
from ruplar.engine.thinker import Thinker
from ruplar.methods._grpo import GrpoConfig
from ruplar.model.backbone import Backbone
from ruplar.model.store import Model
from ruplar.priors.base import rng_of
from ruplar.types import Batch, Example, Item

OnRound = Callable[[int, Mapping[str, float]], None]
"""Called after each round with its number, from 1, and its figures."""

_SUM_UNIT = 32  # what a sum over a thought's terms is divided by, as published


class Policy(Protocol):
    """What a method needs to be reinforced."""

    def explorer(self, backbone: Backbone) -> Thinker:
        """How thoughts are drawn."""

    def policy(self, backbone: Backbone, batch: Batch) -> tuple[Tensor, Tensor]:
        """Log-probabilities of a batch's latents [M], given by `batch.features`, and of its labels [T]."""


@dataclass(frozen=True)
class Drawn:
    """One thought and the answer it led to.

    Attributes:
        item: The sequence as it was; `features` are its latents in units of sigma, labels what the model chose to say.
        reward: What it earned.
        right: Whether its answer is right.
        advantage: Its reward against its group's.
        latents: How many it had.
    """

    item: Item
    reward: float
    right: bool
    advantage: float
    latents: int


def advantages(rewards: Tensor) -> Tensor:
    """Rewards [Q, G] → how much better than its group each is, in standard deviations; 0 where all are alike."""
    spread = rewards.std(1, keepdim=True)
    return (rewards - rewards.mean(1, keepdim=True)) / (spread + 1e-8)


def draw(model: Model, examples: Sequence[Example], config: GrpoConfig, seed: int, number: int) -> list[Drawn]:
    """Ask each question `config.group` times with noise; thoughts of one question stand together."""
    backbone, policy = model.backbone, cast(Policy, model.method)
    prompts = [model.prompt(e.question) for e in examples]
    decoding = Decoding(1.0, seed=seed, max_answer_tokens=config.max_answer_tokens, noise=1.0)
    # a round's streams are its own: place in the round, round and seed name them
    keys = [number * len(examples) * config.group + i for i in range(len(examples) * config.group)]
    repeated = [prompt for prompt in prompts for _ in range(config.group)]
    found = generate(backbone, policy.explorer(backbone), repeated, decoding, keys, keep_latents="embeds")
    right = [_right(model, row, examples[i // config.group]) for i, row in enumerate(found)]
    per_latent = config.reward == "right_per_latent"
    rewards = torch.tensor(
        [hit / (row.latent_count if per_latent else 1) for hit, row in zip(right, found, strict=True)]
    )
    relative = advantages(rewards.view(len(examples), config.group)).flatten().tolist()
    return [
        Drawn(_item(model, prompt, row), reward, hit, advantage, row.latent_count)
        for prompt, row, reward, hit, advantage in zip(repeated, found, rewards.tolist(), right, relative, strict=True)
    ]


def _right(model: Model, row: Generation, example: Example) -> bool:
    ids = row.answer_ids[:-1] if row.ended else row.answer_ids
    found = model.domain.extract(model.backbone.tokenizer.decode(ids))
    return found is not None and model.domain.same(found, example.answer)


def _item(model: Model, prompt: Any, row: Generation) -> Item:
    """[ prompt <think> z .. z </think> answer ], as it was fed; a `</think>` that was forced is no choice of the model's."""
    backbone, start = model.backbone, len(prompt.ids) + 1
    # differs from the paper: D57. Its code rewards a forced end like a chosen one
    closing = backbone.end_think_id if row.halted else -100
    sigma = model.method.config.sigma
    return Item(
        ids=[*prompt.ids, *[backbone.think_id] * (1 + row.latent_count), backbone.end_think_id, *row.answer_ids],
        labels=[*[-100] * (start + row.latent_count), closing, *row.answer_ids],
        latent_at=list(range(start, start + row.latent_count)),
        question_at=prompt.question_at,
        features=[np.asarray((z.float() / sigma).cpu()) for z in row.latent_embeds],
    )


def clipped(new: Tensor, old: Tensor, advantage: Tensor, clip: float) -> Tensor:
    """Log-probabilities now and when drawn, and advantages, [N] each → the loss of each choice [N].

    Once a choice is 1 ± clip times as probable as it was, in the direction its advantage asks for, it is left alone.
    """
    ratio = (new - old).exp()
    return -torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)


def policy_loss(
    new: tuple[Tensor, Tensor], old: tuple[Tensor, Tensor], batch: Batch, advantage: Tensor, config: GrpoConfig
) -> dict[str, Tensor]:
    """Log-probabilities of latents [M] and labels [T] now and then, and each row's advantage [B] → the loss in parts."""
    rows, width = batch.ids.shape
    parts = {}
    for name, at, now, then in (
        ("latent", batch.latent_at, new[0], old[0]),
        ("answer", batch.label_at, new[1], old[1]),
    ):
        row = at // width
        terms = clipped(now, then, advantage[row], config.clip)
        sums = terms.new_zeros(rows).index_add(0, row, terms)
        counts = terms.new_zeros(rows).index_add(0, row, torch.ones_like(terms))
        parts[name] = (sums / (counts.clamp_min(1) if config.average == "token" else _SUM_UNIT)).mean()
    return parts


@dataclass
class Reinforcer:
    """One model under reinforcement; `round` is one round of asking and learning.

    Attributes:
        model: The model; its method is a `Policy`.
        examples: What is asked.
        config: See `GrpoConfig`.
        seed: Names every draw.
        steps: Optimiser steps done.
        tokens: Positions learnt from.
    """

    model: Model
    examples: Sequence[Example]
    config: GrpoConfig
    seed: int = 0
    steps: int = 0
    tokens: int = 0

    def __post_init__(self):
        modules = [self.model.backbone.model, *self.model.method.modules().values()]
        for module in modules:
            module.eval()  # dropout would make a choice seem less probable than it was when drawn
        self.trained = [w for module in modules for w in module.parameters() if w.requires_grad]
        self.optimizer = torch.optim.AdamW(
            self.trained, lr=self.config.learning_rate, weight_decay=self.config.weight_decay
        )

    def round(self, number: int) -> dict[str, float]:
        """Ask, judge, learn → the round's figures, those of the thoughts as they were drawn."""
        c, rng = self.config, rng_of("grpo", self.seed, number)
        asked = [self.examples[int(i)] for i in rng.integers(len(self.examples), size=c.questions)]
        drawn = draw(self.model, asked, c, self.seed, number)
        figures = {
            "reward": sum(d.reward for d in drawn) / len(drawn),
            "accuracy": sum(d.right for d in drawn) / len(drawn),
            "latents": sum(d.latents for d in drawn) / len(drawn),
        }
        # differs from the paper: D57. A group that is all right or all wrong has advantages of 0 and is left out
        kept = [d for d in drawn if d.advantage != 0]
        order = rng.permutation(len(kept))
        batches = [[kept[i] for i in order[at : at + c.rows]] for at in range(0, len(kept), c.rows)]
        old = [self._log_probs(batch) for batch in batches]  # of all of them, before the first step
        losses = [self._learn(batch, then) for batch, then in zip(batches, old, strict=True)]
        for name in ("latent", "answer"):
            figures[name] = sum(loss[name] for loss in losses) / max(len(losses), 1)
        return {"loss": figures["latent"] + figures["answer"], **figures}

    @torch.no_grad()
    def _log_probs(self, drawn: Sequence[Drawn]) -> tuple[Tensor, Tensor]:
        return cast(Policy, self.model.method).policy(self.model.backbone, self._batch(drawn))

    def _batch(self, drawn: Sequence[Drawn]) -> Batch:
        backbone = self.model.backbone
        return collate([d.item for d in drawn], backbone.pad_id).to(backbone.device)

    def _learn(self, drawn: Sequence[Drawn], old: tuple[Tensor, Tensor]) -> dict[str, float]:
        backbone, batch = self.model.backbone, self._batch(drawn)
        advantage = torch.tensor([d.advantage for d in drawn], device=backbone.device)
        new = cast(Policy, self.model.method).policy(backbone, batch)
        parts = policy_loss(new, old, batch, advantage, self.config)
        self.optimizer.zero_grad()
        sum(parts.values()).backward()  # type: ignore[union-attr]
        torch.nn.utils.clip_grad_norm_(self.trained, self.config.max_grad_norm, error_if_nonfinite=True)
        self.optimizer.step()
        self.steps, self.tokens = self.steps + 1, self.tokens + sum(len(d.item.ids) for d in drawn)
        return {name: float(value.detach()) for name, value in parts.items()}
