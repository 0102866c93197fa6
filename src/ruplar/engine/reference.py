"""Prompts → latents → answers: the plain loop, and the definition every faster path must agree with.

One cache from question to answer. Rows move at their own pace: in one forward a row may feed a latent while its
neighbour feeds `</think>` and a third an answer token.

    column      prompt (left-padded) <think>  z_1   z_2  </think>  18   eos
    row 0       · · How many ..      <think>  z_1   z_2  </think>  18   ·
    row 1       Anna has ..          <think>  z_1 </think>  7     ·    ·

Where a forward makes a block of W latents, it takes 2 W - 1 columns of a row that thinks, and one of any other:

    row 0       · · How many ..      <think> a  z_1 z_2 a  </think>  18  ·
    row 1       Anna has ..          <think> a  </think> · ·  7  eos  ·

Axes: B rows, W latents of a block, V vocabulary, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from ruplar.engine.halting import check_threshold, own_halt
from ruplar.engine.noise import Noise
from ruplar.engine.sampling import Decoding, Key, pick, uniforms
from ruplar.engine.thinker import Thinker, Thought, asking_of, check_noise
from ruplar.model.backbone import Backbone
from ruplar.types import Prompt

Keep = Literal["none", "embeds", "all"]
"""What is kept of each latent: nothing; its embedding, to be fed again; or also the logits it was made from (V-sized)."""


@dataclass
class Generation:
    """What one row produced, in ids and tensors; `reasoner` turns it into an `Answer`.

    Attributes:
        answer_ids: Tokens after the thought, the end token included when it came.
        thought_ids: Tokens of a written thought.
        latent_count: Latents (or thought tokens) fed.
        forwards: Model calls in which this row took part, the prefill included.
        halted: The thought ended by itself, not at the cap.
        ended: The answer ended by itself, not at the limit.
        latent_logits: One [V] a latent, float32: what it was made from; empty unless kept.
        latent_embeds: One [D] a latent: the soft token itself; empty unless kept.
    """

    answer_ids: list[int] = field(default_factory=list)
    thought_ids: list[int] = field(default_factory=list)
    latent_count: int = 0
    forwards: int = 1
    halted: bool = True
    ended: bool = False
    latent_logits: list[Tensor] = field(default_factory=list)
    latent_embeds: list[Tensor] = field(default_factory=list)


@torch.no_grad()
def generate(
    backbone: Backbone,
    thinker: Thinker,
    prompts: Sequence[Prompt],
    decoding: Decoding,
    keys: Sequence[Key] | None = None,
    keep_latents: Keep = "none",
) -> list[Generation]:
    """Think and answer for a batch of prompts.

    Args:
        backbone: The model, in eval mode.
        thinker: How the method thinks.
        prompts: One per row. Rows with the same prompt, such as several samples of one question, share its prefill.
        decoding: How the answer is decoded, and how much noise the thought has.
        keys: Names each row's random stream; its place in the batch when None.
        keep_latents: What to keep of every latent; see `Keep`.

    Raises:
        UserError: Noise is asked for, but the thinker does not draw.
    """
    check_noise(thinker, decoding)
    check_threshold(thinker, decoding)
    if not prompts:
        return []
    rows = [Generation() for _ in prompts]
    keys = keys if keys is not None else range(len(prompts))
    noise = uniforms(decoding, keys)
    loop = _Loop.start(backbone, thinker, prompts)
    loop.noise = Noise.of([decoding] * len(prompts), keys, backbone.device)
    while not bool(loop.done.all()):
        logits = backbone.logits(loop.last.flatten(0, 1)).unflatten(0, loop.last.shape[:2])
        embeds = _decide(loop, rows, logits, decoding, noise, keep_latents)
        if bool(loop.done.all()):
            break
        loop.forward(embeds)
        for row, done in zip(rows, loop.done.tolist(), strict=True):
            row.forwards += not done
    return rows


@dataclass
class _Loop:
    """Where every row stands: the cache, the mask, and who is still thinking."""

    backbone: Backbone
    thinker: Thinker
    cache: Any
    mask: Tensor  # [B, columns so far]
    position: Tensor  # [B] next position id
    last: Tensor  # [B, W, D] hidden states that make the next block; of an answer's next token, the first
    thinking: Tensor  # [B] bool
    done: Tensor  # [B] bool
    made: Tensor  # [B] latents made
    said: Tensor  # [B] answer tokens made
    noise: Noise | None = None

    @classmethod
    def start(cls, backbone: Backbone, thinker: Thinker, prompts: Sequence[Prompt]) -> _Loop:
        """Prefill: every prompt with its `<think>`, and at once `</think>` for a method that does not think."""
        from transformers import DynamicCache

        asking = asking_of(thinker)
        opening = [backbone.think_id, *asking, *([] if thinker.thinks else [backbone.end_think_id])]
        different = list(dict.fromkeys(p.ids for p in prompts))
        ids, mask = left_pad([[*given, *opening] for given in different], backbone.pad_id, backbone.device)
        positions = (mask.cumsum(1) - 1).clamp_min(0)
        cache = DynamicCache(config=backbone.plain_model.config)
        hidden, _ = backbone.trunk(backbone.embedding(ids), mask, positions, cache)
        last, position = hidden[:, -1 - len(asking) if thinker.thinks else -1 :], positions[:, -1] + 1
        if len(different) < len(prompts):  # from here on every sample of a question has a row of its own
            place = {given: row for row, given in enumerate(different)}
            index = torch.tensor([place[p.ids] for p in prompts], device=backbone.device)
            cache.batch_select_indices(index)
            mask, last, position = mask[index], last[index], position[index]
        count = torch.zeros(len(prompts), dtype=torch.long, device=backbone.device)
        thinking = torch.full_like(count, thinker.thinks, dtype=torch.bool)
        return cls(
            backbone, thinker, cache, mask, position, last, thinking,
            torch.zeros_like(thinking), count, count.clone(),
        )  # fmt: skip

    def think(self, logits: Tensor) -> list[Thought]:
        """The thinker's decision on every row, once for each latent of the block."""
        given = () if self.noise is None else (self.noise,)
        thinker: Any = self.thinker
        return [thinker.next(logits[:, i], self.last[:, i], self.made + i, *given) for i in range(logits.shape[1])]

    def forward(self, embeds: Tensor) -> None:
        """Feed every row one block [B, W, D], or what comes first of it where a row does not think; others are masked."""
        wide, on, thinking = embeds.shape[1], (~self.done).long(), self.thinking.long()
        if wide > 1 and not bool(self.thinking.any()):
            wide = 1
        asking = torch.tensor(asking_of(self.thinker)[: wide - 1], dtype=torch.long, device=on.device)
        asked = self.backbone.embedding(asking)
        embeds = torch.cat([embeds[:, :wide], asked.to(embeds).expand(len(embeds), -1, -1)], dim=1)
        more = thinking[:, None].expand(-1, embeds.shape[1] - 1)
        self.mask = torch.cat([self.mask, on[:, None], more], dim=1)
        positions = self.position[:, None] + torch.arange(embeds.shape[1], device=on.device) * thinking[:, None]
        hidden, _ = self.backbone.trunk(embeds, self.mask, positions, self.cache)
        self.last = torch.where(self.thinking[:, None, None], hidden[:, wide - 1 :], hidden[:, :1])
        self.position = self.position + on + thinking * (embeds.shape[1] - 1)


def _decide(
    loop: _Loop, rows: list[Generation], logits: Tensor, decoding: Decoding, noise: Tensor | None, keep: Keep
) -> Tensor:
    """What every row feeds next [B, W, D], W logits a row [B, W, V] given, after noting down what it thought or said."""
    backbone, was_thinking = loop.backbone, loop.thinking.clone()
    embeds = backbone.embedding(torch.full_like(loop.made, backbone.pad_id))[:, None].expand(-1, logits.shape[1], -1)
    if bool(was_thinking.any()):
        block = loop.think(logits)
        halt = block[0].halt
        if decoding.halt_threshold is not None:
            own = [decoding.halt_threshold] * len(rows)
            halt = own_halt(halt, logits[:, 0], backbone.end_think_id, own)
        capped = loop.made + len(block) > loop.thinker.cap
        goes_on = was_thinking & ~halt & ~capped
        closes = was_thinking & ~goes_on
        made = torch.stack([thought.embeds for thought in block], dim=1)
        embeds = torch.where(goes_on[:, None, None], made, embeds)
        ending = backbone.embedding(torch.full_like(loop.made, backbone.end_think_id))
        embeds = torch.where(closes[:, None, None], ending[:, None], embeds)
        loop.made = loop.made + goes_on.long() * len(block)
        loop.thinking = goes_on
        for i, thought in enumerate(block):
            _note_thought(rows, thought, goes_on, closes & ~halt, logits[:, i], keep)
    says = ~was_thinking & ~loop.done
    if bool(says.any()):
        column = (
            noise[torch.arange(len(rows)), loop.said.cpu().clamp_max(noise.shape[1] - 1)]
            if noise is not None
            else None
        )
        tokens = pick(logits[:, 0], decoding, column.to(logits.device) if column is not None else None)
        embeds = torch.where(says[:, None, None], backbone.embedding(tokens)[:, None], embeds)
        loop.said = loop.said + says.long()
        ends = says & (tokens == backbone.eos_id)
        loop.done = loop.done | ends | (says & (loop.said >= decoding.max_answer_tokens))
        # each reading waits for the device, so a column is read at once
        for row, talks, token, over in zip(rows, says.tolist(), tokens.tolist(), ends.tolist(), strict=True):
            if talks:
                row.answer_ids.append(token)
                row.ended = over
    return embeds


def _note_thought(
    rows: list[Generation], thought: Thought, goes_on: Tensor, cut: Tensor, logits: Tensor, keep: Keep
) -> None:
    logits = logits if thought.logits is None else thought.logits
    on = goes_on.nonzero().flatten()
    tokens = None if thought.tokens is None else thought.tokens[on].tolist()
    kept_logits = logits[on] if keep == "all" else None
    kept_embeds = thought.embeds[on] if keep != "none" else None
    for at, b in enumerate(on.tolist()):
        rows[b].latent_count += 1
        if tokens is not None:
            rows[b].thought_ids.append(tokens[at])
        if kept_logits is not None:
            rows[b].latent_logits.append(kept_logits[at])
        if kept_embeds is not None:
            rows[b].latent_embeds.append(kept_embeds[at])
    for b in cut.nonzero().flatten().tolist():
        rows[b].halted = False


def left_pad(sequences: Sequence[Sequence[int]], pad_id: int, device) -> tuple[Tensor, Tensor]:
    """Ragged ids → ids and mask, both [B, longest], flush right."""
    width = max(len(s) for s in sequences)
    ids = torch.full((len(sequences), width), pad_id, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, sequence in enumerate(sequences):
        ids[row, width - len(sequence) :] = torch.tensor(sequence, dtype=torch.long)
        mask[row, width - len(sequence) :] = 1
    return ids.to(device), mask.to(device)
