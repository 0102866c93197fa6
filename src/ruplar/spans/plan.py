"""One span an operation, of what it sets out from: the last result, and what is to be done with it; the answer is the last.

    39+47=86, 86-20=66     operation     86 (of 39 + 47)     66 (of 86 - 20)     and 66 is the answer
                           plan          39 (then + 47)      86 (then - 20)      and 66 is the answer

A latent that holds a step's result has to find the step's numbers in the question and compute with them at once, and the
answer then says the last latent again. Here the first latent only finds, every other one computes what the latent before it
has laid out and finds the next, and the answer computes: as many latents, and none of them for what is said anyway.

A span favours the result of the operation before it, or the first one's first number; its other symbols are those of its own
operation up to its `=`. A result of several tokens is a span a token, in order, the last of which has the symbols.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import Field

from ruplar.domains.base import Domain
from ruplar.settings import Settings
from ruplar.spans.base import Attached
from ruplar.spans.every_k import grouped
from ruplar.spans.operation import taken_apart
from ruplar.types import Span


class Config(Settings):
    """Settings of the plan."""

    symbols: int = Field(
        0, ge=0, description="Symbols of an operation in its span, from the first: 2 is a number and a sign; 0: all."
    )


@dataclass
class Spans(Attached):
    """Lays out what an operation computes with, one latent before it is computed."""

    config: Config

    def cut(self, step: str, domain: Domain) -> list[Span]:
        """A step as a chain of its own: its result is left to the answer."""
        return self.cut_chain([step], domain)[0]

    def cut_chain(self, steps: Sequence[str], domain: Domain) -> list[list[Span]]:
        """Steps → the spans of each; a step without any symbol has none, and what came before it is still to be said."""
        assert self.pieces is not None, "attach comes first"
        # differs from the paper: D77. A latent there favours what its own step comes to
        out: list[list[Span]] = []
        before: tuple[str, ...] = ()
        for step in steps:
            out.append([])
            for part in taken_apart(step, domain, self.pieces):
                left, equals, right = part.rpartition("=")
                symbols = [symbol for (symbol,) in grouped(domain.symbols(left if equals else right), 1)]
                if symbols:
                    out[-1] += self._spans(before, symbols, left + equals or right)
                    before = tuple(domain.result(part))
        return out

    def _spans(self, before: tuple[str, ...], symbols: list[str], text: str) -> list[Span]:
        """What the last operation came to, token by token, and with the last of them the symbols of this one."""
        assert self.pieces is not None
        kept = symbols[: self.config.symbols or None]
        *first, last = [piece for symbol in before for piece in self.pieces(symbol)] or kept[:1]
        held = tuple(kept) if last in kept else (last, *kept)
        return [*(Span(piece, (piece,), (piece,)) for piece in first), Span(text, held, (last,))]
