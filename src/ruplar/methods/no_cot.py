"""No-CoT: answer directly, without reasoning; the baseline every latent method must beat.

P | <think> | </think> | answer eos        CE on the answer and eos
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ruplar.methods import base
from ruplar.methods.base import Tools
from ruplar.settings import Settings
from ruplar.types import Example, Item, SampleContext

if TYPE_CHECKING:
    from ruplar.engine.thinker import NoThinker
    from ruplar.model.backbone import Backbone


class Config(Settings):
    """Settings of No-CoT."""


@dataclass
class Method(base.Method):
    """See the module's docstring."""

    config: Config
    needs_steps: ClassVar[bool] = False  # it does not use chains

    def encode(self, example: Example, tools: Tools, context: SampleContext) -> Item:
        """Encode the question and the answer, without the steps."""
        prompt = tools.prompt(self.question(example.question, context))
        # differs from the paper: D28. It has no such baseline; </think> has no label because it is never generated
        return base.text_item(prompt, [tools.think_id, tools.end_think_id], tools.answer(example.answer))

    def thinker(self, backbone: Backbone) -> NoThinker:
        from ruplar.engine.thinker import NoThinker

        return NoThinker()
