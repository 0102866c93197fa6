"""A model folder and a port → the server: loads the models, builds the ASGI application, runs it under uvicorn."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route
from starlette.staticfiles import StaticFiles

from ruplar import __version__
from ruplar.errors import UserError
from ruplar.serve import openai_routes, playground_routes
from ruplar.serve.auth import LOCAL, AuthMiddleware, HostNames
from ruplar.serve.connections import MAX_HEADER_BYTES, DrainingServer, protocol_of
from ruplar.serve.errors import RequestError, from_validation
from ruplar.serve.registry import ModelRegistry, ServedModel
from ruplar.serve.schemas import ERRORS, Limits, MessagesMode
from ruplar.settings import Settings

log = logging.getLogger(__name__)
PAGE = Path(__file__).parent / "playground"
_PAGE_HEADERS = {
    "content-security-policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "cache-control": "no-cache",
}


class _Static(StaticFiles):
    """Static files of the playground, with its security headers."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers.update(_PAGE_HEADERS)
        return response


def make_app(registry: ModelRegistry, key: str | None = None, hosts: HostNames | None = None) -> Any:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        registry.start()
        try:
            yield
        finally:
            registry.stop()

    registry.needs_key = key is not None
    app = FastAPI(
        title="ruplar",
        version=__version__,
        description="OpenAI-compatible API for language models that reason in soft tokens.",
        lifespan=lifespan,
        docs_url=None,  # these pages load scripts from a CDN
        redoc_url=None,
    )
    app.state.registry = registry
    _add_errors(app)
    app.include_router(openai_routes.routes)
    app.include_router(playground_routes.routes)
    app.add_api_route("/health", health, methods=["GET"], responses={503: ERRORS[503]}, summary="Health check")
    app.add_api_route("/health", health, methods=["HEAD"], include_in_schema=False)
    app.add_api_route("/metrics", metrics, methods=["GET"], responses={401: ERRORS[401]}, summary="Prometheus metrics")
    app.add_api_route("/", page, methods=["GET"], include_in_schema=False)
    served = (*app.routes, *openai_routes.routes.routes, *playground_routes.routes.routes)
    registry.metrics.routes = frozenset(route.path for route in served if isinstance(route, Route))
    app.mount("/static", _Static(directory=PAGE))
    return AuthMiddleware(app, registry.metrics, registry.limits.max_body, registry.limits.timeout, key, hosts)


async def health(request: Request) -> Response:
    """Return 200 while every engine thread is alive and not stuck, else 503. Needs no key."""
    registry: ModelRegistry = request.app.state.registry
    found = {name: "ok" if one.healthy else "dead" for name, one in registry.models.items()}
    healthy = all(state == "ok" for state in found.values())
    return JSONResponse({"status": "ok" if healthy else "dead", "models": found}, 200 if healthy else 503)


async def metrics(request: Request) -> Response:
    """Return metrics: requests, latency, latents, queue and slots."""
    text, kind = request.app.state.registry.metrics.text()
    return Response(text, media_type=kind)


async def page() -> Response:
    """Return the playground page."""
    return FileResponse(PAGE / "index.html", headers=_PAGE_HEADERS)


def _add_errors(app: FastAPI) -> None:
    async def request_error(_: Request, error: Any) -> Response:
        return error.response()

    async def invalid(_: Request, error: Any) -> Response:
        return from_validation(error).response()

    async def http_error(request: Request, error: Any) -> Response:
        texts = {404: f"There is no route {request.url.path}.", 405: f"{request.method} is not allowed on this route."}
        text = texts.get(error.status_code, str(error.detail))
        return RequestError(error.status_code, None, text, headers=error.headers).response()

    async def internal_error(request: Request, error: Exception) -> Response:
        log.error("request to %s failed", request.url.path, exc_info=error)
        return RequestError(500, "internal_error", "The server failed on this request.").response()

    app.add_exception_handler(RequestError, request_error)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http_error)
    app.add_exception_handler(Exception, internal_error)


_DRAIN_EXTRA = 10
_KEEP_ALIVE = 15
"""Seconds an idle connection is kept open."""


class ServerConfig(Settings):
    """What is served, and where."""

    model: str  # a model folder, or `embedded…`
    name: str | None = None  # name in the API; None: the folder's name
    # text-CoT model for comparison; None: `embedded:cot` for an embedded model; "none": no model
    compare: str | None = None
    host: str = "127.0.0.1"
    port: int = 8000  # port; 0: any free one
    key: str | None = None  # API key required on every route except /health
    device: str = "cpu"
    dtype: str = "auto"  # data type of the weights
    allowed_hosts: list[str] = []  # further names in the Host header
    messages: MessagesMode = "single"  # a chat of several messages: refuse it, or answer the last user message


def load_models(config: ServerConfig, limits: Limits) -> ModelRegistry:
    if config.key is not None and not config.key:
        raise UserError("--api-key: is empty. Leave it out to require no key.")
    reference = config.compare
    if reference is None and config.model.partition(":")[0] == "embedded" and config.model != "embedded:cot":
        reference = "embedded:cot"
    place = (config.device, config.dtype)
    main = ServedModel.load(config.name or served_name(config.model), config.model, limits, *place)
    compare = None
    if reference is not None and reference != "none":
        compare = ServedModel.load(served_name(reference), reference, limits, *place)
        if compare.name == main.name:
            raise UserError(f"--compare: both models are named '{main.name}'. Give the first another --name.")
        if not compare.text_thinker:
            raise UserError(f"--compare: {reference} does not write its reasoning. Choose a model of method cot.")
    return ModelRegistry(main, compare, messages=config.messages)


def served_name(reference: str) -> str:
    """Return the API name of a model: `embedded:cot` unchanged, otherwise the folder's name, `x` for `runs/x/model`."""
    if reference.partition(":")[0] == "embedded":
        return reference
    parts = [p for p in Path(reference).resolve().parts if p != "model"]
    return parts[-1]


def make_server(registry: ModelRegistry, config: ServerConfig) -> uvicorn.Server:
    if config.key is None and config.host not in LOCAL:
        log.warning("no API key is set and %s is reachable from other machines: anyone can use it.", config.host)
    limits = registry.limits
    options: dict[str, Any] = {
        "host": config.host,
        "port": config.port,
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "http": protocol_of(limits),
        "ws": "none",
        "h11_max_incomplete_event_size": MAX_HEADER_BYTES,
        "timeout_keep_alive": _KEEP_ALIVE,
        "backlog": 2048,
        # by then, running requests have finished or timed out
        "timeout_graceful_shutdown": int(limits.timeout) + _DRAIN_EXTRA,
    }
    return DrainingServer(uvicorn.Config(asgi_app(registry, config), **options))


def asgi_app(registry: ModelRegistry, config: ServerConfig) -> Any:
    # a page cannot know the key, so that with a key every name is accepted
    hosts = HostNames.of(config.host, config.allowed_hosts) if config.allowed_hosts or config.key is None else None
    return make_app(registry, config.key, hosts)
