"""Work → how long it takes and how much memory it holds: medians with their spread, the device awaited each time."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ruplar.model.memory import forget_peak, peak_memory_gb


@dataclass(frozen=True)
class Spread:
    """Repeated measurements of one thing.

    Attributes:
        median: Their median.
        low: Their 10th percentile.
        high: Their 90th percentile.
        count: How many there are.
        values: They themselves.
    """

    median: float
    low: float
    high: float
    count: int
    values: tuple[float, ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """At least one value → its spread."""
        low, median, high = (float(np.quantile(values, q)) for q in (0.1, 0.5, 0.9))
        return cls(median, low, high, len(values), tuple(values))

    def fields(self, name: str, unit: str) -> dict[str, float]:
        """`ours_ms`, `ours_p10_ms`, `ours_p90_ms`."""
        return {f"{name}_{unit}": self.median, f"{name}_p10_{unit}": self.low, f"{name}_p90_{unit}": self.high}


def wait(device: torch.device | str) -> None:
    """Return when the device has done all it was given."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)


def repeat(
    work: Callable[[], Any], device: torch.device | str, times: int, warm_up: int = 2, budget_s: float = 60.0
) -> Spread:
    """Milliseconds of `work`, which is done `times` times after warming up, but not begun again after `budget_s`."""
    for _ in range(warm_up):
        work()
    found: list[float] = []
    began = time.perf_counter()
    while len(found) < times and (not found or time.perf_counter() - began < budget_s):
        wait(device)
        start = time.perf_counter()
        work()
        wait(device)
        found.append(1000 * (time.perf_counter() - start))
    return Spread.of(found)


_KEPT, _LARGE = 0.15, 10_000_000
"""PyTorch's builds for ARM keep what was freed for a tenth of a second, and until a large block is asked for after that."""


class Peak:
    """The most memory held between entering and leaving, `gb`: the GPU's tensors, or the whole process without one.

    `gb` is None where a process's peak cannot be counted anew, which only Linux allows.
    """

    gb: float | None = None

    def __init__(self, device: torch.device | str):
        self.device = torch.device(device)

    def __enter__(self) -> Peak:
        self._counted = True
        gc.collect()  # models and engines that nobody uses any more may hold each other
        if self.device.type == "cuda":
            wait(self.device)
            torch.cuda.empty_cache()
            forget_peak(self.device)
        else:
            with contextlib.suppress(OSError, AttributeError):
                ctypes.CDLL(None).malloc_trim(0)  # glibc keeps what was freed, and it would count
            time.sleep(_KEPT)
            torch.empty(_LARGE)  # never written to, so it takes nothing
            try:
                Path("/proc/self/clear_refs").write_text("5")  # makes the peak fall to what is held now
            except OSError:
                self._counted = False
        return self

    def __exit__(self, *exception: Any) -> None:
        if self.device.type == "cuda":
            wait(self.device)
            self.gb = peak_memory_gb(self.device)
        elif self._counted:
            self.gb = _process_gb("VmHWM")


def held_gb() -> float | None:
    """Memory this process holds now; None where the system does not say."""
    return _process_gb("VmRSS")


def _process_gb(name: str) -> float | None:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    found = next((line.split()[1] for line in lines if line.startswith(f"{name}:")), None)
    return int(found) * 1024 / 1e9 if found else None
