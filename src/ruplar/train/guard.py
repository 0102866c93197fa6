"""Log rows of a run → `TrainingStopped` when going on would waste it, with the cause and what to try.

Three causes: a loss part or the gradient norm is not finite; the latents have collapsed (the same token with certainty
for every question, and not because that is what the prior says); the model ends every thought before it begins.
Collapse is judged over a window of rows, so that an early or a short episode does not count.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ruplar.errors import TrainingStopped
from ruplar.train.metrics import NORM

LastGood = Callable[[], Path | None]
"""Looks for the newest complete checkpoint; only asked when a run is stopped."""


@dataclass
class Guard:
    """Watches one run.

    Attributes:
        window: Rows in a row that must look collapsed.
        entropy: Latents are certain below so many nats on average.
        prior: … and wrong above this prior loss. A confident latent that agrees with its prior has next to none.
        same: … and alike when this share of them has one likeliest token.
        went_on: The thought never begins when fewer latents than this share are preferred to the halt.
        warm_up: Share of the run before which halting is not judged: the markers are still being learnt.
        collapse: Whether a collapse stops the run at all; what is not finite always does.
    """

    window: int = 5
    entropy: float = 0.05
    prior: float = 0.5
    same: float = 0.99
    went_on: float = 0.01
    warm_up: float = 0.1
    collapse: bool = True
    _collapsed: deque[bool] = field(default_factory=deque, init=False, repr=False)
    _halted: deque[bool] = field(default_factory=deque, init=False, repr=False)

    def check_finite(self, bad_at: Mapping[str, int], learning_rate: float | None, last_good: LastGood) -> None:
        """Stop when anything was not finite.

        Args:
            bad_at: Part or gradient norm → the first step at which it was not finite.
            learning_rate: The present one, for the advice.
            last_good: Gives the last checkpoint saved before.

        Raises:
            TrainingStopped: It names the part that failed first.
        """
        if not bad_at:
            return
        step = min(bad_at.values())
        names = [name for name, at in bad_at.items() if at == step]
        losses = [name for name in names if name != NORM]
        what = f"the {' and '.join(losses)} loss" if losses else f"the {NORM}"
        rate = f" (now {learning_rate:.1e})" if learning_rate is not None else ""
        raise TrainingStopped(
            f"training stopped: {what} became NaN or infinite at step {step}. Lower training.learning_rate{rate}, "
            f"or compute in float32 (backbone.dtype: float32, training.bf16: false). {_kept(last_good)}"
        )

    def check_row(self, row: Mapping[str, float], progress: float, last_good: LastGood) -> None:
        """Stop when the latents have collapsed.

        Args:
            row: One log row: loss parts and figures.
            progress: Share of the run that is done.
            last_good: Gives the last checkpoint.

        Raises:
            TrainingStopped: The window is full of collapsed rows.
        """
        if "entropy" not in row or not self.collapse:  # a method without latents, or a run to be seen to its end
            return
        certain = row["entropy"] < self.entropy and row.get("prior", 0.0) > self.prior
        self._push(self._collapsed, certain and row.get("same_top", 1.0) >= self.same)
        self._push(self._halted, progress >= self.warm_up and row.get("went_on", 1.0) < self.went_on)
        if self._full(self._collapsed):
            raise TrainingStopped(
                f"training stopped: the latents have collapsed. Over the last {self.window} log rows every latent predicts "
                f"the same token whatever the question (entropy {row['entropy']:.3f} nats, prior loss {row['prior']:.2f}). "
                f"Lower training.learning_rate, raise method.prior_weight or lower method.align_weight. {_kept(last_good)}"
            )
        if self._full(self._halted):
            raise TrainingStopped(
                f"training stopped: over the last {self.window} log rows the model ends every thought before it begins "
                f"({row['went_on']:.1%} of latents are preferred to </think>). Lower training.learning_rate, raise "
                f"method.prior_weight, or check with `ruplar preview` that the chains have steps. {_kept(last_good)}"
            )

    def _push(self, rows: deque[bool], value: bool) -> None:
        rows.append(value)
        while len(rows) > self.window:
            rows.popleft()

    def _full(self, rows: deque[bool]) -> bool:
        return len(rows) == self.window and all(rows)


def finite(value: float) -> float | None:
    """The value, or None where JSON has no word for it."""
    return value if math.isfinite(value) else None


def _kept(last_good: LastGood) -> str:
    found = last_good()
    return f"Last good checkpoint: {found}." if found else "No checkpoint had been saved yet."
