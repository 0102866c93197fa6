"""One span per operation, with its inputs: the running result and the next operation. The last result is the answer.

    39+47=86, 86-20=66     operation     86 (of 39 + 47)     66 (of 86 - 20)     and 66 is the answer
                           plan          39 (then + 47)      86 (then - 20)      and 66 is the answer

With `operation`, a latent has to find the numbers of its step in the question and compute with them at once, and the answer
repeats the last latent. With `plan`, the first latent only finds numbers, each later one computes the operation that the
latent before it set up and finds the next number, and the answer computes the last operation.

The result of a span is that of the previous operation, or the first number of the first one; its other symbols are those of
its own operation up to `=`. A result of several tokens is one span per token, in order; the last of these has the symbols.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import Field

from ruplar.domains.base import Domain
from ruplar.settings import Settings
from ruplar.spans.base import Attached
from ruplar.spans.every_k import grouped
from ruplar.spans.operation import split_operations
from ruplar.types import Span


class Config(Settings):
    """Settings of the plan rule."""

    symbols: int = Field(
        0, ge=0, description="First symbols of an operation in its span: 2 is a number and an operator; 0: all."
    )


@dataclass
class Spans(Attached):
    """One span per operation, with its inputs instead of its result."""

    config: Config

    def cut(self, step: str, domain: Domain) -> list[Span]:
        """Return the spans of a chain of one step; its result is left to the answer."""
        return self.cut_chain([step], domain)[0]

    def cut_chain(self, steps: Sequence[str], domain: Domain) -> list[list[Span]]:
        """Steps → the spans of each; a step without symbols has none."""
        assert self.pieces is not None, "call attach first"
        # differs from the paper: D77. There, a latent has the result of its own step
        out: list[list[Span]] = []
        before: tuple[str, ...] = ()
        for step in steps:
            out.append([])
            for part in split_operations(step, domain, self.pieces):
                left, equals, right = part.rpartition("=")
                symbols = [symbol for (symbol,) in grouped(domain.symbols(left if equals else right), 1)]
                if symbols:
                    out[-1] += self._spans(before, symbols, left + equals or right)
                    before = tuple(domain.result(part))
        return out

    def _spans(self, before: tuple[str, ...], symbols: list[str], text: str) -> list[Span]:
        """Return one span per token of the previous result; the last one also has the symbols of this operation."""
        assert self.pieces is not None
        shown = symbols[: self.config.symbols or None]
        *first, last = [piece for symbol in before for piece in self.pieces(symbol)] or shown[:1]
        own = tuple(shown) if last in shown else (last, *shown)
        return [*(Span(piece, (piece,), (piece,)) for piece in first), Span(text, own, (last,))]
