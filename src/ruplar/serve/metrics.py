"""Prometheus metrics of the server: requests by route and status, latency, latents, queue."""

from collections.abc import Iterable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from ruplar.engine.scheduler import Scheduler
from ruplar.serve.outputs import SampleOutput

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_LATENTS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128, 256)


class Metrics:
    """The metrics of one server, in their own registry."""

    def __init__(self) -> None:
        self.routes: frozenset[str] = frozenset()
        self.registry = CollectorRegistry()
        make: dict[str, Any] = {"registry": self.registry}
        self.requests = Counter("ruplar_requests", "Requests by route and status.", ["route", "status"], **make)
        self.seconds = Histogram(
            "ruplar_request_seconds", "Seconds from the request to its last byte.", ["route"], buckets=_SECONDS, **make
        )
        self.latents = Histogram(
            "ruplar_latents", "Latents (or reasoning tokens) per answer.", ["model"], buckets=_LATENTS, **make
        )
        self.queue = Gauge("ruplar_queue_length", "Questions in the queue.", ["model"], **make)
        self.busy = Gauge("ruplar_slots_in_use", "Questions being processed.", ["model"], **make)

    def watch(self, name: str, scheduler: Scheduler) -> None:
        self.queue.labels(name).set_function(lambda: len(scheduler.queue))
        self.busy.labels(name).set_function(lambda: len(scheduler.in_flight))

    def request(self, path: str, status: int, seconds: float) -> None:
        folder = next((one for one in ("/static", "/v1/models") if path.startswith(f"{one}/")), "other")
        route = path if path in self.routes else folder
        self.requests.labels(route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def answers(self, name: str, samples: Iterable[SampleOutput]) -> None:
        for sample in samples:
            self.latents.labels(name).observe(sample.row.latent_count)

    def text(self) -> tuple[bytes, str]:
        return generate_latest(self.registry), CONTENT_TYPE_LATEST
