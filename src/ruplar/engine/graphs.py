"""CUDA graph capture, one graph per shape, and asynchronous snapshots of a device tensor for the host."""

import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import Tensor


@cache
def _side_stream(device: int) -> Any:
    """The stream for warm-up before a capture: one for all, since each new stream allocates a workspace for good."""
    return torch.cuda.Stream(device)


@dataclass
class Graphs:
    """Captured graphs by key. All share one memory pool, since they never run at the same time."""

    buffers: Sequence[Tensor]  # tensors that the work changes; capturing runs it twice as warm-up and restores them
    found: dict[Hashable, tuple[Any, Any]] = field(default_factory=dict)
    pool: Any = None
    seconds: float = 0.0  # spent on captures so far

    def run(self, key: Hashable, work: Callable[[], Any]) -> Any:
        """Replay the graph of `key`, captured from `work` the first time → the static tensors that `work` returned."""
        if key not in self.found:
            self.found[key] = self._capture(work)
        graph, result = self.found[key]
        graph.replay()
        return result

    def _capture(self, work: Callable[[], Any]) -> tuple[Any, Any]:
        torch.cuda.synchronize()  # work in flight is no part of the capture
        began = time.perf_counter()
        before = [tensor.clone() for tensor in self.buffers]
        side = _side_stream(torch.cuda.current_device())
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):  # compile kernels and allocate workspaces, which a capture must not do
                work()
                self._restore(before)
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        if self.pool is None:
            self.pool = torch.cuda.graph_pool_handle()
        with torch.cuda.graph(graph, pool=self.pool, capture_error_mode="thread_local"):
            result = work()
        self.seconds += time.perf_counter() - began
        return graph, result

    def _restore(self, before: list[Tensor]) -> None:
        for tensor, value in zip(self.buffers, before, strict=True):
            tensor.copy_(value)


@dataclass
class Snapshots:
    """Snapshots of a tensor on the host, in order.

    On a CPU a snapshot is the tensor itself. On a GPU it is a copy into pinned memory that is awaited only when it is
    read, `lag` snapshots later, so the device always has queued work.
    """

    of: Tensor
    lag: int  # snapshots that may remain unread
    count: int = 0
    waiting: deque[tuple[int, Tensor, Any]] = field(default_factory=deque)
    spare: list[Tensor] = field(default_factory=list)

    def take(self) -> None:
        """Enqueue a snapshot of the tensor as it will be after all work enqueued so far."""
        if not self.of.is_cuda:
            self.waiting.clear()  # the tensor itself is always the newest
            self.waiting.append((self.count, self.of, None))
        else:
            page = self.spare.pop() if self.spare else torch.empty(self.of.shape, dtype=self.of.dtype, pin_memory=True)
            page.copy_(self.of, non_blocking=True)
            event = torch.cuda.Event()
            event.record()
            self.waiting.append((self.count, page, event))
        self.count += 1

    def read(self, flush: bool) -> list[tuple[int, Tensor]]:
        """(number, tensor) of the snapshots due, or of all with `flush`, oldest first; valid until the next `take`."""
        due = []
        while self.waiting and (flush or len(self.waiting) > self.lag):
            number, page, event = self.waiting.popleft()
            if event is not None:
                event.synchronize()
                self.spare.append(page)
            due.append((number, page))
        return due
