"""RuPLaR: one soft token per step, taught by a rule-made prior, then the answer; one parallel pass trains it all.

    P | <think> | z_1 .. z_N | </think> | answer eos
          KL→z_1   ..  KL→z_N  CE→</think>, CE→answer, CE→eos      (each read one position earlier)

Input z_i is the prior's own expected embedding (teacher forcing); at inference it is the model's (see `SoftThinker`).
What may be added to that, beyond the paper, is in `_aids`. Where a forward makes a `block` of W latents, W - 1 fixed tokens
stand behind `<think>` and behind every block, and the next block is read off them and the token before; with W = 3:

    P | <think> a b | z_1 z_2 z_3 a b | </think> | answer eos
         KL→z_1 z_2 z_3       CE→</think>
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from ruplar.methods import _block, base
from ruplar.methods import _extensions as _extensions
from ruplar.methods.base import Loss, Tools
from ruplar.types import Batch, Example, Item, SampleContext

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor, nn

    from ruplar.engine.thinker import SoftThinker
    from ruplar.model.backbone import Backbone


class Config(_extensions.ExtensionSettings):
    """Settings of RuPLaR."""

    answer_weight: float = Field(1.0, ge=0, description="Weight of the answer's cross-entropy, </think> included.")
    prior_weight: float = Field(1.0, ge=0, description="Weight of the KL to the prior.")
    align_weight: float = Field(1.0, ge=0, description="Weight of the problem-thought alignment.")
    focus_threshold: float = Field(0.01, ge=0, lt=1, description="The KL keeps prior tokens strictly above this.")
    focus_top_k: int | None = Field(None, ge=1, description="The KL keeps this many prior tokens at most; null: all.")
    align_stop_gradient: bool = Field(False, description="Let the alignment move the thought only, not the question.")
    align_layer: int = Field(
        -1, description="Hidden layer the alignment reads; -1 is the head's own input, as printed."
    )
    # differs from the paper: D14. Printed: false
    align_normalize: bool = Field(True, description="Standardise both hidden states first; false as printed.")
    # differs from the paper: D17. Printed: argmax, and max_latents 128
    halt: Literal["argmax", "threshold"] = Field("threshold", description="Stop when </think> is likeliest, or P > t.")
    halt_threshold: float = Field(0.5, gt=0, lt=1, description="t of halt: threshold.")
    # differs from the paper: D18, D19. Printed: feed_top_k 0, feed_drop_halt false
    feed_top_k: int = Field(10, ge=0, description="Tokens of the mixture fed at inference; 0: the whole vocabulary.")
    feed_drop_halt: bool = Field(True, description="Take </think> out of the mixture; training never mixes it in.")
    max_latents: int = Field(16, ge=0, description="Cap on a thought at inference; </think> is forced there.")
    head_chunk: int = Field(0, ge=0, description="Supervised positions that meet the head at once; 0: all.")


@dataclass
class Method(base.Method):
    """See the module's docstring."""

    config: Config
    needs_steps: ClassVar[bool] = True
    _place: Any = field(default=None, repr=False)  # width and device of what is made for training
    _decoder: Any = field(default=None, repr=False)

    @property
    def draws(self) -> bool:
        """Whether inputs are drawn anew at every visit."""
        return self.config.draws

    def features(self, context: SampleContext, latents: int) -> list[np.ndarray]:
        """What each latent's input is to be at this visit."""
        return _extensions.features(self.config, context, latents)

    def attach(self, backbone: Backbone) -> None:
        """Remember where a step decoder would go; it is made when training asks for it."""
        self._place = (backbone.embedding_weight.shape[1], backbone.device)

    def modules(self) -> dict[str, nn.Module]:
        """The step decoder, where there is one."""
        c = self.config
        if self._place is None or not c.step_weight:
            return {}
        if self._decoder is None:
            from ruplar.model.step_decoder import StepDecoder

            width, device = self._place
            self._decoder = StepDecoder(width, c.step_layers if c.step_decoder == "small" else 0).to(device)
        return {"step_decoder": self._decoder}

    def inference_modules(self) -> dict[str, nn.Module]:
        """Nothing: thinking needs no weights of the method's own."""
        return {}

    def encode(self, example: Example, tools: Tools, context: SampleContext) -> Item:
        """One latent per span; a chain without steps has N = 0 and goes straight to `</think>`."""
        prompt = tools.prompt(example.question)
        # differs from the paper: D8. Its code crashes where there is no step
        spans = tools.spans(example)
        priors = [tools.prior(span, (context.epoch, context.row, i)) for i, span in enumerate(spans)]
        # differs from the paper: D11. Each marker is one token; on Llama its code writes them in three pieces
        tail = [tools.end_think_id, *tools.answer(example.answer)]
        wide, blocks = self.config.block, _block.count(len(priors), self.config.block)
        asking = _block.asking(wide, tools.encode)
        start = len(prompt.ids) + 1 + len(asking)
        end = start + blocks * (wide + len(asking))  # where </think> stands; it is decided on before the fixed tokens
        return Item(
            ids=[*prompt.ids, tools.think_id, *asking, *[*[tools.think_id] * wide, *asking] * blocks, *tail],
            labels=[*[-100] * (end - len(asking)), tools.end_think_id, *[-100] * len(asking), *tail[1:]],
            latent_at=[at + i for at in range(start, end, wide + len(asking)) for i in range(wide)],
            priors=priors,
            question_at=prompt.question_at,
            mark_at=[end + _extensions.lead(example.answer, tools)] if self.config.teaches else [],
            features=self.features(context, len(priors)),
            also=_extensions.companions(self.config, example, spans, prompt, tools),
        )

    def encodes_by(self) -> dict[str, Any]:
        """Which companions go with a sequence; weights, halting and feeding change nothing of it."""
        c = self.config
        return {"steps": bool(c.step_weight), "teaches": c.teaches, "draws": c.draws, "block": c.block}

    def loss(self, backbone: Backbone, batch: Batch) -> Loss:
        """Answer, prior and alignment, from one forward pass; more of them for what is set beyond the paper."""
        from ruplar import objective
        from ruplar.model.forward import embed, flat_states

        c = self.config
        soft = _extensions.inputs(c, backbone, batch, self.thinker(backbone))
        # differs from the paper: D16. Its code detaches all embeddings; here those that are trained get gradient
        all_layers = bool(c.distill_hidden or (c.align_weight and c.align_layer != -1))
        hidden, layers = flat_states(backbone, batch, embed(backbone, batch, soft), all_layers)
        labels, rows = batch.totals[0], batch.totals[1]
        # one pass through the head: the latents' predictions first, then the labels'
        width = batch.prior_ids.shape[1]
        at = _cat(batch.latent_at - c.block, batch.label_at)
        ids = _cat(batch.prior_ids, batch.label_ids[:, None].expand(-1, width))
        read = objective.read(backbone.logits, hidden[at], ids, c.head_chunk)
        m = len(batch.latent_at)
        keep = objective.focus(batch.prior_probs, c.focus_threshold, c.focus_top_k)
        parts = {
            "answer": c.answer_weight * objective.answer_ce(read.picked[m:, 0], labels),
            "prior": c.prior_weight
            * objective.prior_kl(read.picked[:m], batch.prior_probs, batch.latent_share, rows, keep),
        }
        if c.align_weight:
            aligned = hidden if c.align_layer == -1 else layers[c.align_layer]
            question = aligned[batch.question_at]
            if c.align_stop_gradient:
                question = question.detach()
            value = objective.alignment(
                question, aligned[batch.latent_at], batch.latent_share, rows, normalize=c.align_normalize
            )
            parts["align"] = c.align_weight * value
        if c.step_weight:
            decoder = self.modules()["step_decoder"]
            parts["step_words"] = c.step_weight * _extensions.step_loss(c, backbone, batch, hidden, decoder)  # type: ignore[arg-type]
        if c.teaches:
            parts |= _extensions.teacher_losses(c, backbone, batch, hidden, layers)
        return Loss(parts, _watch(read, batch, m, backbone.end_think_id))

    def thinker(self, backbone: Backbone) -> SoftThinker:
        """Soft tokens from the model's own distribution."""
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
            asking=tuple(_block.asking(c.block, backbone.prompt.plain)) if c.block > 1 else (),
        )


def _cat(a: Tensor, b: Tensor) -> Tensor:
    import torch

    return torch.cat([a, b])


def _watch(read, batch: Batch, m: int, end_think_id: int) -> dict[str, Tensor]:
    """Counts for the progress line and the guard; none is read from the device here.

    Right decisions to go on or halt, entropy of the latents, latents preferred to the halt, latents whose likeliest token
    is the first latent's (all of them, when thoughts have collapsed), right answer tokens.
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
