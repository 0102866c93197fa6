"""One span per token of a step's result, in order: `1000+234=1234` is `1000 + 234 = 123`, then `4`.

The first span has the operands and the first token of the result; each other one has one token of the result. A step whose
result is a single token is one span, and so is one with a symbol whose tokens are not text on their own (parts of a
character).
"""

from dataclasses import dataclass

from ruplar.domains.base import Domain
from ruplar.settings import Settings
from ruplar.spans.base import Attached, whole
from ruplar.types import Span


class Config(Settings):
    """No settings."""


@dataclass
class Spans(Attached):
    """One span per token of the result, which keeps their order."""

    config: Config

    def cut(self, step: str, domain: Domain) -> list[Span]:
        """Step → one span per token of its result; one span without a result; [] without symbols."""
        assert self.pieces is not None, "call attach first"
        spans = whole(step, domain)
        result = spans[0].result if spans else ()
        # differs from the paper: D60. It mixes all tokens of a result into one latent, where their order is lost
        first, *rest = [piece for symbol in result for piece in self.pieces(symbol)] or [""]
        if not rest or spans[0].symbols[-len(result) :] != result:
            return spans
        operands = spans[0].symbols[: -len(result)]
        return [Span(step, (*operands, first), (first,)), *(Span(piece, (piece,), (piece,)) for piece in rest)]
