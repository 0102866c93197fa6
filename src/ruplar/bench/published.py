"""The published procedure, written from its description: the baseline of the benchmarks.

Never used to train or answer; only timed, and tested to compute the same as ours on the same input.

    training   soft tokens by a product of dense priors with the embedding; logits of every position; loops over samples
    thinking   batch size 1, eager, with all hidden states; softmax(logits) @ E over the whole vocabulary
    answering  the KV cache of the thought is discarded; prompt, latents and `</think>` are prefilled again

Axes: B rows, S positions, N latents of a row, V vocabulary, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from ruplar.model.backbone import Backbone
from ruplar.types import Item, Prompt


@dataclass
class DenseBatch:
    """A padded batch in the published format: ids, mask and labels are [B, S].

    `latents` has start and end (exclusive) of each row's latents, `priors` one [N, V] per row.
    """

    ids: Tensor
    mask: Tensor
    labels: Tensor
    latents: list[tuple[int, int]]
    priors: list[Tensor]
    question_at: list[int]

    def to(self, device: torch.device | str) -> DenseBatch:
        """Return the batch on another device, including its priors."""
        tensors = {name: getattr(self, name).to(device) for name in ("ids", "mask", "labels")}
        return replace(self, **tensors, priors=[prior.to(device) for prior in self.priors])


def dense_batch(items: Sequence[Item], pad_id: int, vocabulary: int, dtype: torch.dtype) -> DenseBatch:
    """Collate items into the published format."""
    width = max(len(item.ids) for item in items)
    shape = (len(items), width)
    ids, labels = torch.full(shape, pad_id), torch.full(shape, -100)
    mask = torch.zeros(shape, dtype=torch.long)
    latents, priors = [], []
    for row, item in enumerate(items):
        end = len(item.ids)
        ids[row, :end], labels[row, :end] = torch.tensor(item.ids), torch.tensor(item.labels)
        mask[row, :end] = 1
        start = item.latent_at[0] if item.latent_at else end
        latents.append((start, start + len(item.latent_at)))
        dense = torch.zeros(len(item.priors), vocabulary)
        for at, prior in enumerate(item.priors):
            dense[at, torch.from_numpy(prior.ids)] = torch.from_numpy(prior.probs)
        priors.append(dense.to(dtype))
    return DenseBatch(ids, mask, labels, latents, priors, [item.question_at for item in items])


def training_loss(backbone: Backbone, batch: DenseBatch, threshold: float = 0.01) -> Tensor:
    """Answer cross-entropy + focused KL to the prior + alignment, as published, with all weights 1."""
    model = backbone.model
    table = backbone.embedding_weight.detach()
    embeds = backbone.embedding(batch.ids).detach().clone()
    for row, (start, end) in enumerate(batch.latents):
        if end > start:
            embeds[row, start:end] = (batch.priors[row].to(table.dtype) @ table).to(embeds.dtype)
    # logits of every position, hidden states of every layer
    out = model(inputs_embeds=embeds, attention_mask=batch.mask, output_hidden_states=True, use_cache=False)
    logits = out.logits.float()  # [B, S, V]
    answer = F.cross_entropy(logits[:, :-1].flatten(0, 1), batch.labels[:, 1:].flatten(), ignore_index=-100)
    prior, align = _per_sample(logits, out.hidden_states[-1], batch, threshold)
    for part in (answer, prior, align, answer + prior + align):
        part.item()  # four device synchronisations per step, for logging
    return answer + prior + align


def _per_sample(logits: Tensor, hidden: Tensor, batch: DenseBatch, threshold: float) -> tuple[Tensor, Tensor]:
    kls, aligns = [], []
    for row, (start, end) in enumerate(batch.latents):
        if end == start:
            continue
        target = batch.priors[row].float()
        target = target / target.sum(-1, keepdim=True)  # [N, V]
        log_model = F.log_softmax(logits[row, start - 1 : end - 1], dim=-1)
        terms = target * (target.clamp_min(1e-30).log() - log_model)
        kls.append((terms * (target > threshold)).sum(-1).mean())
        question = F.log_softmax(hidden[row, batch.question_at[row]].float(), dim=-1)
        total = logits.new_zeros(())
        for at in range(start, end):
            thought = F.log_softmax(hidden[row, at].float(), dim=-1)
            total = total + (question.exp() * (question - thought)).sum()
        aligns.append(total / (end - start))
    if not kls:
        return logits.new_zeros(()), logits.new_zeros(())
    return torch.stack(kls).mean(), torch.stack(aligns).mean()


@torch.no_grad()
def ask(
    backbone: Backbone, prompt: Prompt, max_latents: int, answer_tokens: int, halts: bool = True
) -> tuple[list[Tensor], list[int]]:
    """Answer one question; return its latents, [D] each, and the answer ids; without `halts` the thought is never cut short."""
    model, table = backbone.plain_model, backbone.embedding_weight
    ids = torch.tensor([[*prompt.ids, backbone.think_id]], device=table.device)
    out = model(input_ids=ids, use_cache=True, output_hidden_states=True)
    latents: list[Tensor] = []
    while True:
        probs = torch.softmax(out.logits[:, -1], dim=-1)
        over = int(probs.argmax(-1).item()) == backbone.end_think_id
        if (over and halts) or len(latents) == max_latents:
            break
        latents.append(probs.to(table.dtype) @ table)  # [1, D]
        out = model(
            inputs_embeds=latents[-1][:, None],
            past_key_values=out.past_key_values,
            use_cache=True,
            output_hidden_states=True,
        )
    end = torch.tensor([[backbone.end_think_id]], device=table.device)
    # [ prompt <think> | z z z | </think> ] prefilled again without a cache
    whole = torch.cat([backbone.embedding(ids), *(z[:, None] for z in latents), backbone.embedding(end)], dim=1)
    written = hf_generate(backbone, answer_tokens, inputs_embeds=whole)
    return [z[0] for z in latents], written


@torch.no_grad()
def hf_generate(backbone: Backbone, tokens: int, **inputs: Tensor) -> list[int]:
    """Return the first row's greedy tokens of Hugging Face's `generate` after `input_ids` or `inputs_embeds`.

    Without an `attention_mask` every position is read.
    """
    [(name, given)] = ((name, value) for name, value in inputs.items() if name != "attention_mask")
    ends = {"eos_token_id": backbone.eos_id} if backbone.eos_id >= 0 else {}
    inputs.setdefault("attention_mask", torch.ones(given.shape[:2], dtype=torch.long, device=given.device))
    out = backbone.plain_model.generate(
        **inputs, max_new_tokens=tokens, do_sample=False, pad_token_id=backbone.pad_id, **ends
    )
    return out[0, given.shape[1] if name == "input_ids" else 0 :].tolist()
