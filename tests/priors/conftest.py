"""A toy tokenizer and the spans of the worked examples."""

import re

import numpy as np
import pytest

from ruplar.types import Span, SparsePrior


class ToyTokenizer:
    """Digits in groups of three from the left, every other character alone; ids count up from 100 as pieces appear."""

    def __init__(self):
        self.pieces: dict[str, int] = {}

    def encode(self, text: str) -> list[int]:
        found = re.findall(r"\d{1,3}|\S", text)
        return [self.pieces.setdefault(p, 100 + len(self.pieces)) for p in found]

    def named(self, prior: SparsePrior) -> dict[str, float]:
        """Piece → probability."""
        names = {i: piece for piece, i in self.pieces.items()}
        return {names[i]: p for i, p in zip(prior.ids.tolist(), prior.probs.tolist(), strict=True)}


@pytest.fixture
def toy() -> ToyTokenizer:
    return ToyTokenizer()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def vector() -> Span:
    """`20*1.20=24` by the exact rule: a number is one symbol."""
    return Span("20*1.20=24", ("20", "*", "1.20", "=", "24"), ("24",))
