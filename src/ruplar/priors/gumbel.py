"""Gumbel prior: the logits of the temperature prior with new Gumbel noise for every sample.

A model learns the mean of the draws, which is flatter than the temperature prior: with four operands and a result of one
token 0.34 / 0.165 instead of 0.553 / 0.112. A span without a result is uniform, without noise.
"""

from dataclasses import dataclass

import numpy as np
from pydantic import Field

from ruplar.priors.base import even, ids_of_span, soften, two_logits
from ruplar.settings import Settings
from ruplar.types import Encode, Span, SparsePrior


class Config(Settings):
    """Settings of the Gumbel prior."""

    operand_logit: float = Field(2.0, description="Logit of every token of the span that is not its result.")
    result_logit: float = Field(2.8, description="Logit of every token of the span's result.")
    temperature: float = Field(0.5, gt=0, description="Temperature tau of the Gumbel-softmax; lower is sharper.")


@dataclass
class Prior:
    """softmax((logit + Gumbel(0, 1)) / temperature) over the span's tokens; soft, never hardened to one token."""

    config: Config
    dynamic: bool = True

    def build(self, span: Span, encode: Encode, rng: np.random.Generator) -> SparsePrior:
        """Return one draw of the prior of one span."""
        keys, results = ids_of_span(span, encode)
        if not results:
            return even(keys)
        # differs from the paper: D3. Its code raises only the last key token; here all of the result, as in the text
        logits = two_logits(keys, results, self.config.operand_logit, self.config.result_logit)
        return soften(logits, self.config.temperature, rng)
