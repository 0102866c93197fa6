"""ICoT: the written chain is taken away token by token from its beginning, until the answer comes without it.

    P | <think> | 3 + 4 = 7 >> << 7 * 2 = 14 >> | </think> | answer eos        CE on everything after <think>
                  └ removed ┘  └── still written

At inference it writes whatever it still needs to, which is normally nothing. (Stepwise internalisation.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field

from ruplar.methods import base
from ruplar.methods.base import Loss, Tools
from ruplar.settings import Settings
from ruplar.types import Batch, Example, Item, SampleContext

if TYPE_CHECKING:
    from ruplar.engine.thinker import TextThinker
    from ruplar.model.backbone import Backbone


class Config(Settings):
    """Settings of iCoT."""

    # differs from the paper: D30. It removes 8 tokens an epoch; here a share of the run says when the last is gone
    removed_by: float = Field(0.5, gt=0, le=1, description="Share of the run by which the whole chain is gone.")
    remove_all_from: int = Field(39, ge=1, description="Where so many tokens would be removed, all are.")
    smoothing: float = Field(4.0, gt=0, description="λ of P(o) ~ exp(-λ o), the tokens removed ahead of time.")
    reset_optimizer: bool = Field(True, description="Start Adam's moments afresh whenever one more token goes.")
    max_thought: int = Field(256, ge=0, description="Cap on reasoning tokens at inference; </think> is forced there.")
    head_chunk: int = Field(0, ge=0, description="Supervised positions that meet the head at once; 0: all.")


@dataclass
class Method(base.Method):
    """See the module's docstring."""

    config: Config
    dynamic: ClassVar[bool] = True

    def stage(self, progress: float) -> int:
        """Tokens removed from the beginning of every chain, `remove_all_from` at most: then all of them are."""
        c = self.config
        return min(int(progress / c.removed_by * c.remove_all_from), c.remove_all_from)

    def encode(self, example: Example, tools: Tools, context: SampleContext) -> Item:
        """The chain without its first tokens; a few rows are a token or two ahead of the others."""
        c = self.config
        prompt = tools.prompt(example.question)
        chain = tools.encode(" ".join(f"<<{step}>>" for step in example.steps))
        removed = self.stage(context.progress)
        left = chain[removed + _ahead(context, c.smoothing) :] if removed < c.remove_all_from else []
        written = [*left, tools.end_think_id, *tools.answer(example.answer)]
        ids = [*prompt.ids, tools.think_id, *written]
        labels = [*([-100] * (len(ids) - len(written))), *written]
        return Item(ids=ids, labels=labels, question_at=prompt.question_at)

    def loss(self, backbone: Backbone, batch: Batch) -> Loss:
        """Cross-entropy of what is left of the chain, and of the answer."""
        return base.label_loss(backbone, batch, self.config.head_chunk)

    def thinker(self, backbone: Backbone) -> TextThinker:
        """Writes what it has not internalised."""
        from ruplar.engine.thinker import TextThinker

        # differs from the paper: D31. Its repository samples at T=1; this one is greedy
        return TextThinker(backbone.embedding, backbone.end_think_id, cap=self.config.max_thought)


def _ahead(context: SampleContext, smoothing: float) -> int:
    """Tokens removed ahead of time, o with P(o) = (1 - e^-λ) e^(-λ o): 0 for 98 % of the visits at λ = 4."""
    drawn = np.random.default_rng(context.key).random()
    return int(-math.log1p(-drawn) / smoothing)
