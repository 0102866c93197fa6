"""Prompts → latents → answers: the plain loop, and the definition every faster path must agree with.

One cache from question to answer. Rows move at their own pace: in one forward a row may feed a latent while its
neighbour feeds `</think>` and a third an answer token.

    column      prompt (left-padded) <think>  z_1   z_2  </think>  18   eos
    row 0       · · How many ..      <think>  z_1   z_2  </think>  18   ·
    row 1       Anna has ..          <think>  z_1 </think>  7     ·    ·

Axes: B rows, V vocabulary, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from ruplar.backbone.load import Backbone
from ruplar.engine.halting import check_threshold, own_halt
from ruplar.engine.noise import Noise
from ruplar.engine.sampling import Decoding, Key, pick, uniforms
from ruplar.engine.thinker import Thinker, Thought, check_noise
from ruplar.records import Prompt

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
        latent_logits: One [V] a latent, float32 on the CPU: what it was made from; empty unless kept.
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
        logits = backbone.logits(loop.last)
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
    last: Tensor  # [B, D] hidden state of the newest column
    thinking: Tensor  # [B] bool
    done: Tensor  # [B] bool
    made: Tensor  # [B] latents made
    said: Tensor  # [B] answer tokens made
    noise: Noise | None = None

    @classmethod
    def start(cls, backbone: Backbone, thinker: Thinker, prompts: Sequence[Prompt]) -> _Loop:
        """Prefill: every prompt with its `<think>`, and at once `</think>` for a method that does not think."""
        from transformers import DynamicCache

        opening = [backbone.think_id] if thinker.thinks else [backbone.think_id, backbone.end_think_id]
        different = list(dict.fromkeys(p.ids for p in prompts))
        ids, mask = left_pad([[*given, *opening] for given in different], backbone.pad_id, backbone.device)
        positions = (mask.cumsum(1) - 1).clamp_min(0)
        cache = DynamicCache(config=backbone.plain_model.config)
        hidden, _ = backbone.trunk(backbone.embedding(ids), mask, positions, cache)
        last, position = hidden[:, -1], positions[:, -1] + 1
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

    def think(self, logits: Tensor) -> Thought:
        """The thinker's decision on every row."""
        if self.noise is None:
            return self.thinker.next(logits, self.last, self.made)
        thinker: Any = self.thinker
        return thinker.next(logits, self.last, self.made, self.noise)

    def forward(self, embeds: Tensor) -> None:
        """Feed one column [B, D]; finished rows get a masked one."""
        self.mask = torch.cat([self.mask, (~self.done).long()[:, None]], dim=1)
        hidden, _ = self.backbone.trunk(embeds[:, None], self.mask, self.position[:, None], self.cache)
        self.last = hidden[:, -1]
        self.position = self.position + (~self.done).long()


def _decide(
    loop: _Loop, rows: list[Generation], logits: Tensor, decoding: Decoding, noise: Tensor | None, keep: Keep
) -> Tensor:
    """What every row feeds next [B, D], after noting down what it thought or said."""
    backbone, was_thinking = loop.backbone, loop.thinking.clone()
    embeds = backbone.embedding(torch.full_like(loop.made, backbone.pad_id))
    if bool(was_thinking.any()):
        thought = loop.think(logits)
        if decoding.halt_threshold is not None:
            own = [decoding.halt_threshold] * len(rows)
            thought.halt = own_halt(thought.halt, logits, backbone.end_think_id, own)
        capped = loop.made >= loop.thinker.cap
        goes_on = was_thinking & ~thought.halt & ~capped
        closes = was_thinking & ~goes_on
        embeds = torch.where(goes_on[:, None], thought.embeds, embeds)
        embeds = torch.where(
            closes[:, None], backbone.embedding(torch.full_like(loop.made, backbone.end_think_id)), embeds
        )
        loop.made = loop.made + goes_on.long()
        loop.thinking = goes_on
        _note_thought(rows, thought, goes_on, closes & ~thought.halt, logits, keep)
    says = ~was_thinking & ~loop.done
    if bool(says.any()):
        column = (
            noise[torch.arange(len(rows)), loop.said.cpu().clamp_max(noise.shape[1] - 1)]
            if noise is not None
            else None
        )
        tokens = pick(logits, decoding, column.to(logits.device) if column is not None else None)
        embeds = torch.where(says[:, None], backbone.embedding(tokens), embeds)
        loop.said = loop.said + says.long()
        ends = says & (tokens == backbone.eos_id)
        loop.done = loop.done | ends | (says & (loop.said >= decoding.max_answer_tokens))
        for b in says.nonzero().flatten().tolist():
            rows[b].answer_ids.append(int(tokens[b]))
            rows[b].ended = bool(ends[b])
    return embeds


def _note_thought(
    rows: list[Generation], thought: Thought, goes_on: Tensor, cut: Tensor, logits: Tensor, keep: Keep
) -> None:
    logits = logits if thought.logits is None else thought.logits
    for b in goes_on.nonzero().flatten().tolist():
        rows[b].latent_count += 1
        if thought.tokens is not None:
            rows[b].thought_ids.append(int(thought.tokens[b]))
        if keep == "all":
            rows[b].latent_logits.append(logits[b].cpu())
        if keep != "none":
            rows[b].latent_embeds.append(thought.embeds[b].clone())
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
