"""Loss parts and metrics of every micro-batch → sums on the device, read once per log row; and a guard that stops bad runs.

Reading a number from the device stalls it, so nothing is read between log rows. For each value the first step at which it
was not finite is stored too. The guard stops a run for one of three causes: a loss part or the gradient norm is not finite;
the latents have collapsed (the same token with certainty for every question, against the prior); the model ends every
thought before it begins. Collapse is judged over a window of rows, so that a short episode does not stop a run.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ruplar.errors import TrainingStopped

RATIOS = {
    "halting": ("halt_right", "halt_seen"),
    "entropy": ("entropy_sum", "latents"),
    "went_on": ("went_on", "latents"),
    "same_top": ("same_top", "latents"),
    "label_accuracy": ("label_right", "labels"),
}
"""Metric → the two counts of its ratio: correct halting decisions, nats per latent, latents whose most likely token is not the
halt token, latents that share one most likely token, correct label tokens."""

NORM = "gradient norm"
RESERVED = ("kind", "step", "epoch", "loss", "grad_norm", "learning_rate", "tokens_per_second", "memory_gb")
"""Names of other columns of a log row, not allowed for loss parts and metrics."""
_SAVED = ("parts", "names", "steps", "tokens", "seconds")


@dataclass
class MetricSnapshot:
    """Content of a metric accumulator."""

    steps: int  # optimizer steps covered
    parts: dict[str, float]  # loss part → mean over the steps
    figures: dict[str, float]  # the `RATIOS`; other metrics as a mean per step
    tokens: int  # positions trained on
    bad_at: dict[str, int]  # part or gradient norm → the first step at which it was not finite

    @property
    def loss(self) -> float:
        return sum(self.parts.values())


@dataclass
class MetricAccumulator:
    """Running sums of named values."""

    parts: tuple[str, ...] = ()  # names of the loss parts among `names`
    names: tuple[str, ...] = ()  # all names, in the order of `sums`
    sums: Tensor = field(default_factory=lambda: torch.zeros(0))  # [N] float32
    # [N + 1] first step at which each value, and last the gradient norm, was not finite; else inf
    bad_at: Tensor = field(default_factory=lambda: torch.full((1,), math.inf))
    steps: int = 0  # optimizer steps counted
    tokens: int = 0  # tokens of earlier log rows, over all processes
    seconds: float = 0.0  # duration of the run, including sessions before a resume

    def add(self, parts: Mapping[str, Tensor], watch: Mapping[str, Tensor], step: int) -> None:
        row = torch.stack([value.detach().float() for value in (*parts.values(), *watch.values())])
        if not self.names:
            both = sorted({*parts, *watch} & {*RESERVED})
            assert not both, f"a method must not name a loss part or metric {both[0]!r}: the name is reserved"
            self.parts, self.names = tuple(parts), (*parts, *watch)
            self.sums, self.bad_at = torch.zeros_like(row), row.new_full((len(row) + 1,), math.inf)
        assert self.names == (*parts, *watch), "a method's loss parts and metrics must be the same in every batch"
        self.sums = self.sums.to(row.device) + row
        self._note(row, slice(0, -1), step)

    def add_norm(self, norm: Tensor, step: int) -> None:
        self._note(norm.detach().reshape(1), slice(-1, None), step)

    def _note(self, values: Tensor, place: slice, step: int) -> None:
        self.bad_at = self.bad_at.to(values.device)
        when = torch.where(values.isfinite(), math.inf, float(step))
        self.bad_at[place] = torch.minimum(self.bad_at[place], when)

    def read(self, gather: Callable[[Tensor], Tensor] | None = None) -> MetricSnapshot:
        """Return the sums so far, over all processes if `gather` ([1, ...] → [processes, ...]) is given."""
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
        """Start the next log row; `tokens` is the count of the last one."""
        self.tokens += tokens
        self.sums, self.bad_at, self.steps = torch.zeros_like(self.sums), torch.full_like(self.bad_at, math.inf), 0

    def save(self, file: Path, gather: Callable[[Tensor], Tensor] | None, write: bool) -> None:
        """Save the sums of an unfinished log row, so that a resumed curve equals an uninterrupted one. All processes call it."""
        sums = gather(self.sums[None]).sum(0) if gather else self.sums
        if write:
            saved = {name: getattr(self, name) for name in _SAVED} | {"sums": sums.tolist()}
            file.write_text(json.dumps(saved), encoding="utf-8")

    @classmethod
    def load(cls, file: Path, main: bool) -> MetricAccumulator:
        saved: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        sums = torch.tensor(saved["sums"], dtype=torch.float32)
        bad_at = torch.full((len(sums) + 1,), math.inf)
        sums = sums if main else torch.zeros_like(sums)
        accumulator = cls(sums=sums, bad_at=bad_at, **{name: saved[name] for name in _SAVED})
        accumulator.parts, accumulator.names = tuple(accumulator.parts), tuple(accumulator.names)
        return accumulator


def _figures(values: Mapping[str, float], steps: int) -> dict[str, float]:
    used = {name for pair in RATIOS.values() for name in pair}
    ratios = {f: values[a] / values[b] for f, (a, b) in RATIOS.items() if a in values and values.get(b)}
    return {**ratios, **{name: value / steps for name, value in values.items() if name not in used}}


LastGood = Callable[[], Path | None]
"""Returns the newest complete checkpoint; called only when a run is stopped."""


@dataclass
class Guard:
    """Stops a run that has gone wrong."""

    window: int = 5  # consecutive log rows that must look collapsed
    entropy: float = 0.05  # latents are collapsed if their mean entropy is below this many nats,
    # … the prior loss is above this (a confident latent that agrees with its prior has almost none),
    prior: float = 0.5
    same: float = 0.99  # … and at least this share of them has the same most likely token
    # a thought counts as empty if less than this share of latents is preferred to the halt token
    went_on: float = 0.01
    warm_up: float = 0.1  # share of the run before which halting is not judged: the markers are still being learned
    collapse: bool = True  # whether a collapse stops the run; NaN always does

    def __post_init__(self):
        self._collapsed: deque[bool] = deque(maxlen=self.window)
        self._halted: deque[bool] = deque(maxlen=self.window)

    def check_finite(self, bad_at: Mapping[str, int], learning_rate: float | None, last_good: LastGood) -> None:
        """Stop if a loss part or the gradient norm was not finite."""
        if not bad_at:
            return
        step = min(bad_at.values())
        names = [name for name, at in bad_at.items() if at == step]
        losses = [name for name in names if name != NORM]
        what = f"the {' and '.join(losses)} loss" if losses else f"the {NORM}"
        rate = f" (now {learning_rate:.1e})" if learning_rate is not None else ""
        raise TrainingStopped(
            f"training stopped: {what} became NaN or infinite at step {step}. Lower training.learning_rate{rate}, "
            f"or compute in float32 (backbone.dtype: float32, training.bf16: false). {_checkpoint(last_good)}"
        )

    def check_row(self, row: Mapping[str, float], progress: float, last_good: LastGood) -> None:
        """Stop if the latents have collapsed."""
        if "entropy" not in row or not self.collapse:  # a method without latents, or the check is off
            return
        certain = row["entropy"] < self.entropy and row.get("prior", 0.0) > self.prior
        self._collapsed.append(certain and row.get("same_top", 1.0) >= self.same)
        self._halted.append(progress >= self.warm_up and row.get("went_on", 1.0) < self.went_on)
        if self._full(self._collapsed):
            raise TrainingStopped(
                f"training stopped: the latents have collapsed. Over the last {self.window} log rows every latent predicts "
                f"the same token for every question (entropy {row['entropy']:.3f} nats, prior loss {row['prior']:.2f}). "
                "If that loss is still falling, raise training.learning_rate; otherwise lower it, raise method.prior_weight or lower "
                f"method.align_weight. {_checkpoint(last_good)}"
            )
        if self._full(self._halted):
            raise TrainingStopped(
                f"training stopped: over the last {self.window} log rows the model ends every thought before it begins "
                f"({row['went_on']:.1%} of latents are preferred to </think>). Lower training.learning_rate, raise "
                f"method.prior_weight, or check with `ruplar preview` that the chains have steps. {_checkpoint(last_good)}"
            )

    def _full(self, rows: deque[bool]) -> bool:
        return len(rows) == self.window and all(rows)


def finite(value: float) -> float | None:
    """Return the value, or None if JSON cannot represent it."""
    return value if math.isfinite(value) else None


def _checkpoint(last_good: LastGood) -> str:
    found = last_good()
    return f"Last good checkpoint: {found}." if found else "No checkpoint had been saved yet."
