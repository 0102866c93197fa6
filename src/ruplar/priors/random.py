"""Random prior (ablation): a fixed random logit for each token of the span, with Gumbel noise.

The logits are drawn from U[low, high] and depend only on the span's text and `seed`, so they are the same in every epoch and
process; every sample draws new Gumbel noise. The paper states no range: 1.5 to 3.0 is that of its learned prior.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import Field, model_validator

from ruplar.priors import uniform
from ruplar.types import Span


class Config(uniform.Config):
    """Settings of the random prior."""

    # differs from the paper: D5. It has no range and no code; this is the range of its learned prior
    low: float = Field(1.5, description="Minimum of the logits.")
    high: float = Field(3.0, description="Maximum of the logits; not below `low`.")
    seed: int = Field(0, ge=0, description="Random seed of the logits.")

    @model_validator(mode="after")
    def _ordered(self) -> Config:
        if self.low > self.high:
            raise ValueError(f"low must not be above high, got low {self.low} and high {self.high}")
        return self


@dataclass
class Prior(uniform.Prior):
    """softmax((U[low, high] + Gumbel(0, 1)) / temperature); the uniform part is fixed per span."""

    config: Config

    def logits(self, span: Span, keys: Sequence[int], results: Sequence[int]) -> Mapping[int, float]:
        ids = dict.fromkeys([*keys, *results])
        return dict(zip(ids, self._fixed_logits(span.text, len(ids)), strict=True))

    def _fixed_logits(self, text: str, count: int) -> list[float]:
        """Return the fixed logits of a span, from a hash of 6 bytes per token, which is faster than seeding a generator."""
        digest = hashlib.shake_128(f"{self.config.seed} {text}".encode()).digest(6 * count)
        unit = (int.from_bytes(digest[at : at + 6], "big") / 2**48 for at in range(0, len(digest), 6))
        low, width = self.config.low, self.config.high - self.config.low
        return [low + width * u for u in unit]
