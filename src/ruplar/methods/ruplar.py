"""RuPLaR: one soft token per span, trained towards a rule-based prior, then the answer; one forward pass trains all.

    P | <think> | z_1 .. z_N | </think> | answer eos
          KL→z_1   ..  KL→z_N  CE→</think>, CE→answer, CE→eos      (each predicted one position earlier)

The input z_i is the prior's own expected embedding (teacher forcing); at inference it is the model's (see `SoftThinker`).

Two extensions go beyond the paper; both are off by default and cost nothing at inference:

    input_noise      Gumbel noise on the priors that are fed, not on those that are targets
    distill_logits   KL to a teacher, the backbone without its adapter, which reads the chain as text

Axes: M latents, K tokens of a prior, T labels, D width, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from ruplar.methods import base
from ruplar.methods.base import Loss, Tools
from ruplar.priors.base import rng_of
from ruplar.settings import Settings
from ruplar.types import Batch, Example, Item, SampleContext

if TYPE_CHECKING:
    from torch import Tensor

    from ruplar.engine.thinker import SoftThinker
    from ruplar.model.backbone import Backbone
    from ruplar.objective import HeadOutputs


class Config(Settings):
    """Settings of RuPLaR."""

    answer_weight: float = Field(1.0, ge=0, description="Weight of the answer's cross-entropy, </think> included.")
    prior_weight: float = Field(1.0, ge=0, description="Weight of the KL to the prior.")
    align_weight: float = Field(1.0, ge=0, description="Weight of the problem-thought alignment.")
    focus_threshold: float = Field(0.01, ge=0, lt=1, description="The KL uses prior tokens strictly above this.")
    focus_top_k: int | None = Field(None, ge=1, description="The KL uses at most this many prior tokens; null: all.")
    # differs from the paper: D14. Printed: false
    align_normalize: bool = Field(True, description="Standardise both hidden states first; the paper does not.")
    # differs from the paper: D62. Training inputs are the priors themselves
    input_noise: float = Field(
        0.0, ge=0, description="Scale of the Gumbel noise on a prior used as input; as a target it is unchanged."
    )
    # differs from the paper: D64. It has no teacher
    distill_logits: float = Field(0.0, ge=0, description="Weight of the KL to the teacher's answer tokens; 0: none.")
    # differs from the paper: D17. Printed: argmax, and max_latents 128
    halt: Literal["argmax", "threshold"] = Field(
        "threshold", description="Halt when </think> is the most likely token, or when P(</think>) > halt_threshold."
    )
    halt_threshold: float = Field(0.5, gt=0, lt=1, description="Threshold on P(</think>) for halt: threshold.")
    # differs from the paper: D18, D19. Printed: feed_top_k 0, feed_drop_halt false
    feed_top_k: int = Field(10, ge=0, description="Most likely tokens mixed in a soft token at inference; 0: all.")
    feed_drop_halt: bool = Field(True, description="Remove </think> from soft tokens; it is never part of a prior.")
    max_latents: int = Field(16, ge=0, description="Maximum number of latents at inference; </think> is then forced.")


@dataclass
class Method(base.Method):
    """See the module's docstring."""

    config: Config

    @property
    def draws(self) -> bool:
        """Whether each sample has noise of its own."""
        return self.config.input_noise > 0

    def features(self, context: SampleContext, latents: int) -> list[np.ndarray]:
        """One number per latent that seeds its noise; [] without noise."""
        if not self.draws:
            return []
        rng = rng_of("inputs", *context.key)
        # integers up to 2^24 are exact in float32
        return [np.array([rng.integers(2**24)], dtype=np.float32) for _ in range(latents)]

    def encode(self, example: Example, tools: Tools, context: SampleContext) -> Item:
        """Encode one latent per span; a chain without steps has N = 0 and goes straight to `</think>`."""
        prompt = tools.prompt(self.question(example.question, context))
        # differs from the paper: D8. Its code crashes where there is no step
        spans = tools.spans(example)
        priors = [tools.prior(span, (context.epoch, context.row, i)) for i, span in enumerate(spans)]
        # differs from the paper: D11. Each marker is one token; on Llama its code writes them in three pieces
        item = base.latent_item(prompt, tools, len(priors), tools.answer(example.answer))
        also = {}
        if self.config.distill_logits:  # the teacher reads the chain as text
            chain = tools.encode(base.chain_text(example.steps))
            head = [tools.think_id, *chain, tools.end_think_id]
            also["teacher"] = [base.text_item(prompt, head, tools.answer(example.answer))]
        return replace(item, priors=priors, features=self.features(context, len(priors)), also=also)

    def encodes_by(self) -> dict[str, Any]:
        """The teacher and the noise: loss weights, halting and feeding do not change a sequence."""
        return {"teacher": self.config.distill_logits > 0, "noise": self.draws}

    def loss(self, backbone: Backbone, batch: Batch) -> Loss:
        """Answer, prior and alignment losses from one forward pass, and the teacher's where it is set."""
        import torch

        from ruplar import objective
        from ruplar.model.forward import embed, flat_hidden

        c = self.config
        soft = _noisy_inputs(backbone, batch, c.input_noise) if batch.features is not None else None
        # differs from the paper: D16. Its code detaches all embeddings; here those that are trained get gradient
        hidden = flat_hidden(backbone, batch, embeds=embed(backbone, batch, soft))
        labels, rows = batch.totals[0], batch.totals[1]
        # one call of the LM head: predictions of the latents first, then of the labels
        at = torch.cat([batch.latent_at - 1, batch.label_at])
        ids = torch.cat([batch.prior_ids, batch.label_ids[:, None].expand(-1, batch.prior_ids.shape[1])])
        read = objective.read(backbone.project, hidden[at], ids, fused=backbone.compiled)
        m, share = len(batch.latent_at), batch.latent_share
        focus = objective.focus(batch.prior_probs, c.focus_threshold, c.focus_top_k)
        prior = objective.prior_kl(read.picked[:m], batch.prior_probs, share, rows, focus)
        parts = {
            "answer": c.answer_weight * objective.answer_ce(read.picked[m:, 0], labels),
            "prior": c.prior_weight * prior,
        }
        if c.align_weight:
            question, thought = hidden[batch.question_at], hidden[batch.latent_at]
            parts["align"] = c.align_weight * objective.alignment(
                question, thought, share, rows, normalize=c.align_normalize
            )
        if c.distill_logits:
            parts["distill"] = c.distill_logits * _teacher_kl(backbone, batch, hidden)
        return Loss(parts, _watch(read, batch, m, backbone.end_think_id))

    def thinker(self, backbone: Backbone) -> SoftThinker:
        from ruplar.engine.thinker import SoftThinker

        c = self.config
        return SoftThinker(
            backbone.embedding,
            backbone.end_think_id,
            c.halt,
            c.halt_threshold,
            c.feed_top_k,
            c.feed_drop_halt,
            cap=c.max_latents,
        )


def _noisy_inputs(backbone: Backbone, batch: Batch, scale: float) -> Tensor:
    """[M, D] soft tokens of the priors with Gumbel noise on their log-probabilities."""
    from ruplar.model.soft_tokens import mix

    return mix(backbone.embedding, batch.prior_ids, noisy_priors(batch, scale))


def noisy_priors(batch: Batch, scale: float) -> Tensor:
    """[M, K] the priors with Gumbel noise on their log-probabilities; `batch.features` [M, 1] seed each latent's."""
    import torch

    from ruplar.engine.sampling import gumbel

    probs, seed = batch.prior_probs, batch.features[:, 0].long()
    draws = gumbel(torch.stack([seed, seed], dim=1), torch.zeros_like(seed), probs.shape[1])
    return torch.where(probs > 0, probs.clamp_min(1e-30).log() + scale * draws, -torch.inf).softmax(-1)


def _teacher_kl(backbone: Backbone, batch: Batch, hidden: Tensor) -> Tensor:
    """KL(teacher || model) in nats over the answer tokens, which both sequences share."""
    import torch

    from ruplar import objective
    from ruplar.model.forward import flat_hidden
    from ruplar.model.lora import unadapted

    teacher = batch.also["teacher"]
    with torch.no_grad(), unadapted(backbone, "method.distill_logits"):
        known = flat_hidden(backbone, teacher)
        logits = backbone.logits(known[teacher.label_at])
    answer_at = batch.label_at[batch.label_ids != backbone.end_think_id]
    return objective.token_kl(logits, backbone.logits(hidden[answer_at]), batch.totals[0])


def _watch(read: HeadOutputs, batch: Batch, m: int, end_think_id: int) -> dict[str, Tensor]:
    """Counts for the progress line and the training guard, without synchronising with the device.

    Correct decisions to continue or halt, entropy of the latents, latents preferred to the halt, latents whose most
    likely token is that of the first latent (all of them when thoughts have collapsed), correct answer tokens.
    """
    top, label_top = read.top[:m], read.top[m:]
    went_on = (top != end_think_id).sum()
    is_halt = batch.label_ids == end_think_id
    return {
        "halt_right": went_on + (is_halt & (label_top == end_think_id)).sum(),
        "halt_seen": is_halt.sum() + m,
        "entropy_sum": read.entropy[:m].sum(),
        "went_on": went_on,
        "same_top": (top == top[:1]).sum(),
        "latents": batch.latent_at.new_full((), m),
        "label_right": (label_top == batch.label_ids).sum(),
        "labels": batch.label_ids.new_full((), len(batch.label_ids)),
    }
