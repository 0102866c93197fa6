"""One span for every token of a step's result, in order: `1000+234=1234` is `1000 + = 123`, then `4`, so no digit is lost.

The first span holds the operands too, as `step` has them, and favours the result's first token; each other one is a token
of the result alone. How a result falls into tokens is the tokenizer's affair (`attach`); one of a single token leaves the
step whole, as does a symbol whose tokens cannot be written one by one (parts of a letter).
"""

from __future__ import annotations

from dataclasses import dataclass

from ruplar.domains.base import Domain
from ruplar.settings import Settings
from ruplar.spans.base import Attached, whole
from ruplar.types import Span


class Config(Settings):
    """Nothing to set."""


@dataclass
class Spans(Attached):
    """Keeps the order of a result of several tokens."""

    config: Config

    def cut(self, step: str, domain: Domain) -> list[Span]:
        """Step → one span a token of its result; one span where it states none; [] when it holds no symbol."""
        assert self.pieces is not None, "attach comes first"
        spans = whole(step, domain)
        result = spans[0].result if spans else ()
        # differs from the paper: D60. It mixes all tokens of a result into one latent, where their order is lost
        first, *rest = [piece for symbol in result for piece in self.pieces(symbol)] or [""]
        if not rest or spans[0].symbols[-len(result) :] != result:
            return spans
        operands = spans[0].symbols[: -len(result)]
        return [Span(step, (*operands, first), (first,)), *(Span(piece, (piece,), (piece,)) for piece in rest)]
