"""Options that several verbs share, and what they stand for."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ruplar.errors import UserError

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
DataDir = Annotated[Path | None, typer.Option(help="Folder with the files of known sets.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps; auto takes the best there is.")]


def pick_device(name: str) -> str:
    """`auto` → the best device there is; any other name as it is.

    Raises:
        UserError: There is no such device here.
    """
    if name == "cpu":
        return name
    import torch

    if name != "auto":
        try:
            torch.empty(0, device=name)
        except (RuntimeError, AssertionError) as error:
            reason = str(error).splitlines()[0].rstrip(".:")
            raise UserError(f"--device: '{name}' cannot be used here ({reason}). Write cpu, or auto.") from error
        return name
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def integers(text: str, option: str, count: int | None = None) -> list[int]:
    """Numbers with commas → numbers.

    Raises:
        UserError: They are none, or not `count` of them.
    """
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or (count and len(found) != count):
        raise UserError(
            f"{option}: cannot read '{text}'. Write {'two' if count else ''} whole numbers with commas, e.g. 1,6."
        )
    return found


def no_file(folder: Path) -> Path:
    """The folder, which may not exist yet but may not be a file: told before the work, not after it."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file. Name a folder.")
    return folder


def print_json(value: Any) -> None:
    """For programs: JSON and nothing else on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
