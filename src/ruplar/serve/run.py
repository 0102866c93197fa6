"""Settings → a running server: loads the models, answers until told to stop, finishes what was begun."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import uvicorn

from ruplar.errors import UserError
from ruplar.serve.api import make_app
from ruplar.serve.limits import Limits
from ruplar.serve.registry import ModelRegistry, Worker
from ruplar.settings import Settings

log = logging.getLogger(__name__)
_DRAIN_EXTRA = 10
_LOCAL = ("127.0.0.1", "localhost", "::1")


class ServerConfig(Settings):
    """What is served, and where.

    Attributes:
        model: A model folder, or `embedded…`.
        name: What clients call it; the folder's name when None.
        compare: A text-CoT model beside it; None: `embedded:cot` beside an embedded model; "none": no model.
        host: Address to listen on.
        port: Port; 0: any free one.
        key: Asked for on every route but /health.
        device: Where the models go.
        joins: Put several messages of a chat into one question.
    """

    model: str
    name: str | None = None
    compare: str | None = None
    host: str = "127.0.0.1"
    port: int = 8000
    key: str | None = None
    device: str = "cpu"
    joins: bool = False


def make_desk(config: ServerConfig, limits: Limits) -> ModelRegistry:
    """Load the models."""
    if config.key is not None and not config.key:
        raise UserError("--api-key: is empty. Leave it out to ask for none.")
    beside = config.compare
    if beside is None and config.model.partition(":")[0] == "embedded" and config.model != "embedded:cot":
        beside = "embedded:cot"
    main = Worker.open(config.name or served_name(config.model), config.model, limits, config.device)
    compare = None
    if beside is not None and beside != "none":
        compare = Worker.open(served_name(beside), beside, limits, config.device)
        if compare.name == main.name:
            raise UserError(f"--compare: both models would be called '{main.name}'. Give the first another --name.")
        if not compare.text_thinker:
            raise UserError(f"--compare: {beside} does not think in text. Name a model trained with the method cot.")
    return ModelRegistry(main, compare, joins=config.joins)


def served_name(reference: str) -> str:
    """`embedded:cot` as it is; of a folder its name, of `runs/x/model` the run's."""
    if reference.partition(":")[0] == "embedded":
        return reference
    parts = [p for p in Path(reference).resolve().parts if p != "model"]
    return parts[-1]


def make_server(registry: ModelRegistry, config: ServerConfig) -> uvicorn.Server:
    """A server that is ready to run; `run_server` runs it."""
    if config.key is None and config.host not in _LOCAL:
        log.warning("no API key is set and %s can be reached from elsewhere: anyone may ask.", config.host)
    limits = registry.limits
    options: dict[str, Any] = {
        "host": config.host,
        "port": config.port,
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "timeout_keep_alive": limits.keep_alive,
        "h11_max_incomplete_event_size": 65_536,
        "backlog": 2048,
        # what was begun is answered or timed out by then
        "timeout_graceful_shutdown": int(limits.timeout) + _DRAIN_EXTRA,
    }
    return uvicorn.Server(uvicorn.Config(make_app(registry, config.key), **options))
