"""COCONUT: each latent is the previous position's last hidden state; written steps turn latent stage by stage.

    stage k   P | <think> | z_1 .. z_ck | step k+1 .. step n | </think> | answer eos      CE on what follows the latents
                     h ─────→ z_1, h at z_1 ─→ z_2, ..
    the end   P | <think> | z_1 .. z_cK | </think> | answer eos                           CE on the answer

Gradient flows back through the whole chain of latents.
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

    latents_per_step: int = Field(2, ge=1, description="Latents that replace one written step.")
    max_stage: int = Field(3, ge=1, description="Steps latent at most; one stage later no step is written.")
    # differs from the paper: D32. It counts epochs a stage, 3 of 22; here the same share of any run
    latent_by: float = Field(0.4, gt=0, le=1, description="Share of the run by which no step is written any more.")
    reset_optimizer: bool = Field(True, description="Start Adam's moments afresh at every stage.")
    head_chunk: int = Field(0, ge=0, description="Supervised positions that meet the head at once; 0: all.")


@dataclass
class Method(base.Method):
    """See the module's docstring."""

    config: Config
    packs: ClassVar[bool] = False
    dynamic: ClassVar[bool] = True

    def stage(self, progress: float) -> int:
        """1 .. max_stage: so many steps are latent; max_stage + 1: all the others are gone too."""
        c = self.config
        return 1 + min(int(progress / c.latent_by * c.max_stage), c.max_stage)

    def encode(self, example: Example, tools: Tools, context: SampleContext) -> Item:
        """Every row of a stage has as many latents, however many steps its chain has, as published."""
        c, stage = self.config, self.stage(context.progress)
        prompt = tools.prompt(example.question)
        left = example.steps[stage:] if stage <= c.max_stage else ()
        # differs from the paper: D33. It ends the latents by a marker of their own; here steps left stand in the thought
        text = tools.encode(" ".join(f"<<{step}>>" for step in left))
        answer = tools.answer(example.answer)
        start, count = len(prompt.ids) + 1, c.latents_per_step * min(stage, c.max_stage)
        head = [*prompt.ids, *([tools.think_id] * (1 + count))]
        # </think> is predicted where the model is to find out that its text is over, and given where none is written
        closing = tools.end_think_id if text else -100
        return Item(
            ids=[*head, *text, tools.end_think_id, *answer],
            labels=[*([-100] * len(head)), *text, closing, *answer],
            latent_at=list(range(start, start + count)),
            question_at=prompt.question_at,
        )

    def loss(self, backbone: Backbone, batch: Batch) -> Loss:
        """Cross-entropy of the steps still written and of the answer."""
        from ruplar.model.rollout import roll_out

        return base.label_loss_at(
            backbone, batch, roll_out(backbone, batch).at(batch.label_at), self.config.head_chunk
        )

    def thinker(self, backbone: Backbone) -> HiddenThinker:
        """As many latents as in the last stage, always."""
        from ruplar.engine.thinker import HiddenThinker

        return HiddenThinker(self.config.latents_per_step * self.config.max_stage)
