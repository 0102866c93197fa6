"""A device and how many share it → the memory each process may take of it, and which failures are for want of it.

PyTorch keeps what it has freed for later use, up to all of the GPU: beside such a process another finds no room, though
little of it is in use. A process with a limit gives the kept memory back when it reaches that limit, and tries again.
"""

from __future__ import annotations

import os
from pathlib import Path

from ruplar.errors import UserError

_ALL = 0.95
"""What workers share of a GPU; the rest is for what each has there besides PyTorch's own memory."""
_SAID = ("CUDA error: out of memory", "Error 2: out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
"""How libraries beside PyTorch's own store of memory say that there is none."""


def check_share(share: float | None, device: str) -> None:
    """Refuse a share that is no share, or that nothing would keep to.

    Raises:
        UserError: Not in (0, 1], or the device is no NVIDIA GPU.
    """
    if share is None:
        return
    if not 0 < share <= 1:
        raise UserError(f"--memory-share: {share:g} is no share. Write a number above 0 and up to 1, e.g. 0.15.")
    if not device.startswith("cuda"):
        raise UserError(
            f"--memory-share: limits memory on an NVIDIA GPU, and this runs on '{device}', where it would be passed over. "
            "Leave it out, or choose --device cuda."
        )


def share_of(given: float | None, jobs: int, device: str) -> float | None:
    """The share of a worker among `jobs`: the one given, else an equal one; None: no limit."""
    if given is not None:
        return given
    return _ALL / jobs if jobs > 1 and device.startswith("cuda") else None


def limit(device: str, share: float | None) -> None:
    """Let this process take so much of a GPU's memory from now on; None leaves it as it is."""
    if share is None:
        return
    import torch

    where = torch.device(device)
    torch.cuda.set_per_process_memory_fraction(float(share), None if where.index is None else where)


def out_of_memory(error: BaseException | None) -> bool:
    """Whether an error, or one that it was raised from, says that the GPU has no memory left."""
    import torch

    while error is not None:
        if isinstance(error, torch.cuda.OutOfMemoryError):
            return True
        if isinstance(error, RuntimeError) and any(words in str(error) for words in _SAID):
            return True
        error = error.__cause__
    return False


def way_out(share: float | None) -> str:
    """What to add to the reason of such a failure; nothing where no limit was set."""
    if share is None:
        return ""
    return f" It had {share:.0%} of the GPU's memory: a larger --memory-share or fewer --jobs give it more."


def room_gb(device: str) -> float:
    """Memory that cells may share: what is free on the GPU, or in the machine."""
    import torch

    if device.startswith("cuda"):
        return torch.cuda.mem_get_info(device)[0] / 1e9
    info = Path("/proc/meminfo")
    if info.is_file():
        found = dict(line.split(":", 1) for line in info.read_text().splitlines())
        return int(found["MemAvailable"].split()[0]) / 1e6
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2e9
