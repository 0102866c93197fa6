"""`ruplar serve MODEL` → an OpenAI-compatible endpoint with a playground page."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from ruplar.cli.options import Device, pick_device
from ruplar.errors import UserError

err = Console(stderr=True)


def serve(
    model: Annotated[
        str, typer.Argument(help="A folder `ruplar train` wrote, or embedded, embedded:cot, embedded:no_cot.")
    ],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes any free one.")] = 8000,
    api_key: Annotated[
        str | None,
        typer.Option(
            envvar="RUPLAR_API_KEY", help="Asked for on every route but /health; better set in RUPLAR_API_KEY."
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="What clients call the model; its own name when left out.")] = None,
    compare: Annotated[
        str | None,
        typer.Option(help="A text-CoT model beside it; embedded models bring their own. 'none' loads none."),
    ] = None,
    slots: Annotated[int, typer.Option(min=1, help="Questions in flight; the others wait.")] = 32,
    max_queue: Annotated[int, typer.Option(min=1, help="Questions waiting; one more is refused with 429.")] = 512,
    max_prompt: Annotated[int, typer.Option(min=16, help="Most tokens of a question.")] = 384,
    max_tokens: Annotated[int, typer.Option(min=1, help="Most answer tokens a request may ask for.")] = 256,
    max_n: Annotated[int, typer.Option(min=1, help="Most answers of a request.")] = 16,
    max_body: Annotated[int, typer.Option(min=64, help="Most bytes of a body; more is refused with 413.")] = 262_144,
    timeout: Annotated[float, typer.Option(min=0.01, help="Seconds until a request is given up with 504.")] = 60.0,
    join_messages: Annotated[
        bool, typer.Option("--join-messages", help="Put several messages into one question instead of refusing them.")
    ] = False,
    device: Device = "auto",
) -> None:
    """An OpenAI-compatible endpoint with streaming, batching, limits and metrics, and a playground page at /."""
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise UserError(
            f'`ruplar serve` needs {error.name}, which is not installed: pip install "ruplar[serve]".'
        ) from error
    from ruplar.serve.limits import Limits
    from ruplar.serve.run import ServerConfig, make_desk, make_server

    limits = Limits(
        slots=slots, max_queue=max_queue, max_prompt=max_prompt, max_tokens=max_tokens, max_n=max_n, max_body=max_body,
        timeout=timeout,
    )  # fmt: skip
    config = ServerConfig(
        model=model, name=name, compare=compare, host=host, port=port, key=api_key, device=pick_device(device),
        joins=join_messages,
    )  # fmt: skip
    registry = make_desk(config, limits)
    server = make_server(registry, config)
    serve_and_tell(server, registry.main.name)


def serve_and_tell(server, name: str) -> None:
    """Run until stopped; says where once the port is open."""
    start = server.startup

    async def startup(sockets=None) -> None:
        await start(sockets)
        if server.started:
            host, port = server.servers[0].sockets[0].getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            err.print(f"{name} at http://{shown}:{port}  (OpenAI: /v1, page: /, health: /health, metrics: /metrics)",
                      highlight=False, soft_wrap=True)  # fmt: skip

    server.startup = startup
    server.run()
    if not server.started:
        raise UserError("the server could not start; is the port taken? The line above says more.")
