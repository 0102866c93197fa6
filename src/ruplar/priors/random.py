"""Random prior (ablation): a random importance for each token of the span, fixed for good, with Gumbel noise.

The importances are drawn once from U[low, high] and depend on the span's text and `seed` alone, so a step keeps its own
through every epoch and in every process; only the Gumbel noise is drawn anew. The paper gives no range: 1.5 to 3.0 is
that of its learned prior.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np
from pydantic import Field, model_validator

from ruplar.priors.base import even, ids_of_span, soften
from ruplar.settings import Settings
from ruplar.types import Encode, Span, SparsePrior


class Config(Settings):
    """Settings of the random prior."""

    # differs from the paper: D5. No range is printed and no code published; this one is the learned prior's
    low: float = Field(1.5, description="Smallest logit that can be drawn.")
    high: float = Field(3.0, description="Largest logit that can be drawn; not below `low`.")
    temperature: float = Field(0.5, gt=0, description="Temperature tau of the Gumbel-softmax; lower is sharper.")
    noise: bool = Field(True, description="Whether Gumbel noise is drawn at every visit, as in the paper's ablations.")
    seed: int = Field(0, ge=0, description="Seed of the fixed importances.")

    @model_validator(mode="after")
    def _ordered(self) -> Config:
        if self.low > self.high:
            raise ValueError(f"low must not be above high, got low {self.low} and high {self.high}.")
        return self


@dataclass
class Prior:
    """softmax((U[low, high] + Gumbel(0, 1)) / temperature), the uniform part fixed per span."""

    config: Config
    dynamic: bool = field(init=False)

    def __post_init__(self):
        self.dynamic = self.config.noise

    def build(self, span: Span, encode: Encode, rng: np.random.Generator) -> SparsePrior:
        """The prior of one span: its fixed importances, and one draw of noise from `rng` where noise is on."""
        keys, results = ids_of_span(span, encode)
        if not results:
            return even(keys)
        ids = dict.fromkeys([*keys, *results])
        logits = dict(zip(ids, self._importances(span.text, len(ids)), strict=True))
        return soften(logits, self.config.temperature, rng if self.config.noise else None)

    def _importances(self, text: str, count: int) -> list[float]:
        """The span's fixed logits. A digest of 6 bytes a token stands in for a generator, which is slow to seed."""
        digest = hashlib.shake_128(f"{self.config.seed} {text}".encode()).digest(6 * count)
        unit = (int.from_bytes(digest[at : at + 6], "big") / 2**48 for at in range(0, len(digest), 6))
        low, width = self.config.low, self.config.high - self.config.low
        return [low + width * u for u in unit]
