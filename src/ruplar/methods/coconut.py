"""COCONUT: each latent is the previous position's last hidden state; latents replace written steps stage by stage.

    stage k   P | <think> | z_1 .. z_ck | step k+1 .. step n | </think> | answer eos      CE on what follows the latents
                     h ─────→ z_1, h at z_1 ─→ z_2, ..
    last      P | <think> | z_1 .. z_cK | </think> | answer eos                           CE on the answer

Gradient flows back through all latents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from ruplar.methods import base
from ruplar.methods.base import Loss, Tools
from ruplar.settings import Settings
from ruplar.types import Batch, Example, Item, SampleContext

if TYPE_CHECKING:
    from ruplar.engine.thinker import HiddenThinker
    from ruplar.model.backbone import Backbone


class Config(Settings):
    """Settings of COCONUT."""

    latents_per_step: int = Field(2, ge=1, description="Latents per replaced step.")
    max_stage: int = Field(
        3, ge=1, description="Maximum number of steps replaced by latents; one stage later no step is written."
    )
    # differs from the paper: D32. It counts epochs per stage, 3 of 22; here the same fraction of any run
    latent_by: float = Field(0.4, gt=0, le=1, description="Fraction of the run after which no step is written.")
    reset_optimizer: bool = Field(True, description="Reset the optimizer state at every stage.")


@dataclass
class Method(base.Method):
    """See the module's docstring."""

    config: Config
    packs: ClassVar[bool] = False
    dynamic: ClassVar[bool] = True

    def stage(self, progress: float) -> int:
        """1 .. max_stage: the number of steps replaced by latents; max_stage + 1: the other steps are removed too."""
        c = self.config
        return 1 + min(int(progress / c.latent_by * c.max_stage), c.max_stage)

    def encode(self, example: Example, tools: Tools, context: SampleContext) -> Item:
        """Encode with the stage's number of latents, however many steps the chain has, as published."""
        c, stage = self.config, self.stage(context.progress)
        prompt = tools.prompt(self.question(example.question, context))
        left = example.steps[stage:] if stage <= c.max_stage else ()
        # differs from the paper: D33. It closes the latents with a marker; here remaining steps are part of the thought
        text = tools.encode(base.chain_text(left))
        answer = tools.answer(example.answer)
        start, count = len(prompt.ids) + 1, c.latents_per_step * min(stage, c.max_stage)
        head = [*prompt.ids, *([tools.think_id] * (1 + count))]
        # </think> is a label where text is written, since the model must end it; without text it is never generated
        closing = tools.end_think_id if text else -100
        return Item(
            ids=[*head, *text, tools.end_think_id, *answer],
            labels=[*([-100] * len(head)), *text, closing, *answer],
            latent_at=list(range(start, start + count)),
            question_at=prompt.question_at,
        )

    def loss(self, backbone: Backbone, batch: Batch) -> Loss:
        from ruplar.model.rollout import roll_out

        return base.label_loss_at(backbone, batch, roll_out(backbone, batch).at(batch.label_at))

    def thinker(self, backbone: Backbone) -> HiddenThinker:
        from ruplar.engine.thinker import HiddenThinker

        return HiddenThinker(self.config.latents_per_step * self.config.max_stage)
