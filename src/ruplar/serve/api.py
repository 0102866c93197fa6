"""Models and limits → the ASGI application: routes, errors in OpenAI's shape, the gate in front, the page at `/`."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from ruplar import __version__
from ruplar.serve import openai_routes as v1
from ruplar.serve import playground_routes as think
from ruplar.serve.auth import AuthMiddleware
from ruplar.serve.errors import Refusal, of_validation
from ruplar.serve.registry import ModelRegistry
from ruplar.serve.schemas import ERRORS

log = logging.getLogger(__name__)
PAGE = Path(__file__).parent / "playground"
_PAGE_HEADERS = {
    "content-security-policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "cache-control": "no-cache",
}


class _Static(StaticFiles):
    """The page's files, with the page's headers."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        """See `StaticFiles`."""
        response = super().file_response(*args, **kwargs)
        response.headers.update(_PAGE_HEADERS)
        return response


def make_app(registry: ModelRegistry, key: str | None = None) -> Any:
    """The application; its engines start and stop with it.

    Args:
        registry: The models.
        key: Asked for on every route but /health; None: no key.
    """

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
        description="Language models that think in soft tokens, behind OpenAI's API.",
        lifespan=lifespan,
        docs_url=None,  # these pages load scripts from elsewhere
        redoc_url=None,
    )
    app.state.registry = registry
    _add_errors(app)
    app.include_router(v1.routes)
    app.include_router(think.routes)
    app.add_api_route("/health", health, methods=["GET"], responses={503: ERRORS[503]}, summary="Is it alive?")
    app.add_api_route("/metrics", metrics, methods=["GET"], responses={401: ERRORS[401]}, summary="Prometheus text")
    app.add_api_route("/", page, methods=["GET"], include_in_schema=False)
    if PAGE.is_dir():
        app.mount("/static", _Static(directory=PAGE))
    return AuthMiddleware(app, registry.metrics, registry.limits.max_body, registry.limits.timeout, key)


async def health(request: Request) -> Response:
    """200 while every engine's thread lives and moves, else 503. Open even when a key is set."""
    registry: ModelRegistry = request.app.state.registry
    found = {name: "ok" if w.healthy else "dead" for name, w in registry.workers.items()}
    well = all(word == "ok" for word in found.values())
    return JSONResponse({"status": "ok" if well else "dead", "models": found}, 200 if well else 503)


async def metrics(request: Request) -> Response:
    """Requests, latency, latents, queue and slots."""
    text, kind = request.app.state.registry.metrics.text()
    return Response(text, media_type=kind)


async def page() -> Response:
    """The playground."""
    file = PAGE / "index.html"
    if not file.is_file():
        raise Refusal(404, "This installation has no playground page. The API is at /v1.", None, "not_found")
    return FileResponse(file, headers=_PAGE_HEADERS)


def _add_errors(app: FastAPI) -> None:
    async def refused(_: Request, error: Any) -> Response:
        return error.response()

    async def invalid(_: Request, error: Any) -> Response:
        return of_validation(error).response()

    async def plain(request: Request, error: Any) -> Response:
        words = {404: f"There is no route {request.url.path}.", 405: f"{request.method} is not for this route."}
        text = words.get(error.status_code, str(error.detail))
        return Refusal(error.status_code, text, None, None, error.headers).response()

    async def broken(request: Request, error: Exception) -> Response:
        log.error("a request to %s failed", request.url.path, exc_info=error)
        return Refusal(500, "The server failed on this request.", None, "internal_error").response()

    app.add_exception_handler(Refusal, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, plain)
    app.add_exception_handler(Exception, broken)
