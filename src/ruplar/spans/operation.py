"""One span an operation: `16-3-4=9` is `16-3=13`, then `13-4=9`, so that no latent has more than one thing to work out.

A step is taken apart where every result on the way is a single token. `600*30/100=180` stays whole: 18000 is more than one
token, as are the 0.3 of `30/100*600=180` and the -3 of `2-5+9=6`, and a latent that mixes the tokens of a number loses their
order. A domain that does not take its steps apart (`operations`, domains/base.py) has them whole, as `step` has.
"""

from __future__ import annotations

from dataclasses import dataclass

from ruplar.domains.base import Domain
from ruplar.settings import Settings
from ruplar.spans.base import Attached, Pieces, whole
from ruplar.types import Span


class Config(Settings):
    """Nothing to set."""


@dataclass
class Spans(Attached):
    """Takes steps of several operations apart."""

    config: Config

    def cut(self, step: str, domain: Domain) -> list[Span]:
        """Step → one span an operation, or one in all where a result on the way is no single token; [] without any symbol."""
        assert self.pieces is not None, "attach comes first"
        # differs from the paper: D76. It has one latent a step, however much the step works out
        return [span for part in taken_apart(step, domain, self.pieces) for span in whole(part, domain)]


def taken_apart(step: str, domain: Domain, pieces: Pieces) -> list[str]:
    """Step → its operations as steps of their own; the step alone where a result on the way is no single token."""
    apart = getattr(domain, "operations", None)
    parts = apart(step) if apart is not None else [step]
    on_the_way = [domain.result(part) for part in parts[:-1]]
    return [step] if any(len(result) != 1 or len(pieces(result[0])) != 1 for result in on_the_way) else parts
