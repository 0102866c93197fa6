"""Two spans a step: what stands left of the last `=`, then the `=` with what it states. The paper's equal split.

Neither span favours a result: the second one *is* the result. A step that states none (`3+4`, `3+4=`) stays whole, as
`step` keeps it; the published code makes wrong groups of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ruplar.domains.base import Domain
from ruplar.settings import Settings
from ruplar.spans.base import whole
from ruplar.types import Span


class Config(Settings):
    """Nothing to set."""


@dataclass
class Spans:
    """Parts each step at its last `=`."""

    config: Config

    def cut(self, step: str, domain: Domain) -> list[Span]:
        """Step → `[left, = right]`, both uniform; one span where there is no `=`; [] when it holds no symbol."""
        left, equals, right = step.rpartition("=")
        if not equals or not domain.symbols(right) or not domain.result(step):
            return whole(step, domain)
        pieces = (left.strip(), equals + right)
        return [Span(text, tuple(found)) for text in pieces if (found := domain.symbols(text))]
