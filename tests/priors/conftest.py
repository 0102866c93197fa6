"""A toy tokenizer and the spans of the worked examples."""

import numpy as np
import pytest
from digit_tokenizer import DigitTokenizer

from ruplar.types import Span, SparsePrior


class ToyTokenizer(DigitTokenizer):
    """Digits in groups of three from the left, every other character alone."""

    def named(self, prior: SparsePrior) -> dict[str, float]:
        """Piece → probability."""
        return {self.known[i]: p for i, p in zip(prior.ids.tolist(), prior.probs.tolist(), strict=True)}


@pytest.fixture
def toy() -> ToyTokenizer:
    return ToyTokenizer(3)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def vector() -> Span:
    """`20*1.20=24` by the exact rule: a number is one symbol."""
    return Span("20*1.20=24", ("20", "*", "1.20", "=", "24"), ("24",))
