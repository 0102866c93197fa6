"""One span per step: `20*1.20=24` is one latent with the result 24. The paper's rule."""

from dataclasses import dataclass

from ruplar.domains.base import Domain
from ruplar.settings import Settings
from ruplar.spans.base import whole
from ruplar.types import Span


class Config(Settings):
    """No settings."""


@dataclass
class Spans:
    """One span per step."""

    config: Config

    def cut(self, step: str, domain: Domain) -> list[Span]:
        """Step → one span with its result; [] if it has no symbols."""
        return whole(step, domain)
