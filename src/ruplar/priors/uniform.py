"""Uniform prior (ablation): the same logit for every token of the span, including the result, with Gumbel noise.

Without noise it is exactly uniform over the span's distinct tokens.
"""

from dataclasses import dataclass, field

import numpy as np
from pydantic import Field

from ruplar.priors.base import even, ids_of_span, soften
from ruplar.settings import Settings
from ruplar.types import Encode, Span, SparsePrior


class Config(Settings):
    """Settings of the uniform prior."""

    temperature: float = Field(0.5, gt=0, description="Temperature tau of the Gumbel-softmax; lower is sharper.")
    noise: bool = Field(True, description="Add new Gumbel noise for every sample, as in the paper's ablations.")


@dataclass
class Prior:
    """softmax(Gumbel(0, 1) / temperature): the shared logit (the paper's 2.0) cancels, so it is not a setting."""

    config: Config
    dynamic: bool = field(init=False)

    def __post_init__(self):
        self.dynamic = self.config.noise

    def build(self, span: Span, encode: Encode, rng: np.random.Generator) -> SparsePrior:
        """Return the prior of one span; uniform without noise or without a result."""
        keys, results = ids_of_span(span, encode)
        ids = dict.fromkeys([*keys, *results], 0.0)
        if not (self.config.noise and results):
            return even(ids)
        # differs from the paper: D5. No code is published; the shared logit cancels
        return soften(ids, self.config.temperature, rng)
