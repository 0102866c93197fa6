"""Prompts → latents → answers: the reference engine, which every faster path must agree with.

One KV cache from question to answer. Rows advance independently: in one forward pass a row may feed a latent while
another feeds `</think>` and a third an answer token.

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

from ruplar.engine.sampling import Decoding, Key, Noise, pick, uniforms
from ruplar.engine.thinker import NextInput, Thinker, check_decoding, override_halt
from ruplar.model.backbone import Backbone
from ruplar.types import Prompt

Keep = Literal["none", "readable", "embeds", "all"]
"""What to return of each latent: nothing, what makes it readable without noise (the hidden state it was made from), its
embedding, or its embedding and the logits it was made from (V-sized)."""


@dataclass
class Generation:
    """What one row produced, in ids and tensors; `reasoner` turns it into an `Answer`."""

    # tokens after the thought, including the end token if it was generated
    answer_ids: list[int] = field(default_factory=list)
    thought_ids: list[int] = field(default_factory=list)  # tokens of written reasoning
    latent_count: int = 0  # latents (or reasoning tokens) fed
    forwards: int = 1  # forward passes this row took part in, prefill included
    halted: bool = True  # the thought ended by itself, not at the cap
    ended: bool = False  # the answer ended by itself, not at the limit
    # one [V] float32 per latent: what it was made from; empty unless requested
    latent_logits: list[Tensor] = field(default_factory=list)
    # one [D] per latent: the latent itself; empty unless requested
    latent_embeds: list[Tensor] = field(default_factory=list)
    latent_hidden: Tensor | None = None  # [N, D] hidden states that the latents were made from; None unless requested


@torch.no_grad()
def generate(
    backbone: Backbone,
    thinker: Thinker,
    prompts: Sequence[Prompt],
    decoding: Decoding,
    keys: Sequence[Key] | None = None,
    keep_latents: Keep = "none",
) -> list[Generation]:
    """Think and answer for a batch of prompts; equal prompts, such as samples of one question, share a prefill.

    `keys` name each row's random stream; None: its index in the batch.
    """
    check_decoding(thinker, decoding)
    if not prompts:
        return []
    rows = [Generation() for _ in prompts]
    keys = keys if keys is not None else range(len(prompts))
    answer_noise = uniforms(decoding, keys)
    batch = _Batch.prefill(backbone, thinker, prompts)
    batch.noise = Noise.of([decoding] * len(prompts), keys, backbone.device)
    while not bool(batch.done.all()):
        embeds = _decide(batch, rows, backbone.logits(batch.last), decoding, answer_noise, keep_latents)
        if bool(batch.done.all()):
            break
        batch.forward(embeds)
        for row, done in zip(rows, batch.done.tolist(), strict=True):
            row.forwards += not done
    return rows


@dataclass
class _Batch:
    """State of all rows: cache, mask, and which rows still think or answer."""

    backbone: Backbone
    thinker: Thinker
    cache: Any
    mask: Tensor  # [B, columns so far]
    position: Tensor  # [B] next position id
    last: Tensor  # [B, D] last hidden state
    thinking: Tensor  # [B] bool
    done: Tensor  # [B] bool
    made: Tensor  # [B] latents so far
    said: Tensor  # [B] answer tokens so far
    noise: Noise | None = None

    @classmethod
    def prefill(cls, backbone: Backbone, thinker: Thinker, prompts: Sequence[Prompt]) -> _Batch:
        """Prefill every prompt with `<think>`, and with `</think>` for a method that does not think."""
        from transformers import DynamicCache

        opening = [backbone.think_id] if thinker.thinks else [backbone.think_id, backbone.end_think_id]
        unique = list(dict.fromkeys(p.ids for p in prompts))
        ids, mask = left_pad([[*prompt, *opening] for prompt in unique], backbone.pad_id, backbone.device)
        positions = (mask.cumsum(1) - 1).clamp_min(0)
        cache = DynamicCache(config=backbone.plain_model.config)
        hidden, _ = backbone.trunk(backbone.embedding(ids), mask, positions, cache)
        last, position = hidden[:, -1], positions[:, -1] + 1
        if len(unique) < len(prompts):  # from here on every sample of a question has a row of its own
            row_of = {prompt: row for row, prompt in enumerate(unique)}
            index = torch.tensor([row_of[p.ids] for p in prompts], device=backbone.device)
            cache.batch_select_indices(index)
            mask, last, position = mask[index], last[index], position[index]
        count = torch.zeros(len(prompts), dtype=torch.long, device=backbone.device)
        thinking = torch.full_like(count, thinker.thinks, dtype=torch.bool)
        return cls(
            backbone, thinker, cache, mask, position, last, thinking,
            torch.zeros_like(thinking), count, count.clone(),
        )  # fmt: skip

    def think(self, logits: Tensor) -> NextInput:
        thinker: Any = self.thinker
        noise = () if self.noise is None else (self.noise,)
        return thinker.next(logits, self.last, self.made, *noise)

    def forward(self, embeds: Tensor) -> None:
        """Feed every row one embedding [B, D]; finished rows are masked."""
        active = (~self.done).long()
        self.mask = torch.cat([self.mask, active[:, None]], dim=1)
        hidden, _ = self.backbone.trunk(embeds[:, None], self.mask, self.position[:, None], self.cache)
        self.last = hidden[:, -1]
        self.position = self.position + active


def _decide(
    batch: _Batch, rows: list[Generation], logits: Tensor, decoding: Decoding, noise: Tensor | None, keep: Keep
) -> Tensor:
    """Record the latent or token that the logits [B, V] give each row → what every row feeds next [B, D]."""
    backbone, was_thinking = batch.backbone, batch.thinking.clone()
    embeds = backbone.embedding(torch.full_like(batch.made, backbone.pad_id))
    if bool(was_thinking.any()):
        decision = batch.think(logits)
        halt = decision.halt
        if decoding.halt_threshold is not None:
            halt = override_halt(halt, logits, backbone.end_think_id, [decoding.halt_threshold] * len(rows))
        continues = was_thinking & ~halt & (batch.made < batch.thinker.cap)
        closes = was_thinking & ~continues
        embeds = torch.where(continues[:, None], decision.embeds, embeds)
        end_think = backbone.embedding(torch.full_like(batch.made, backbone.end_think_id))
        embeds = torch.where(closes[:, None], end_think, embeds)
        batch.made = batch.made + continues.long()
        batch.thinking = continues
        if keep == "readable":
            for row in continues.nonzero().flatten().tolist():
                so_far = [] if rows[row].latent_hidden is None else [rows[row].latent_hidden]
                rows[row].latent_hidden = torch.cat([*so_far, batch.last[row][None]])
        _record_latents(rows, decision, continues, closes & ~halt, logits, keep)
    answers = ~was_thinking & ~batch.done
    if bool(answers.any()):
        tokens = pick(logits, decoding.temperature, decoding.top_p, _uniform_of(noise, batch.said, logits.device))
        embeds = torch.where(answers[:, None], backbone.embedding(tokens), embeds)
        batch.said = batch.said + answers.long()
        ends = answers & (tokens == backbone.eos_id)
        batch.done = batch.done | ends | (answers & (batch.said >= decoding.max_answer_tokens))
        # each read waits for the device, so a column is read at once
        for row, active, token, ended in zip(rows, answers.tolist(), tokens.tolist(), ends.tolist(), strict=True):
            if active:
                row.answer_ids.append(token)
                row.ended = ended
    return embeds


def _uniform_of(noise: Tensor | None, said: Tensor, device: torch.device) -> Tensor | None:
    """[B] the uniform number of each row's next answer token; None when greedy."""
    if noise is None:
        return None
    return noise[torch.arange(len(said)), said.cpu().clamp_max(noise.shape[1] - 1)].to(device)


def _record_latents(
    rows: list[Generation], decision: NextInput, continues: Tensor, capped: Tensor, logits: Tensor, keep: Keep
) -> None:
    logits = logits if decision.logits is None else decision.logits
    at = continues.nonzero().flatten()
    tokens = None if decision.tokens is None else decision.tokens[at].tolist()
    latent_logits = logits[at] if keep == "all" else None
    latent_embeds = decision.embeds[at] if keep in ("all", "embeds") else None
    for i, row in enumerate(at.tolist()):
        rows[row].latent_count += 1
        if tokens is not None:
            rows[row].thought_ids.append(tokens[i])
        if latent_logits is not None:
            rows[row].latent_logits.append(latent_logits[i])
        if latent_embeds is not None:
            rows[row].latent_embeds.append(latent_embeds[i])
    for row in capped.nonzero().flatten().tolist():
        rows[row].halted = False


def left_pad(sequences: Sequence[Sequence[int]], pad_id: int, device) -> tuple[Tensor, Tensor]:
    """Ragged ids → ids and mask, both [B, longest], padded on the left."""
    width = max(len(s) for s in sequences)
    ids = torch.full((len(sequences), width), pad_id, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, sequence in enumerate(sequences):
        ids[row, width - len(sequence) :] = torch.tensor(sequence, dtype=torch.long)
        mask[row, width - len(sequence) :] = 1
    return ids.to(device), mask.to(device)
