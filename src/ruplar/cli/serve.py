"""`ruplar serve MODEL`: an OpenAI-compatible server with a playground page."""

import signal
import sys
from typing import Annotated

import typer
from rich.console import Console

from ruplar.cli.options import Device, Dtype, Gpus, ModelArg, Ray, check_ray, integers, options_of, pick_device
from ruplar.errors import UserError, install_extra
from ruplar.serve.schemas import Limits, MessagesMode

err = Console(stderr=True)


@options_of(Limits)
def serve(
    model: ModelArg,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 picks a free port.")] = 8000,
    api_key: Annotated[
        str | None,
        typer.Option(
            envvar="RUPLAR_API_KEY",
            help="API key that clients must send, except to /health. Prefer the environment variable.",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Model name in the API. Default: the folder's name.")] = None,
    compare: Annotated[
        str | None,
        typer.Option(
            help="Text-CoT model for side-by-side comparison in the playground. Default: embedded:cot for embedded models; 'none' for no model."
        ),
    ] = None,
    messages: Annotated[
        MessagesMode,
        typer.Option(help="Several messages: single rejects them, last answers the last user message and warns."),
    ] = "single",
    allowed_hosts: Annotated[
        str,
        typer.Option(
            help="Comma-separated host names to accept besides localhost and --host; * for any. "
            "Default: none, or any with a key."
        ),
    ] = "",
    device: Device = "auto",
    dtype: Dtype = "auto",
    ray: Ray = None,
    gpus: Gpus = None,
    replicas: Annotated[
        str | None, typer.Option(help="With --ray: MIN,MAX, the minimum and maximum number of replicas. Default: 1,8.")
    ] = None,
    *,
    limits: Limits,
) -> None:
    """Serve a model with an OpenAI-compatible API.

    Supports streaming, batching, limits and Prometheus metrics, and has a playground page at /.
    """
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise UserError(f"`ruplar serve` needs {error.name}. {install_extra('serve')}") from error
    from ruplar.serve.app import ServerConfig, load_models, make_server

    check_ray(ray, gpus, replicas)
    config = ServerConfig(
        model=model, name=name, compare=compare, host=host, port=port, key=api_key,
        device=pick_device(device) if ray is None else device, dtype=dtype,
        allowed_hosts=[name.strip() for name in allowed_hosts.split(",") if name.strip()],
        messages=messages,
    )  # fmt: skip
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn raises the signal again after a clean shutdown
    if ray is not None:
        from ruplar.cluster.application import run_application

        least, most = integers(replicas or "1,8", "--replicas", 2)
        if not 1 <= least <= most or port == 0:
            raise UserError(f"--replicas and --port: cannot be {replicas} and {port}. Use e.g. 1,8 and 8000.")
        run_application(ray, config, limits, (least, most), gpus, lambda name: _print_address(name, host, port))
        return
    registry = load_models(config, limits)
    registry.start()
    _run(make_server(registry, config), registry.main.name)


def _print_address(name: str, host: str, port: int) -> None:
    shown = f"[{host}]" if ":" in host else host
    err.print(f"{name} at http://{shown}:{port}  (API: /v1, playground: /, health: /health, metrics: /metrics)",
              highlight=False, soft_wrap=True, markup=False, emoji=False)  # fmt: skip


def _run(server, name: str) -> None:
    start = server.startup

    async def startup(sockets=None) -> None:
        await start(sockets)
        if server.started:
            _print_address(name, *server.servers[0].sockets[0].getsockname()[:2])

    server.startup = startup
    try:
        server.run()
    except SystemExit as end:
        if server.started or not end.code:
            raise
        raise UserError(
            f"the server could not start; see the message above. If port {server.config.port} is in use, choose another --port."
        ) from None
