"""Device → its checked name, and its peak memory: of the GPU's tensors, or of the whole process without a GPU."""

import resource
import sys

import torch

from ruplar.errors import UserError


def usable_device(device: torch.device | str, option: str = "device") -> str:
    """Resolve `auto` to the best device of this machine, and refuse any other that it does not have."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0].rstrip(".:")
        raise UserError(f"{option}: '{device}' cannot be used here ({reason}). Use cpu or auto.") from error
    return str(device)


def peak_memory_gb(device: torch.device | str) -> float:
    """Return gigabytes (1e9 bytes): the GPU's peak since `forget_peak`, or the process's peak since its start."""
    if torch.device(device).type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e9
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e9 if sys.platform == "darwin" else 1e6)  # macOS counts bytes, Linux kilobytes


def forget_peak(device: torch.device | str) -> None:
    """Reset the GPU's peak; the process's own peak cannot be reset."""
    if torch.device(device).type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
