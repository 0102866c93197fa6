"""Loss parts and figures of every micro-batch → sums on the device, read once per log row.

Reading a number from the device stalls it, so nothing is read between rows: sums grow where they are, and for each
value the first step at which it was not finite is remembered beside it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

RATIOS = {
    "halting": ("halt_right", "halt_seen"),
    "entropy": ("entropy_sum", "latents"),
    "went_on": ("went_on", "latents"),
    "same_top": ("same_top", "latents"),
    "label_accuracy": ("label_right", "labels"),
}
"""Figure → the counts it is the ratio of: right decisions to halt or go on, nats per latent, latents whose likeliest token
is not the halt, latents that share one likeliest token, right label tokens."""

NORM = "gradient norm"
TAKEN = ("kind", "step", "epoch", "loss", "grad_norm", "learning_rate", "tokens_per_second", "memory_gb")
"""What a row of the curve calls something else: no loss part or figure may be named so."""
_KEPT = ("parts", "names", "steps", "tokens", "seconds")


@dataclass
class MetricSnapshot:
    """What a tally held.

    Attributes:
        steps: Optimiser steps it covers.
        parts: Loss part → its mean over the steps.
        figures: The `RATIOS`; other watched values as a mean per step.
        tokens: Positions trained on.
        bad_at: Part or gradient norm → the first step at which it was not finite; empty when all is well.
    """

    steps: int
    parts: dict[str, float]
    figures: dict[str, float]
    tokens: int
    bad_at: dict[str, int]

    @property
    def loss(self) -> float:
        """The sum of the parts."""
        return sum(self.parts.values())


@dataclass
class MetricAccumulator:
    """Running sums of named values.

    Attributes:
        parts: Names of the loss parts among `names`.
        names: All names, in the order of `sums`.
        sums: [N] float32.
        bad_at: [N + 1] first step each was not finite, then the gradient norm; inf while all are.
        steps: Optimiser steps counted.
        tokens: Tokens of the rows already read, over all processes.
        seconds: How long the run has taken, sessions before a resume included.
    """

    parts: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    sums: Tensor = field(default_factory=lambda: torch.zeros(0))
    bad_at: Tensor = field(default_factory=lambda: torch.full((1,), math.inf))
    steps: int = 0
    tokens: int = 0
    seconds: float = 0.0

    def add(self, parts: Mapping[str, Tensor], watch: Mapping[str, Tensor], step: int) -> None:
        """Count one micro-batch of optimiser step `step`."""
        row = torch.stack([value.detach().float() for value in (*parts.values(), *watch.values())])
        if not self.names:
            both = sorted({*parts, *watch} & {*TAKEN})
            assert not both, f"a method names a loss part or figure {both[0]!r}, which a row calls something else"
            self.parts, self.names = tuple(parts), (*parts, *watch)
            self.sums, self.bad_at = torch.zeros_like(row), row.new_full((len(row) + 1,), math.inf)
        assert self.names == (*parts, *watch), "a method's loss parts and figures are the same in every batch"
        self.sums = self.sums.to(row.device) + row
        self._note(row, slice(0, -1), step)

    def add_norm(self, norm: Tensor, step: int) -> None:
        """Note the gradient norm of step `step`."""
        self._note(norm.detach().reshape(1), slice(-1, None), step)

    def _note(self, values: Tensor, place: slice, step: int) -> None:
        self.bad_at = self.bad_at.to(values.device)
        when = torch.where(values.isfinite(), math.inf, float(step))
        self.bad_at[place] = torch.minimum(self.bad_at[place], when)

    def read(self, gather: Callable[[Tensor], Tensor] | None = None) -> MetricSnapshot:
        """What was counted so far, over all processes when `gather` ([1, ...] → [processes, ...]) is given."""
        table = torch.stack([torch.cat([self.sums, self.sums.new_zeros(1)]), self.bad_at])[None]
        table = gather(table) if gather else table
        sums, bad_at = torch.stack([table[:, 0].sum(0), table[:, 1].amin(0)]).tolist()
        values = dict(zip(self.names, sums, strict=False))
        steps = max(self.steps, 1)
        return MetricSnapshot(
            steps=self.steps,
            parts={name: values[name] / steps for name in self.parts},
            figures=_figures({k: v for k, v in values.items() if k not in self.parts and k != "tokens"}, steps),
            tokens=int(values.get("tokens", 0)),
            bad_at={n: int(at) for n, at in zip((*self.names, NORM), bad_at, strict=False) if at != math.inf},
        )

    def reset(self, tokens: int) -> None:
        """Start counting the next row afresh; `tokens` were read of this one."""
        self.tokens += tokens
        self.sums, self.bad_at, self.steps = torch.zeros_like(self.sums), torch.full_like(self.bad_at, math.inf), 0

    def save(self, file: Path, gather: Callable[[Tensor], Tensor] | None, write: bool) -> None:
        """Keep the sums of a row not yet logged, so that a resumed curve is the uninterrupted one. All processes call it."""
        sums = gather(self.sums[None]).sum(0) if gather else self.sums
        if write:
            kept = {name: getattr(self, name) for name in _KEPT} | {"sums": sums.tolist()}
            file.write_text(json.dumps(kept), encoding="utf-8")

    @classmethod
    def load(cls, file: Path, main: bool) -> MetricAccumulator:
        """What `save` kept; the sums belong to the main process, the others start at 0."""
        kept: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        sums = torch.tensor(kept["sums"], dtype=torch.float32)
        bad_at = torch.full((len(sums) + 1,), math.inf)
        accumulator = cls(sums=sums if main else torch.zeros_like(sums), bad_at=bad_at, **{n: kept[n] for n in _KEPT})
        accumulator.parts, accumulator.names = tuple(accumulator.parts), tuple(accumulator.names)
        return accumulator


def _figures(values: Mapping[str, float], steps: int) -> dict[str, float]:
    used = {name for pair in RATIOS.values() for name in pair}
    ratios = {f: values[a] / values[b] for f, (a, b) in RATIOS.items() if a in values and values.get(b)}
    return {**ratios, **{name: value / steps for name, value in values.items() if name not in used}}
