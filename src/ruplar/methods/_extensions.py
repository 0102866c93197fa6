"""What helps ruplar beyond the paper, each off unless it is set: none of it costs a forward more at inference.

    block             a forward makes several latents at once; see `_block` and the layout in `ruplar`.

    own soft tokens   pass 1, without gradient, gives what the model itself would feed at each latent; pass 2 feeds that at
                      some latents and the prior's at the others, and is trained. Both are parallel.
    step decoder      from the hidden state of each latent a small decoder writes the latent's step.
    teacher           the backbone without its adapter reads the chain as text; where the answer is about to be said, and
                      while it is said, the model is drawn to it.

Axes: M latents, D width, T labels, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from ruplar.methods.base import Tools
from ruplar.priors.base import rng_of
from ruplar.settings import Settings
from ruplar.types import Batch, Example, Item, Prompt, SampleContext, Span

if TYPE_CHECKING:
    from torch import Tensor

    from ruplar.engine.thinker import SoftThinker
    from ruplar.model.backbone import Backbone
    from ruplar.model.step_decoder import StepDecoder

STEPS, TEACHER = "steps", "teacher"
"""Names of the companion sequences: each latent's step, and the chain as text."""


class ExtensionSettings(Settings):
    """What may be set beyond the paper."""

    # differs from the paper: D73. It makes one latent a forward
    block: int = Field(
        1, ge=1, le=16, description="Latents one forward makes; spans must come in as many (spans: ahead, its width)."
    )
    # differs from the paper: D61. Training never shows the model its own soft tokens
    own_latents: float = Field(
        0.0, ge=0, le=1, description="Probability that a latent's training input is the model's own soft token."
    )
    own_latents_ramp: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Share of the run over which that probability grows from 0; 0: it is there at once.",
    )
    own_passes: int = Field(
        1, ge=1, description="Passes without gradient that make them; after n the first n are what inference feeds."
    )
    # differs from the paper: D62. Training inputs are the priors themselves
    input_noise: float = Field(
        0.0, ge=0, description="Factor of the Gumbel noise on a prior where it is an input; as a target it stays."
    )
    # differs from the paper: D63. Nothing asks a latent for its step's words
    step_weight: float = Field(0.0, ge=0, description="Weight of the step decoder's cross-entropy; 0: there is none.")
    step_decoder: Literal["small", "backbone"] = Field(
        "small", description="Who writes the step: layers of its own, or the backbone without its adapter."
    )
    step_layers: int = Field(1, ge=1, description="Layers of a small step decoder.")
    step_reads: Literal["predicting", "reading"] = Field(
        "predicting", description="The hidden state it reads: where the latent is predicted, or where it is read."
    )
    # differs from the paper: D64. It has no teacher
    distill_hidden: float = Field(
        0.0,
        ge=0,
        description="Weight of the distance to the CoT teacher's hidden states before the answer; 0: no teacher.",
    )
    distill_logits: float = Field(
        0.0, ge=0, description="Weight of the KL to the CoT teacher's answer tokens; 0: none."
    )

    @property
    def draws(self) -> bool:
        """Whether a latent's input is drawn anew at every visit."""
        return bool(self.own_latents or self.input_noise)

    @property
    def teaches(self) -> bool:
        """Whether there is a teacher."""
        return bool(self.distill_hidden or self.distill_logits)


def features(config: ExtensionSettings, context: SampleContext, count: int) -> list[np.ndarray]:
    """One vector a latent: whether its input is the model's own soft token, and the name of its noise."""
    if not config.draws:
        return []
    grown = min(1.0, context.progress / config.own_latents_ramp) if config.own_latents_ramp else 1.0
    chance, rng = config.own_latents * grown, rng_of("inputs", *context.key)
    # whole numbers up to 2^24 are exact in float32
    return [np.array([rng.random() < chance, rng.integers(2**24)], dtype=np.float32) for _ in range(count)]


def companions(
    config: ExtensionSettings, example: Example, spans: Sequence[Span], prompt: Prompt, tools: Tools
) -> dict[str, list[Item]]:
    """The sequences that go with an example: the words of each latent's span, and the chain as text."""
    found: dict[str, list[Item]] = {}
    if config.step_weight:
        texts = [[*tools.encode(span.text), tools.eos_id] for span in spans]
        found[STEPS] = [Item(ids=[tools.think_id, *text], labels=[-100, *text]) for text in texts]
    if config.teaches:
        head = [*prompt.ids, tools.think_id, *tools.encode(" ".join(f"<<{step}>>" for step in example.steps))]
        answer = tools.answer(example.answer)
        found[TEACHER] = [
            Item(
                ids=[*head, tools.end_think_id, *answer],
                labels=[*([-100] * (len(head) + 1)), *answer],
                mark_at=[len(head) + lead(example.answer, tools)],
            )
        ]
    return found


def lead(answer: str, tools: Tools) -> int:
    """Tokens of the answer's format that come before the answer proper; they are the same whatever it is."""
    ours, other = tools.answer(answer), tools.answer("1" if answer[:1] != "1" else "2")
    pairs = enumerate(zip(ours, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(ours), len(other)))


def inputs(config: ExtensionSettings, backbone: Backbone, batch: Batch, thinker: SoftThinker) -> Tensor | None:
    """[M, D] what stands in the latents' places; None where it is the priors' own soft tokens."""
    import torch

    from ruplar.model.forward import embed, flat_hidden
    from ruplar.model.soft_tokens import mix

    if batch.features is None:
        return None
    probs = _noised(batch, config.input_noise) if config.input_noise else batch.prior_probs
    soft = mix(backbone.embedding, batch.prior_ids, probs)
    if not config.own_latents:
        return soft
    own, fed = batch.features[:, :1] > 0, soft.detach()
    with torch.no_grad():
        for _ in range(config.own_passes):
            hidden, _ = flat_hidden(backbone, batch, embeds=embed(backbone, batch, fed))
            last = hidden[batch.latent_at - config.block]
            mine = thinker.next(backbone.logits(last), last, batch.latent_at).embeds
            fed = torch.where(own, mine, soft.detach())
    return torch.where(own, fed, soft)


def _noised(batch: Batch, scale: float) -> Tensor:
    """[M, K] the priors with Gumbel noise on their logits; each latent's noise is named by its features."""
    import torch

    from ruplar.engine.noise import gumbel

    probs, name = batch.prior_probs, batch.features[:, 1].long()
    draws = gumbel(torch.stack([name, name], dim=1), torch.zeros_like(name), probs.shape[1])
    logits = torch.where(probs > 0, probs.clamp_min(1e-30).log() + scale * draws, -torch.inf)
    return logits.softmax(-1)


def step_loss(
    config: ExtensionSettings, backbone: Backbone, batch: Batch, hidden: Tensor, decoder: StepDecoder
) -> Tensor:
    """Cross-entropy in nats of each latent's step, a mean over its tokens, over the row's latents, then over rows.

    Args:
        config: The settings.
        backbone: Gives embeddings and the head; with `step_decoder: backbone`, the decoder itself.
        batch: Its companions `steps` are one row a latent.
        hidden: [B*S, D] of the batch.
        decoder: Made for this backbone.
    """
    import torch

    from ruplar import objective
    from ruplar.model.lora import refuse_checkpointing, unadapted

    steps = batch.also[STEPS]
    if not len(steps.ids):
        return hidden.sum() * 0.0
    read = hidden[batch.latent_at - config.block * int(config.step_reads == "predicting")]
    embeds = backbone.embedding(steps.ids).detach()
    if config.step_decoder == "backbone":
        refuse_checkpointing(backbone, "method.step_decoder: backbone")
        with unadapted(backbone, "method.step_decoder: backbone"):
            out, _ = backbone.trunk(decoder.opened(read, embeds), None, steps.positions)
    else:
        out = decoder(read, embeds)
    picked = objective.read(backbone.logits, out.flatten(0, 1)[steps.label_at], steps.label_ids[:, None]).picked[:, 0]
    row = steps.label_at // steps.ids.shape[1]
    share = batch.latent_share / torch.bincount(row, minlength=len(steps.ids))
    return -(picked * share[row]).sum() / batch.totals[1].clamp_min(1)


def teacher_losses(
    config: ExtensionSettings, backbone: Backbone, batch: Batch, hidden: Tensor, layers: Sequence[Tensor]
) -> dict[str, Tensor]:
    """The distance to the CoT teacher where the answer is about to be said, and the KL to it while it is said.

    Args:
        config: The settings.
        backbone: With an adapter; without it, it is the teacher.
        batch: Its companion `teacher` is one row a sequence, with the same answer.
        hidden: [B*S, D] of the batch.
        layers: Every layer's hidden states, [B*S, D] each; only looked at for `distill_hidden`.
    """
    import torch

    from ruplar import objective
    from ruplar.model.forward import flat_layers
    from ruplar.model.lora import unadapted

    taught, parts = batch.also[TEACHER], {}
    with torch.no_grad(), unadapted(backbone, "method.distill_hidden, method.distill_logits"):
        last, known = flat_layers(backbone, taught, taught.mark_at)
        logits = backbone.logits(last[taught.label_at]) if config.distill_logits else None
    if config.distill_hidden:
        ours = torch.stack([layer[batch.mark_at] for layer in layers])
        parts["distill"] = config.distill_hidden * objective.distance(ours, known, batch.totals[1])
    if logits is not None:
        said = batch.label_at[batch.label_ids != backbone.end_think_id]  # the answers' tokens, as the teacher has them
        kl = objective.token_kl(logits, backbone.logits(hidden[said]), batch.totals[0])
        parts["imitate"] = config.distill_logits * kl
    return parts
