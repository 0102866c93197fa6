"""A device and its number of workers → the memory each may use, and which errors are out-of-memory errors.

PyTorch caches freed memory, up to all of the GPU, so that a second process may find none although little is in use. A process
with a limit returns its cache when it reaches the limit, and tries again.
"""

_ALL = 0.95
"""Fraction of a GPU that workers share; the rest is for memory outside PyTorch's allocator, such as CUDA contexts."""
_MESSAGES = ("CUDA error: out of memory", "Error 2: out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
"""Out-of-memory messages of libraries outside PyTorch's allocator."""


def share_of(jobs: int, device: str) -> float | None:
    """Return the share of each of `jobs` workers; None: no limit."""
    return _ALL / jobs if jobs > 1 and device.startswith("cuda") else None


def limit(device: str, share: float | None) -> None:
    """Limit this process to a share of the GPU's memory; None: no limit."""
    if share is None:
        return
    import torch

    where = torch.device(device)
    torch.cuda.set_per_process_memory_fraction(float(share), None if where.index is None else where)


def out_of_memory(error: BaseException | None) -> bool:
    """Return whether an error, or one of its causes, is an out-of-memory error of the GPU."""
    import torch

    while error is not None:
        if isinstance(error, torch.cuda.OutOfMemoryError):
            return True
        if isinstance(error, RuntimeError) and any(words in str(error) for words in _MESSAGES):
            return True
        error = error.__cause__
    return False
