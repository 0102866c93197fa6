"""CoT-SFT: write the whole chain as text, then the answer; the model that latent methods start from.

P | <think> | <<3+4=7>> <<7*2=14>> | </think> | answer eos        CE on everything after <think>

With `chain: results` it writes `<<7>> <<14>>`: a text control with about as many tokens as RuPLaR has soft tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from ruplar.methods import base
from ruplar.methods.base import Tools
from ruplar.settings import Settings
from ruplar.types import Example, Item, SampleContext

if TYPE_CHECKING:
    from ruplar.engine.thinker import TextThinker
    from ruplar.model.backbone import Backbone


class Config(Settings):
    """Settings of CoT-SFT."""

    chain: Literal["steps", "results"] = Field(
        "steps", description="What to write: the steps, or only the result after the last = of each."
    )
    max_thought: int = Field(256, ge=0, description="Maximum reasoning tokens at inference; </think> is then forced.")


@dataclass
class Method(base.Method):
    """See the module's docstring."""

    config: Config

    def encode(self, example: Example, tools: Tools, context: SampleContext) -> Item:
        """Encode the steps joined by spaces, as GSM8k-Aug writes them."""
        prompt = tools.prompt(self.question(example.question, context))
        results = self.config.chain == "results"
        steps = [step.rpartition("=")[2].strip() for step in example.steps] if results else example.steps
        chain = tools.encode(base.chain_text(steps))
        written = [*chain, tools.end_think_id, *tools.answer(example.answer)]
        return base.text_item(prompt, [tools.think_id], written)

    def thinker(self, backbone: Backbone) -> TextThinker:
        from ruplar.engine.thinker import TextThinker

        # differs from the paper: D20. Its CoT row is copied from CoLaR, sampled at T=1, top-p 0.9; this one is greedy
        return TextThinker(backbone.embedding, backbone.end_think_id, cap=self.config.max_thought)
