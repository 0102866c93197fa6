"""Pause tokens: a fixed number of filler positions before the answer, a control for extra computation without content.

    P | <think> | p .. p (N times) | </think> | answer eos        CE on the answer and eos

p is one learned vector. What a latent method gains over it does not come from extra positions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from ruplar.methods import base
from ruplar.methods.base import Loss, Tools
from ruplar.settings import Settings
from ruplar.types import Batch, Example, Item, SampleContext

if TYPE_CHECKING:
    from torch import nn

    from ruplar.engine.thinker import HiddenThinker
    from ruplar.model.backbone import Backbone


class Config(Settings):
    """Settings of the filler control."""

    latents: int = Field(4, ge=1, description="Number of pause tokens, in training and at inference.")


@dataclass
class Method(base.Method):
    """See the module's docstring."""

    config: Config
    needs_steps: ClassVar[bool] = False  # it does not use chains
    pause: Any = field(default=None, repr=False)

    def attach(self, backbone: Backbone) -> None:
        from ruplar.model.rollout import FixedLatent

        self.pause = FixedLatent(backbone.embedding_weight[backbone.think_id]).to(backbone.device)

    def modules(self) -> dict[str, nn.Module]:
        return {} if self.pause is None else {"pause": self.pause}

    def encode(self, example: Example, tools: Tools, context: SampleContext) -> Item:
        """Encode the question, N pause tokens and the answer, without the steps."""
        prompt = tools.prompt(self.question(example.question, context))
        return base.latent_item(prompt, tools, self.config.latents, tools.answer(example.answer), halts=False)

    def loss(self, backbone: Backbone, batch: Batch) -> Loss:
        """Cross-entropy of the answer, in one forward pass."""
        from ruplar.model.forward import embed, flat_hidden

        embeds = embed(backbone, batch, self.pause.vector.expand(len(batch.latent_at), -1))
        hidden = flat_hidden(backbone, batch, embeds=embeds)
        return base.label_loss_at(backbone, batch, hidden[batch.label_at])

    def thinker(self, backbone: Backbone) -> HiddenThinker:
        from ruplar.engine.thinker import HiddenThinker

        return HiddenThinker(self.config.latents, self.pause)
