"""Device → the most memory held on it: the GPU's tensors, or the whole process where there is none."""

from __future__ import annotations

import resource
import sys

import torch


def peak_memory_gb(device: torch.device | str) -> float:
    """Gigabytes (1e9 bytes): the GPU's most since `forget_peak`; without a GPU, the process's most since it began."""
    if torch.device(device).type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e9
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e9 if sys.platform == "darwin" else 1e6)  # macOS counts bytes, Linux kilobytes


def forget_peak(device: torch.device | str) -> None:
    """Count from here on. The process's own peak cannot be forgotten."""
    if torch.device(device).type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
