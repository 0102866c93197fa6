"""Stepwise internalisation (iCoT): remove the chain token by token from its start, until the answer needs none of it.

    P | <think> | 3 + 4 = 7 >> << 7 * 2 = 14 >> | </think> | answer eos        CE on everything after <think>
                  └ removed ┘  └── still written

At inference it writes whatever part of the chain it still needs, normally nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field

from ruplar.methods import base
from ruplar.methods.base import Tools
from ruplar.settings import Settings
from ruplar.types import Example, Item, SampleContext

if TYPE_CHECKING:
    from ruplar.engine.thinker import TextThinker
    from ruplar.model.backbone import Backbone


class Config(Settings):
    """Settings of iCoT."""

    # differs from the paper: D30. It removes 8 tokens per epoch; here removal ends at a fraction of the run
    removed_by: float = Field(0.5, gt=0, le=1, description="Share of the run after which the whole chain is removed.")
    remove_all_from: int = Field(39, ge=1, description="Remove the whole chain once it would lose this many tokens.")
    smoothing: float = Field(4.0, gt=0, description="λ of P(o) ~ exp(-λ o), the distribution of the removal offset o.")
    reset_optimizer: bool = Field(True, description="Reset the optimizer state whenever one more token is removed.")
    max_thought: int = Field(256, ge=0, description="Maximum reasoning tokens at inference; </think> is then forced.")


@dataclass
class Method(base.Method):
    """See the module's docstring."""

    config: Config
    dynamic: ClassVar[bool] = True

    def stage(self, progress: float) -> int:
        """Tokens removed from the start of every chain; at `remove_all_from` the whole chain is removed."""
        c = self.config
        return min(int(progress / c.removed_by * c.remove_all_from), c.remove_all_from)

    def encode(self, example: Example, tools: Tools, context: SampleContext) -> Item:
        """Encode the chain without its first tokens; a few samples lose one or two more."""
        c = self.config
        prompt = tools.prompt(self.question(example.question, context))
        chain = tools.encode(base.chain_text(example.steps))
        removed = self.stage(context.progress)
        left = chain[removed + _removal_offset(context, c.smoothing) :] if removed < c.remove_all_from else []
        written = [*left, tools.end_think_id, *tools.answer(example.answer)]
        return base.text_item(prompt, [tools.think_id], written)

    def thinker(self, backbone: Backbone) -> TextThinker:
        from ruplar.engine.thinker import TextThinker

        # differs from the paper: D31. Its repository samples at T=1, top-k 50; this one is greedy
        return TextThinker(backbone.embedding, backbone.end_think_id, cap=self.config.max_thought)


def _removal_offset(context: SampleContext, smoothing: float) -> int:
    """Draw the extra tokens to remove, o with P(o) = (1 - e^-λ) e^(-λ o): 0 for 98 % of the samples at λ = 4."""
    drawn = np.random.default_rng(context.key).random()
    return int(-math.log1p(-drawn) / smoothing)
