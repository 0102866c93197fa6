"""Seed and count → logic problems without forks: every person and concept is one thing only, and one of two concepts follows.

    Tom is a terpus. Every gorpus is a lempus. Eva is a gorpus. Every terpus is a brimpus. Is Tom a lempus or brimpus?
    <<Tom is a terpus.>> <<Every terpus is a brimpus.>>   Tom is a brimpus.

`logic-problems` has forks, as ProsQA does, at which the chain has to look ahead. Here each step follows from the one before; the
difficulty is to look up the right fact among many, up to five times in a row. Words and splits are those of `logic-problems`.
"""

from collections.abc import Iterator
from typing import Any

from ruplar.problems import logic_problems
from ruplar.problems.logic_graphs import draw_ways
from ruplar.types import Example

_SALT = 0x3A75


def generate(count: int, seed: int, **which: Any) -> Iterator[Example]:
    """Write `count` problems, `logic-ways:SEED:INDEX`; the other arguments are those of `logic_problems.generate`."""
    return logic_problems.generate(count, seed, **which, draw=draw_ways, name="logic-ways", salt=_SALT)
