"""Gumbel prior: the logits of the temperature prior with new Gumbel noise for every sample.

A model learns the mean of the draws, which is flatter than the temperature prior: with four operands and a result of one
token 0.34 / 0.165 instead of 0.553 / 0.112. A span without a result is uniform, without noise.
"""

from dataclasses import dataclass

import numpy as np

from ruplar.priors import temperature
from ruplar.types import Encode, Span, SparsePrior


class Config(temperature.Config):
    """Settings of the Gumbel prior."""


@dataclass
class Prior(temperature.Prior):
    """softmax((logit + Gumbel(0, 1)) / temperature) over the span's tokens; soft, never hardened to one token."""

    dynamic: bool = True

    def build(self, span: Span, encode: Encode, rng: np.random.Generator) -> SparsePrior:
        """Return one draw of the prior of one span."""
        # differs from the paper: D3. Its code raises only the last key token; here all of the result, as in the text
        return self.softened(span, encode, rng)
