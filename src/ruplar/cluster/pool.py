"""A Ray cluster and batches → their results in order, from workers that load once what is expensive to load.

Workers are Ray actors. Their number grows while the cluster has room and batches are waiting. When a worker dies with its
node, its batch goes to another one, so every batch has exactly one result.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any

from ruplar.errors import UserError, install_extra

_ENVIRONMENT = ("RUPLAR_DATA", "RUPLAR_CACHE", "HF_HOME", "HF_HUB_OFFLINE", "TOKENIZERS_PARALLELISM")
"""Environment variables that workers get from this process."""
_CONNECT_SECONDS = 5.0
LOSSES = 5
"""How often a batch, or the start of a worker, may be lost before the command gives up."""


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Connect to a cluster and yield the package `ray`; `local` starts a cluster of this machine alone.

    Until the end, standard output goes to standard error: Ray prints what happens to nodes in between.
    """
    try:
        import ray
    except ImportError as error:
        raise UserError(f"--ray needs the package ray. {install_extra('ray')}") from error
    host, _, port = address.rpartition(":")
    on_sigterm = signal.getsignal(signal.SIGTERM)
    known = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    try:
        if host and "//" not in host and port.isdigit():
            socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()  # ray.init would wait for minutes
        ray.init(address, log_to_driver=False, logging_level=logging.WARNING, runtime_env={"env_vars": known})
    except (OSError, RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise UserError(
            f"--ray: cannot connect to a Ray cluster at '{address}' ({reason}). Start one with `ray start --head`, then give "
            "HOST:PORT, `auto` on one of its nodes, or `local` for this machine alone."
        ) from error
    signal.signal(signal.SIGTERM, on_sigterm)  # Ray's own handler aborts
    with redirect_stdout(sys.stderr):
        try:
            yield ray
        finally:
            ray.shutdown()


def share_of_gpu(ray: Any, device: str, gpus: float | None) -> tuple[str, float]:
    """Return the device and number of GPUs per worker: the given number, else 1 if the cluster has GPUs."""
    there = ray.cluster_resources().get("GPU", 0.0)
    if gpus is None:
        gpus = 1.0 if there and device != "cpu" else 0.0
    if (gpus and device == "cpu") or (not gpus and device.startswith("cuda")):
        raise UserError(f"--gpus: {gpus:g} cannot be combined with --device {device}. Remove one of them.")
    if gpus > there:
        raise UserError(f"--gpus: each worker needs {gpus:g}, but the cluster has {there:g}.")
    if gpus > 1 and gpus % 1:
        raise UserError(f"--gpus: must be a fraction of one GPU or an integer, got {gpus:g}.")
    return ("cuda" if gpus else "cpu"), gpus


class _Worker:
    """What one actor holds."""

    def load(self, make: Callable[[], Callable[[Any], Any]]) -> None:
        self.run = make()

    def do(self, batch: Any) -> Any:
        return self.run(batch)


class Pool:
    """Workers that apply `make()` to batches; a context manager, which frees them at the end."""

    def __init__(self, ray: Any, make: Callable[[], Callable[[Any], Any]], gpus: float = 0.0):
        self.ray, self.make = ray, make
        self.actor = ray.remote(num_cpus=1, num_gpus=gpus)(_Worker)
        self.idle: list[Any] = []
        self.running: dict[Any, tuple[Any, int | None]] = {}  # result → its worker and batch; None: it is loading
        self.most = 0  # workers that had a batch at the same time

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *error: object) -> None:
        self._free([*self.idle, *(actor for actor, _ in self.running.values())])

    def _free(self, actors: Iterable[Any]) -> None:
        for actor in actors:
            self.ray.kill(actor)

    def map(self, batches: Sequence[Any]) -> Iterator[Any]:
        """Yield the result of every batch, in order."""
        waiting, lost, found = deque(range(len(batches))), Counter[int | None](), dict[int, Any]()
        for at in range(len(batches)):
            while at not in found:
                self._start(batches, waiting)
                [ref], _ = self.ray.wait(list(self.running), num_returns=1)
                actor, which = self.running.pop(ref)
                try:
                    result = self.ray.get(ref)
                except self.ray.exceptions.RayTaskError as error:
                    raise error.cause from None
                except self.ray.exceptions.RayError as error:  # the worker died, or its node with the result
                    lost[which] += 1
                    self._free([actor, *self.idle])  # idle workers of that node are dead too
                    self.idle.clear()
                    if lost[which] > LOSSES:
                        raise UserError(f"a Ray worker died {LOSSES + 1} times at the same task: {error}") from None
                    if which is not None:
                        waiting.appendleft(which)
                    continue
                self.idle.append(actor)
                if which is None:
                    lost[None] = 0
                else:
                    found[which] = result
            yield found.pop(at)

    def _start(self, batches: Sequence[Any], waiting: deque[int]) -> None:
        """Give waiting batches to idle workers; start as many more workers as there are, while batches are waiting."""
        while waiting and self.idle:
            actor, at = self.idle.pop(), waiting.popleft()
            self.running[actor.do.remote(batches[at])] = actor, at
        busy = sum(at is not None for _, at in self.running.values())
        self.most = max(self.most, busy)
        for _ in range(min(max(1, busy), len(waiting)) - (len(self.running) - busy)):
            actor = self.actor.remote()
            self.running[actor.load.remote(self.make)] = actor, None
