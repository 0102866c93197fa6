"""Learned prior (ablation): the logit grows with a token's position in the span, with Gumbel noise.

Token t of n (counted from 0) has the score low + rise * t / n. The scores are averaged to one logit for all tokens of the
span and one for its result, so a result, which comes last, has more weight in longer steps. For `20*1.20=24`, 7
tokens: the span 1.5 + 1.5 * 3/7 = 2.143, the result 1.5 + 1.5 * 6/7 = 2.786.

Nothing is learned; the name is the paper's. Positions are those of tokens. The authors' code looks for them in the step
split at spaces, finds none in GSM8k-Aug, and so trains its uniform prior under this name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import Field

from ruplar.priors import uniform
from ruplar.priors.base import two_logits
from ruplar.types import Span


class Config(uniform.Config):
    """Settings of the learned prior."""

    low: float = Field(1.5, description="Score of a span's first token.")
    rise: float = Field(1.5, ge=0, description="Increase of the score from the first token to the end of the span.")


@dataclass
class Prior(uniform.Prior):
    """softmax((mean score + Gumbel(0, 1)) / temperature), one mean for the span and one for its result."""

    config: Config

    def logits(self, span: Span, keys: Sequence[int], results: Sequence[int]) -> Mapping[int, float]:
        # differs from the paper: D4. Token positions; its code finds none in GSM8k-Aug and trains the uniform prior
        operand = self._score(range(len(keys)), len(keys))
        result = self._score(_positions(keys, results, span), len(keys))
        return two_logits(keys, results, operand, result)

    def _score(self, positions: Sequence[int], length: int) -> float:
        return self.config.low + self.config.rise * sum(positions) / len(positions) / length


def _positions(keys: Sequence[int], results: Sequence[int], span: Span) -> Sequence[int]:
    """Return the positions of the result among the span's tokens: its last occurrence (5*1=5 has two)."""
    n = len(results)
    for start in range(len(keys) - n, -1, -1):
        if list(keys[start : start + n]) == list(results):
            return range(start, start + n)
    raise ValueError(f"span {span.text!r}: its result {' '.join(span.result)!r} is not among its symbols.")
