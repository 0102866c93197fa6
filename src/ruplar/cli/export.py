"""`ruplar export`: a model → a folder for others, with a model card made from its records when asked for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console

from ruplar.cli.options import ModelArg, free_file, no_file
from ruplar.errors import UserError

if TYPE_CHECKING:
    from ruplar.model.store import Model
    from ruplar.report.card import Written

out = Console()


def export(
    model: ModelArg,
    folder: Annotated[Path, typer.Argument(help="Where to write it; with --card, MODEL itself for the card alone.")],
    runs: Annotated[
        list[Path] | None, typer.Argument(help="With --card: run.json files, or folders that hold them.")
    ] = None,
    merge: Annotated[
        bool, typer.Option(help="Fold the adapter into the weights: a plain folder that transformers loads.")
    ] = True,
    dtype: Annotated[
        Literal["float32", "bfloat16"], typer.Option(help="Precision of the written weights.")
    ] = "float32",
    card: Annotated[
        bool, typer.Option("--card", help="Write README.md too, a model card from RUNS, else from MODEL's own run.")
    ] = False,
    run: Annotated[
        Path | None, typer.Option("--run", help="The run that made MODEL, where several of RUNS may have.")
    ] = None,
    licence: Annotated[
        str | None, typer.Option("--license", help="Of the weights, as the Hub names it, e.g. apache-2.0.")
    ] = None,
    limits: Annotated[Path | None, typer.Option(help="A Markdown file: limits that no record tells.")] = None,
    drafts: Annotated[bool, typer.Option("--drafts", help="Take partial runs too; the card says so on top.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Write over a README.md that is there.")] = False,
) -> None:
    """A merged, plain Hugging Face folder that loads without us, or the bare adapter; with a model card if asked for."""
    given = {
        "RUNS": runs,
        "--run": run,
        "--license": licence,
        "--limits": limits,
        "--drafts": drafts,
        "--force": force,
    }
    stray = [name for name, value in given.items() if value]
    if stray and not card:
        raise UserError(f"{', '.join(stray)}: only a model card needs this. Add --card, or leave it out.")
    if not card:
        _free(folder)
        _written(model, folder, merge, dtype)
        return
    from ruplar.evaluate.record import RECORD
    from ruplar.model.store import find_model, read_metadata
    from ruplar.report.card import README, build_card
    from ruplar.report.model_records import find_model_records

    source = find_model(model)
    alone = folder.exists() and folder.resolve() == source.resolve()
    if not alone:
        _free(folder, README)
    if folder.exists():
        free_file(folder / README, force)
    said = _text(limits) if limits else ""
    beside = source.parent / RECORD
    # what is wrong with the records is told before anything is written
    subject = find_model_records(
        read_metadata(source), runs or [], made_by=run, beside=beside if beside.is_file() else None, drafts=drafts
    )
    _checked(licence)
    about = _as_it_is(folder) if alone else _written(model, folder, merge, dtype)
    text = build_card(about, subject, licence=licence, more_limits=said)
    (folder / README).write_text(text, encoding="utf-8")
    out.print(f"card     {folder / README}", highlight=False)


def _free(folder: Path, but: str = "") -> None:
    if no_file(folder).exists() and any(file.name != but for file in folder.iterdir()):
        raise UserError(f"{folder} exists and is not empty. Name another folder.")


def _written(model: str, folder: Path, merge: bool, dtype: str) -> Written:
    import torch

    from ruplar.model.store import export_model

    found = export_model(model, folder, merge=merge, dtype=getattr(torch, dtype))
    out.print(f"written  {folder}", highlight=False)
    return _about(found, folder)


def _as_it_is(folder: Path) -> Written:
    from ruplar.model.store import load_model

    return _about(load_model(folder), folder)


def _about(model: Model, folder: Path) -> Written:
    from ruplar.report.card import Written

    named = model.backbone.model.named_parameters()
    parameters = sum(p.numel() for name, p in named if "lora_" not in name and "trainable_tokens" not in name)
    size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    adapter = (folder / "adapter_config.json").is_file()
    return Written(folder.resolve().name, model.metadata, adapter, parameters, size / 1e6)


def _checked(licence: str | None) -> None:
    if licence is not None and not re.fullmatch(r"[a-z0-9][a-z0-9.+-]*", licence):
        raise UserError(
            f"--license: '{licence}' is not an identifier. Write it as the Hub does, e.g. apache-2.0 or mit."
        )


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--limits: {file} cannot be read ({error}). Name a Markdown file.") from error
