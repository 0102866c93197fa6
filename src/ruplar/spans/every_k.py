"""One span per k symbols of a step, without a result: `20*1.20=24` is `20 *`, `1.20 =`, `24` for k=2.

A decimal number counts as one symbol, also if the domain writes it as three (`1 . 20`). Groups never cross steps; the last
one may be shorter. A step with fewer than k symbols is one span with its result.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import Field

from ruplar.domains.base import Domain
from ruplar.settings import Settings
from ruplar.spans.base import whole
from ruplar.types import Span


class Config(Settings):
    """Settings of the every-k rule."""

    k: int = Field(2, ge=1, description="Symbols per latent.")


@dataclass
class Spans:
    """One span per k symbols."""

    config: Config

    def cut(self, step: str, domain: Domain) -> list[Span]:
        """Step → spans of k symbols, the last may be shorter; their text is the symbols, separated by spaces."""
        symbols = domain.symbols(step)
        if len(_join_decimals(symbols)) < self.config.k:
            return whole(step, domain)
        return [Span(" ".join(group), group) for group in grouped(symbols, self.config.k)]


def grouped(symbols: Sequence[str], k: int) -> list[tuple[str, ...]]:
    """Symbols → groups of k, a decimal number counted as one; the last group may be shorter."""
    joined = _join_decimals(symbols)
    return [tuple(joined[at : at + k]) for at in range(0, len(joined), k)]


def _join_decimals(symbols: Sequence[str]) -> list[str]:
    """`1 . 20` → `1.20`; other symbols are unchanged."""
    out: list[str] = []
    for symbol in symbols:
        if symbol.isdigit() and len(out) >= 2 and out[-1] == "." and out[-2].isdigit():
            out[-2:] = [f"{out[-2]}.{symbol}"]
        else:
            out.append(symbol)
    return out
