"""Two spans per step: everything left of the last `=`, then `=` and the result. The paper's equal split.

Neither span has a result to emphasise: the second one *is* the result. A step without a result (`3+4`, `3+4=`) is one span;
the published code groups it wrongly.
"""

from dataclasses import dataclass

from ruplar.domains.base import Domain
from ruplar.settings import Settings
from ruplar.spans.base import whole
from ruplar.types import Span


class Config(Settings):
    """No settings."""


@dataclass
class Spans:
    """Two spans per step, split at the last `=`."""

    config: Config

    def cut(self, step: str, domain: Domain) -> list[Span]:
        """Step → `[left, = right]`; one span without a result; [] without symbols."""
        left, equals, right = step.rpartition("=")
        if not equals or not domain.symbols(right) or not domain.result(step):
            return whole(step, domain)
        pieces = (left.strip(), equals + right)
        return [Span(text, tuple(found)) for text in pieces if (found := domain.symbols(text))]
