"""One span per operation: `16-3-4=9` is `16-3=13`, then `13-4=9`, so each latent computes one operation.

A step is split only if every intermediate result is a single token. `600*30/100=180` is one span: 18000 is more than one
token, as are the 0.3 of `30/100*600=180` and the -3 of `2-5+9=6`. A latent that mixes the tokens of a number loses
their order. In a domain without `operations` (domains/base.py) this rule is the same as `step`.
"""

from dataclasses import dataclass

from ruplar.domains.base import Domain
from ruplar.settings import Settings
from ruplar.spans.base import Attached, Pieces, whole
from ruplar.types import Span


class Config(Settings):
    """No settings."""


@dataclass
class Spans(Attached):
    """One span per operation."""

    config: Config

    def cut(self, step: str, domain: Domain) -> list[Span]:
        """Step → one span per operation, or one span if an intermediate result is not a single token; [] without symbols."""
        assert self.pieces is not None, "call attach first"
        # differs from the paper: D76. It has one latent per step, for any number of operations
        return [span for part in split_operations(step, domain, self.pieces) for span in whole(part, domain)]


def split_operations(step: str, domain: Domain, pieces: Pieces) -> list[str]:
    """Step → one step per operation; the step itself if an intermediate result is not a single token."""
    operations = getattr(domain, "operations", None)
    parts = operations(step) if operations is not None else [step]
    intermediate = [domain.result(part) for part in parts[:-1]]
    return [step] if any(len(result) != 1 or len(pieces(result[0])) != 1 for result in intermediate) else parts
