"""Step → spans: what every way of cutting promises, and the span that is a whole step."""

from __future__ import annotations

from typing import Any, Protocol

from ruplar.domains.base import Domain
from ruplar.records import Span


class Spans(Protocol):
    """A way of cutting a step into the pieces that become one latent each."""

    config: Any

    def cut(self, step: str, domain: Domain) -> list[Span]:
        """The spans of one step in order. A step without any symbol has none, so it gets no latent."""


def whole(step: str, domain: Domain) -> list[Span]:
    """The step as one span with its result; [] when the domain finds no symbol in it."""
    symbols = tuple(domain.symbols(step))
    return [Span(step, symbols, tuple(domain.result(step)))] if symbols else []
