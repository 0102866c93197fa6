"""Two symbols a latent, each number written once: `39+47=86`, `86-20=66` is `39 +`, `47 =`, `86 -`, `20 =`, and 66 is the answer.

`every_k` with k=2 lays every number of a chain out for the model to compute with, which it learns far sooner than to find
and compute in one latent. But it thinks a result twice, once where it comes out and once where the next step takes it up,
and a third time as the answer. Here a result that the next step computes with is thought there alone, and the last one not at
all:

    every_k    39 +   47 =   86   86 -   20 =   66    66
    running    39 +   47 =   86 -   20 =              66
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ruplar.domains.base import Domain
from ruplar.settings import Settings
from ruplar.spans.every_k import grouped
from ruplar.types import Span


class Config(Settings):
    """Nothing to set."""


@dataclass
class Spans:
    """Groups the symbols of a chain by two and leaves out what stands there already."""

    config: Config

    def cut(self, step: str, domain: Domain) -> list[Span]:
        """A step as a chain of its own: its result is left to the answer."""
        return self.cut_chain([step], domain)[0]

    def cut_chain(self, steps: Sequence[str], domain: Domain) -> list[list[Span]]:
        """Steps → the spans of each; a result that the next step does not compute with is a span of its own."""
        parts = [_parts(step, domain) for step in steps]
        out: list[list[Span]] = []
        for at, (left, result) in enumerate(parts):
            # differs from the paper: D72. With k=2 it thinks every symbol of every step
            taken_up = at + 1 == len(parts) or set(result) <= set(parts[at + 1][0])
            groups = [*grouped(left, 2), *grouped(() if taken_up else result, 2)]
            out.append([Span(" ".join(group), group) for group in groups])
        return out


def _parts(step: str, domain: Domain) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Step → its symbols up to and with its last `=`, and those of its result; all of them and none where it states none."""
    result = tuple(domain.result(step))
    left, equals, _ = step.rpartition("=")
    if not result or not equals:
        return tuple(domain.symbols(step)), ()
    return (*domain.symbols(left), equals), result
