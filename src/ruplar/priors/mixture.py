"""Mixture prior: a small share of the mass is spread over the operands of a span, the rest over the tokens of its result.

The mixture is lambda * uniform(operands) + (1 - lambda) * uniform(result). There are two definitions of an operand, shown
for `20*1.20=24`, whose tokens are 20 * 1 . 20 = 24:

    semantics   operands are                                        24       20       each other
    paper       distinct ids that are not the result's              0.8000   0.0400   0.0400
    published   all ids; each has 1/7, but a repeat is not added    0.8529   0.0294   0.0294

`paper` is the default because only there the result has exactly 1 - lambda, whatever the length of the step and its repeats.
There, an operand that is also the result (5*1=5) counts only as result; in the other its two shares add up. A result of several
tokens shares its mass equally among distinct tokens (paper), or each has 1/n once (published).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import Field

from ruplar.priors.base import even, ids_of_span, sparse
from ruplar.settings import Settings
from ruplar.types import Encode, Span, SparsePrior


class Config(Settings):
    """Settings of the mixture prior."""

    operand_share: float = Field(0.2, ge=0, le=1, description="Probability mass of the operands: the paper's lambda.")
    # differs from the paper: D2. Its code is `published`, which is not the default
    semantics: Literal["paper", "published"] = Field(
        "paper",
        description="Definition of an operand: a distinct id that is not in the result (paper), or that of the authors' code, "
        "where repeats lose mass (published).",
    )


@dataclass
class Prior:
    """operand_share over the operands, 1 - operand_share over the result."""

    config: Config
    dynamic: bool = False

    def build(self, span: Span, encode: Encode, rng: np.random.Generator) -> SparsePrior:
        """Return the prior of one span; `rng` is not used. Without operands, the result has all the mass."""
        keys, results = ids_of_span(span, encode)
        if not results:
            return even(keys)
        if self.config.semantics == "paper":
            keys = [i for i in keys if i not in results]
        if not keys:
            return even(results)
        share = self.config.operand_share
        weights = {i: share * weight for i, weight in _spread(keys, self.config.semantics).items()}
        for i, weight in _spread(results, self.config.semantics).items():
            weights[i] = weights.get(i, 0.0) + (1 - share) * weight
        return sparse(weights)


def _spread(ids: Sequence[int], semantics: str) -> dict[int, float]:
    """Ids with repeats → weight of each distinct one; they sum to 1 except under `published`."""
    distinct = dict.fromkeys(ids)
    return dict.fromkeys(distinct, 1 / len(ids if semantics == "published" else distinct))
