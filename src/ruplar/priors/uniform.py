"""Uniform prior (ablation): the same logit for every token of the span, including the result, with Gumbel noise.

Without noise it is exactly uniform over the span's distinct tokens. The other ablation priors differ in their logits only.
"""

from collections.abc import Mapping, Sequence
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
        """Return the prior of one span, with noise from `rng` if `noise` is set; uniform without a result."""
        keys, results = ids_of_span(span, encode)
        if not results:
            return even(keys)
        return soften(self.logits(span, keys, results), self.config.temperature, rng if self.config.noise else None)

    def logits(self, span: Span, keys: Sequence[int], results: Sequence[int]) -> Mapping[int, float]:
        """Span, ids of its symbols and of its result → id → logit without noise."""
        # differs from the paper: D5. No code is published; the shared logit cancels
        return dict.fromkeys([*keys, *results], 0.0)
