"""A real server on a real port, in a thread of this process, so that tests can also inspect and break its engine."""

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ruplar.serve.app import ServerConfig, load_models, make_server
from ruplar.serve.registry import ModelRegistry
from ruplar.serve.schemas import Limits

APPLES = "Tom has 3 bags of 4 apples. He eats 2 apples. How many apples are left?"  # 3*4 = 12, 12-2 = 10
BAGS = "Tom has 3 bags of 4 apples. How many apples does he have?"  # 3*4 = 12
QUESTIONS = [
    APPLES,
    "Ben has 6 boxes of 20 beads and 5 bags of 11 beads. How many beads is that altogether?",
    "A boat carries 8 groups of 12 people. At the museum 16 people get off. How many people are left on the boat?",
    "Lucy has 130 coins. Lily has 40 more coins than Lucy. How many coins do they have together?",
]


@dataclass
class Served:
    """A running server."""

    url: str
    registry: ModelRegistry
    server: Any

    @property
    def scheduler(self):
        return self.registry.main.scheduler

    def quiet(self, seconds: float = 20.0) -> bool:
        """Wait until the queue and all slots are empty."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            if not self.scheduler.queue and not self.scheduler.in_flight:
                return True
            time.sleep(0.01)
        return False


@contextlib.contextmanager
def running(
    model: str = "embedded", compare: str = "none", key: str | None = None, messages="single", **limits
) -> Iterator[Served]:
    """Start a server on a free port; stop it at the end."""
    config = ServerConfig(model=model, compare=compare, port=0, key=key, messages=messages)
    registry = load_models(config, Limits(**limits))
    server = make_server(registry, config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    ends = time.monotonic() + 60
    while not server.started:
        assert thread.is_alive() and time.monotonic() < ends, "the server did not start"
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield Served(f"http://127.0.0.1:{port}", registry, server)
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive(), "the server did not stop"


@contextlib.contextmanager
def held(served: Served) -> Iterator[threading.Event]:
    """Pause the engine before its next step, so that questions stay in their slots, until the event is set."""
    engine, go = served.scheduler.engine, threading.Event()
    step = engine.step

    def waits():
        go.wait(60)
        return step()

    engine.step = waits
    try:
        yield go
    finally:
        go.set()
        engine.step = step
