"""No-CoT: the answer at once, no thought in between; the floor every latent method must clear.

P | <think> | </think> | answer eos        CE on the answer and eos
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
    from ruplar.engine.thinker import NoThinker
    from ruplar.model.backbone import Backbone


class Config(Settings):
    """Settings of No-CoT."""

    head_chunk: int = Field(0, ge=0, description="Supervised positions that meet the head at once; 0: all.")


@dataclass
class Method(base.Method):
    """See the module's docstring."""

    config: Config
    needs_steps: ClassVar[bool] = False  # rows without a chain are as good as others

    def encode(self, example: Example, tools: Tools, context: SampleContext) -> Item:
        """The steps are left out."""
        prompt = tools.prompt(example.question)
        answer = tools.answer(example.answer)
        # differs from the paper: D28. It has no such row; </think> has no label because it is always given
        ids = [*prompt.ids, tools.think_id, tools.end_think_id, *answer]
        labels = [*([-100] * (len(ids) - len(answer))), *answer]
        return Item(ids=ids, labels=labels, question_at=prompt.question_at)

    def loss(self, backbone: Backbone, batch: Batch) -> Loss:
        """Cross-entropy of the answer."""
        from ruplar.methods.base import label_loss

        return label_loss(backbone, batch, self.config.head_chunk)

    def thinker(self, backbone: Backbone) -> NoThinker:
        """Does not think."""
        from ruplar.engine.thinker import NoThinker

        return NoThinker()
