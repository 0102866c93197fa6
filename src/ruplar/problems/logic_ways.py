"""Seed and count → logic problems without forks: everybody and everything is one thing only, and one of two concepts follows.

    Tom is a terpus. Every gorpus is a lempus. Eva is a gorpus. Every terpus is a brimpus. Is Tom a lempus or brimpus?
    <<Tom is a terpus.>> <<Every terpus is a brimpus.>>   Tom is a brimpus.

`logic-problems` fork, as ProsQA's do: at each fork the chain takes the fact that leads on, which only looking ahead tells. Here each
step follows from the one before; what is hard is to look up the right fact among many, up to five times in a row. Words and
parts are those of `logic-problems`, and as there two sides are drawn alike, so that only following facts tells the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ruplar.problems import logic_problems
from ruplar.problems.logic_problems import DOMAIN, verify
from ruplar.problems.logic_problems.shape import draw_ways
from ruplar.types import Example

__all__ = ["DOMAIN", "generate", "verify"]

_SALT = 0x3A75


def generate(count: int, seed: int, **which: Any) -> Iterator[Example]:
    """Write `count` problems, `logic-ways:SEED:INDEX`; the other arguments are those of `logic_problems.generate`."""
    return logic_problems.generate(count, seed, **which, draw=draw_ways, name="logic-ways", salt=_SALT)
