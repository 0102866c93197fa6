"""A block of latents a step: what the step before came to, then what this one computes with.

    39+47=86, 86-20=66     is     = 39 + 47 = =     86 = - 20 = =     and 66 is the answer

A forward that makes such a block (`method.block`, as wide as `width`) finds the numbers of a step while it computes the
result of the one before, whose numbers then stand in front of it; one latent a step must find and compute at once. Within a
step `=` stands for the result just before it, so that no number is computed twice in one forward; before the first step and
in places left over it stands for nothing. The last result is left to the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from pydantic import Field

from ruplar.domains.base import Domain
from ruplar.settings import Settings
from ruplar.spans.base import Pieces
from ruplar.spans.every_k import grouped
from ruplar.types import Span

NOTHING = "="
"""What stands where a block has nothing to say, and for the result that opens it."""


class Config(Settings):
    """Settings of the blocks."""

    width: int = Field(6, ge=2, le=16, description="Latents of every block; what does not fit shares the last one.")
    k: int = Field(1, ge=1, description="Symbols of a step that share one latent.")


@dataclass
class Spans:
    """One block of `width` spans a step, each uniform."""

    config: Config
    filler: ClassVar[str] = NOTHING
    _pieces: Pieces | None = field(default=None, repr=False)

    def attach(self, pieces: Pieces) -> None:
        """Learn how the tokenizer writes numbers: one of two tokens takes two places, in their order."""
        self._pieces = pieces

    def cut(self, step: str, domain: Domain) -> list[Span]:
        """A step as a chain of its own: its result is left to the answer."""
        return self.cut_chain([step], domain)[0]

    def cut_chain(self, steps: Sequence[str], domain: Domain) -> list[list[Span]]:
        """Steps → the block of each."""
        # differs from the paper: D73. It makes one latent a forward
        out: list[list[Span]] = []
        before: list[str] = []
        for step in steps:
            left, equals, right = step.rpartition("=")
            symbols = _symbols(domain.symbols(left if equals else right))
            taken_up = [NOTHING if [symbol] == before else symbol for symbol in symbols]
            places = self._written(taken_up)
            groups = [tuple(places[at : at + self.config.k]) for at in range(0, len(places), self.config.k)]
            block = self._fitted([*((piece,) for piece in self._written(before or [NOTHING])), *groups])
            out.append([Span(" ".join(group), group) for group in block] if symbols else [])
            before = _symbols(domain.result(step))
        return out

    def _written(self, symbols: Sequence[str]) -> list[str]:
        """The tokens of symbols, in order."""
        return [piece for symbol in symbols for piece in (self._pieces(symbol) if self._pieces else (symbol,))]

    def _fitted(self, groups: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
        """As many groups as a block has places."""
        width = self.config.width
        last = tuple(symbol for group in groups[width - 1 :] for symbol in group) or (NOTHING,)
        filled = groups[: width - 1] + [(NOTHING,)] * (width - 1 - len(groups))
        return [*filled, last]


def _symbols(symbols: Sequence[str]) -> list[str]:
    """Symbols, a decimal number as one of them."""
    return [symbol for (symbol,) in grouped(symbols, 1)]
