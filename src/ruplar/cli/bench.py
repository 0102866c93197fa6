"""`ruplar bench …` → a measurement each: printed as a table, written as JSON when asked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from ruplar.cli.options import Device, integers, pick_device
from ruplar.errors import UserError

bench = typer.Typer(help="Ours, the published procedure and the hardware's floor, in one run.", no_args_is_help=True)
out = Console()

Shape = Annotated[str, typer.Option(help="llama-3.2-1b, llama-3.2-3b, qwen2.5-1.5b, smollm2-135m or embedded.")]
Dtype = Annotated[
    Literal["auto", "float32", "bfloat16"], typer.Option(help="auto: float32 on a CPU, bfloat16 elsewhere.")
]
Json = Annotated[Path | None, typer.Option("--json", help="Write the record to this file.")]
Quick = Annotated[bool, typer.Option("--quick", help="Tiny sizes: shows that it runs, says nothing about speed.")]
Repeats = Annotated[int, typer.Option(min=1, help="Times each is measured.")]


@bench.command()
def latency(
    shape: Shape = "embedded",
    device: Device = "auto",
    dtype: Dtype = "auto",
    repeats: Repeats = 30,
    json: Json = None,
    quick: Quick = False,
) -> None:
    """One question at a time: ours, published, text CoT through HF generate, and the floor."""
    from ruplar.bench import latency as bench_latency

    where, precision = _place(device, dtype)
    lengths = bench_latency.QUICK if quick else bench_latency.Lengths()
    _show(bench_latency.latency(shape, where, precision, 3 if quick else repeats, lengths, 4 if quick else 64), json)


@bench.command()
def throughput(
    shape: Shape = "embedded",
    device: Device = "auto",
    dtype: Dtype = "auto",
    batches: Annotated[str, typer.Option(help="Questions in flight, comma-separated.")] = "1,8,64",
    questions: Annotated[int, typer.Option(min=1, max=1319, help="How many, lengths as GSM8K's.")] = 1319,
    repeats: Repeats = 3,
    json: Json = None,
    quick: Quick = False,
) -> None:
    """Questions a second by batch size, on GSM8K's prompt lengths, against the published loop."""
    from ruplar.bench.throughput import throughput as measure

    where, precision = _place(device, dtype)
    sizes = integers(batches, "--batches")
    if min(sizes) < 1:
        raise UserError(f"--batches: each must be at least 1, got {batches}.")
    count, sample, times = (12, 3, 1) if quick else (questions, 24, repeats)
    _show(measure(shape, where, precision, sizes, count, sample, times), json)


@bench.command()
def train(
    shape: Shape = "embedded",
    device: Device = "auto",
    dtype: Dtype = "auto",
    batch: Annotated[int, typer.Option(min=1, help="Sequences a step.")] = 32,
    lora: Annotated[bool, typer.Option("--lora/--full", help="Train adapters, or all weights.")] = True,
    pack: Annotated[int, typer.Option(min=0, help="Ours: width of packed rows; 0: a row each.")] = 0,
    compile: Annotated[bool | None, typer.Option(help="Ours: compile the layers; on a GPU by default.")] = None,
    head_chunk: Annotated[int, typer.Option(min=0, help="Ours: positions that meet the head at once.")] = 0,
    checkpoint: Annotated[bool, typer.Option("--checkpoint", help="Ours: recompute activations.")] = False,
    keep: Annotated[float, typer.Option(min=0, max=1, help="Ours, compiled: share of activations kept.")] = 1.0,
    repeats: Repeats = 20,
    json: Json = None,
    quick: Quick = False,
) -> None:
    """Tokens a second and peak memory of a training step, against dense priors and full logits."""
    from ruplar.bench.train import TrainOptions
    from ruplar.bench.train import train as measure

    where, precision = _place(device, dtype)
    compiled = where.startswith("cuda") if compile is None else compile
    options = TrainOptions(2 if quick else batch, lora, pack, compiled, head_chunk, checkpoint, keep)
    _show(measure(shape, where, precision, options, 2 if quick else repeats), json)


@bench.command()
def priors(
    shape: Shape = "llama-3.2-1b",
    prior: Annotated[str, typer.Option(help="See `ruplar list priors`.")] = "mixture",
    chains: Annotated[int, typer.Option(min=1, help="How many, from the word-problem generator.")] = 100_000,
    file: Annotated[Path | None, typer.Option(help="Or all chains of this file.")] = None,
    json: Json = None,
    quick: Quick = False,
) -> None:
    """Chains a second from steps to priors, against a vector of the vocabulary's size for every step."""
    from ruplar.bench.priors import priors as measure

    _show(measure(shape, prior, 100 if quick else chains, file, 5 if quick else 200), json)


@bench.command()
def growth(
    shape: Shape = "embedded",
    device: Device = "auto",
    dtype: Dtype = "auto",
    batches: Annotated[str, typer.Option(help="Batch sizes, comma-separated.")] = "1,2,4,8,16,32,64",
    repeats: Repeats = 10,
    json: Json = None,
) -> None:
    """How a question's cost grows with latents, prompt length and batch size, the floor beside it."""
    from ruplar.bench.growth import growth as measure

    where, precision = _place(device, dtype)
    _show(measure(shape, where, precision, integers(batches, "--batches"), repeats), json)


@bench.command()
def agreement(
    device: Device = "auto",
    questions: Annotated[int, typer.Option(min=8, help="Word problems asked.")] = 300,
    json: Json = None,
) -> None:
    """How often the fast engine and the plain loop say the same, with the embedded model's trained weights."""
    from ruplar.bench.agreement import agreement as measure

    where = pick_device(device)
    _show(measure(where, questions, ("float32",) if where == "cpu" else ("float32", "bfloat16")), json)


def _place(device: str, dtype: str) -> tuple[str, str]:
    where = pick_device(device)
    return where, ("float32" if where == "cpu" else "bfloat16") if dtype == "auto" else dtype


def _show(record: dict[str, Any], json: Path | None) -> None:
    from ruplar.bench.report import table, write_json

    out.print(table(record))
    if json is not None:
        write_json(record, json)
        out.print(f"record   {json}", highlight=False)
