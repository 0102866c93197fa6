"""Options that several verbs share, and what they stand for."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ruplar.errors import UserError

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
DataDir = Annotated[
    Path | None,
    typer.Option(help="Folder with the files of known sets, searched before $RUPLAR_DATA, data/ and the cache."),
]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps; auto takes the best there is.")]
ModelArg = Annotated[
    str, typer.Argument(help="A folder `ruplar train` wrote, or embedded:ruplar, embedded:cot, embedded:no_cot.")
]
MethodSettings = Annotated[
    list[str] | None,
    typer.Option("--set", help="A setting of the model's method in place of its own, e.g. method.speed=2."),
]
Temperature = Annotated[float, typer.Option(min=0, help="Of the answer; 0 is greedy.")]
TopP = Annotated[
    float, typer.Option(help="Sample the answer among the likeliest tokens holding this much probability.")
]
Samples = Annotated[int, typer.Option(min=1, help="Answers to each question, of which the majority counts.")]
NoiseScale = Annotated[
    float | None,
    typer.Option("--noise", min=0, help="Of the thoughts; left out: 0.3 for several samples, else none."),
]
NoiseTemperature = Annotated[float, typer.Option(help="Of a noised soft token; below 1 is nearer to a single token.")]


def drawing(samples: int, noise: float | None, temperature: float) -> float:
    """The noise of the thoughts where none is named: several samples must differ in something."""
    if noise is not None:
        return noise
    from ruplar.engine.sampling import SAMPLE_NOISE

    return SAMPLE_NOISE if samples > 1 and temperature == 0 else 0.0


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
    if any(number < 0 for number in found):
        raise UserError(f"{option}: must be 0 or more, got {text}.")
    if not found or (count and len(found) != count):
        raise UserError(
            f"{option}: cannot read '{text}'. Write {'two' if count else ''} whole numbers with commas, e.g. 1,6."
        )
    return found


def method_settings(pairs: list[str]) -> dict[str, Any]:
    """`method.speed=2` → {"speed": 2}; values are YAML.

    Raises:
        UserError: One of them is not of that form.
    """
    import yaml

    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        section, _, name = key.strip().partition(".")
        if not equals or section != "method" or not name:
            raise UserError(f"--set: cannot read '{pair}'. Write method.NAME=VALUE, e.g. method.speed=2.")
        try:
            found[name] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise UserError(f"--set: cannot read the value of '{pair}'; quote it.") from error
    return found


def names_and_settings(words: Sequence[str], kind: str, listed: str) -> tuple[list[str], list[str]]:
    """Words of a command → names, and `key=value` settings.

    Args:
        words: Both, in any order.
        kind: What the names name, for the message.
        listed: What `ruplar list` calls them.

    Raises:
        UserError: There is no name among them.
    """
    names = [word for word in words if "=" not in word]
    if not names:
        raise UserError(f"no {kind} is named, only settings. `ruplar list {listed}` names those there are.")
    return names, [word for word in words if "=" in word]


def no_file(folder: Path) -> Path:
    """The folder, which may not exist yet but may not be a file: told before the work, not after it."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file. Name a folder.")
    there = next((place for place in (folder, *folder.absolute().parents) if place.exists()), Path())
    try:
        # made and removed again: a disk that is read-only or full, or a right we lack, shows in no other way
        Path(tempfile.mkdtemp(prefix=".ruplar-", dir=there)).rmdir()
    except OSError as error:
        raise UserError(f"{folder}: cannot be made ({there}: {error.strerror}). Name another folder.") from error
    return folder


def free_file(file: Path, force: bool) -> None:
    """Nothing when the file may be written.

    Raises:
        UserError: It is a folder, lies in none, or is there and `force` is off.
    """
    if file.is_dir() or not file.parent.is_dir():
        raise UserError(
            f"{file}: {'is a folder' if file.is_dir() else 'its folder does not exist'}. Name a file in one that does."
        )
    if file.exists() and not force:
        raise UserError(f"{file}: exists. Name another file, or write over it with --force.")


def print_json(value: Any, line: bool = False) -> None:
    """For programs: JSON and nothing else on standard output; on one line where there may be many."""
    sys.stdout.write(json.dumps(value, indent=None if line else 2, ensure_ascii=False) + "\n")
