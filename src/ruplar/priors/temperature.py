"""Temperature prior: two fixed logits, one for operands and one for the result, through a sharpened softmax.

With the defaults the odds of a result token against an operand are e^1.6 = 4.95. Each token of a result has the result's
logit, so a result of three tokens has more mass than a result of one. An operand that is also in the result counts as
result.
"""

from dataclasses import dataclass

import numpy as np
from pydantic import Field

from ruplar.priors.base import even, ids_of_span, soften, two_logits
from ruplar.settings import Settings
from ruplar.types import Encode, Span, SparsePrior


class Config(Settings):
    """Settings of the temperature prior."""

    operand_logit: float = Field(2.0, description="Logit of every token of the span that is not its result.")
    result_logit: float = Field(2.8, description="Logit of every token of the span's result.")
    temperature: float = Field(0.5, gt=0, description="Softmax temperature; lower is sharper.")


@dataclass
class Prior:
    """softmax(logit / temperature) over the span's tokens."""

    config: Config
    dynamic: bool = False

    def build(self, span: Span, encode: Encode, rng: np.random.Generator) -> SparsePrior:
        """Return the prior of one span; `rng` is not used."""
        return self.softened(span, encode)

    def softened(self, span: Span, encode: Encode, rng: np.random.Generator | None = None) -> SparsePrior:
        """Return the prior, with Gumbel noise on its logits if `rng` is given."""
        keys, results = ids_of_span(span, encode)
        if not results:
            return even(keys)
        logits = two_logits(keys, results, self.config.operand_logit, self.config.result_logit)
        return soften(logits, self.config.temperature, rng)
