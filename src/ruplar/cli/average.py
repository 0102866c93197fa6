"""`ruplar average`: several trainings of one recipe → one model of their mean weights."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from ruplar.cli.options import no_file
from ruplar.errors import UserError

out = Console()


def average(
    folder: Annotated[Path, typer.Argument(help="Where to write it.")],
    models: Annotated[list[str], typer.Argument(help="Two or more folders `ruplar train` wrote, of one recipe.")],
    dtype: Annotated[
        Literal["float32", "bfloat16"] | None,
        typer.Option(help="Precision of the written weights; as the first model's when left out."),
    ] = None,
) -> None:
    """The mean of several trainings that began at the same weights and differ in their seed: one model, at the cost of one."""
    if no_file(folder).exists():
        raise UserError(f"{folder} exists. Name another folder.")
    import torch

    from ruplar.model.soup import average as write

    write(models, folder, getattr(torch, dtype) if dtype else None)
    out.print(f"written  {folder}, the mean of {len(models)} models", highlight=False)
