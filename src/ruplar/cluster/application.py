"""A model and a cluster → a Ray Serve application: replicas of our server, as many as the load needs.

Each replica runs the ASGI application of `ruplar serve` with its own engine; Ray's proxies on every node pass requests and
streams through. A replica whose node or engine dies is replaced.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ruplar.cluster.pool import connected, share_of_gpu
from ruplar.errors import UserError
from ruplar.experiments import memory
from ruplar.model.store import find_model
from ruplar.serve.app import ServerConfig, asgi_app, load_models, served_name
from ruplar.serve.schemas import Limits


def application(config: ServerConfig, limits: Limits, replicas: tuple[int, int], gpus: float) -> Any:
    """Return the Ray Serve application of a model, with at least and at most this many replicas."""
    from ray import serve

    def build() -> Any:
        memory.limit(config.device, gpus if 0 < gpus < 1 else None)
        return asgi_app(load_models(config, limits), config)

    @serve.ingress(build)
    class Replica:
        app: Any  # what `build` returned

        def check_health(self) -> None:
            """Raise when an engine is dead, so that Ray replaces the replica."""
            registry = self.app.app.state.registry
            if not all(model.healthy for model in registry.models.values()):
                raise RuntimeError("the engine has stopped working")

    least, most = replicas
    deployment: Any = serve.deployment(
        Replica,
        name=config.name or served_name(config.model),
        ray_actor_options={"num_cpus": 1, "num_gpus": gpus},
        # a replica answers `slots` questions at once, and needs a few more so that no slot waits for the proxy
        max_ongoing_requests=2 * limits.slots,
        max_queued_requests=limits.max_queue,
        autoscaling_config={"min_replicas": least, "max_replicas": most, "target_ongoing_requests": limits.slots},
    )
    return deployment.bind()


def run_application(
    address: str, config: ServerConfig, limits: Limits, replicas: tuple[int, int], gpus: float | None, on_ready: Callable[[str], None]
) -> None:  # fmt: skip
    """Run the application until this process is interrupted; `on_ready` gets the model's name when it answers."""
    folder, name = find_model(config.model), config.name or served_name(config.model)
    model = str(Path(config.model).absolute()) if Path(config.model).exists() else config.model
    with connected(address) as ray:
        from ray import serve

        device, each = share_of_gpu(ray, config.device, gpus)
        config = config.model_copy(update={"name": name, "model": model, "device": device})
        serve.start(proxy_location="EveryNode", http_options={"host": config.host, "port": config.port})
        try:
            try:
                serve.run(application(config, limits, replicas, each), name=name, route_prefix="/")
            except RuntimeError as error:
                raise UserError(f"{folder}: cannot be served on the cluster: {error}") from None
            on_ready(name)
            while True:
                time.sleep(1)
        finally:
            serve.delete(name)
            if not serve.status().applications:
                serve.shutdown()
