"""`ruplar bench …`: one benchmark each, printed as a table and optionally written as JSON."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ruplar.cli.options import Device, Dtype, integers, pick_device, print_text, writable_folder
from ruplar.errors import UserError

bench = typer.Typer(help="Measure speed and memory against a written chain and other baselines.", no_args_is_help=True)
out = Console()

Shape = Annotated[
    str, typer.Option(help="Shape: llama-3.2-1b, llama-3.2-3b, qwen2.5-0.5b, qwen2.5-1.5b, smollm2-135m or embedded.")
]


def _writable(file: Path | None) -> Path | None:
    """Check that the record can be written before anything is measured."""
    if file is not None:
        writable_folder(file.parent)
    return file


Output = Annotated[Path | None, typer.Option(dir_okay=False, callback=_writable, help="Also write a JSON record.")]
Quick = Annotated[bool, typer.Option("--quick", help="Use tiny sizes as a smoke test; the timings mean nothing.")]
On = Annotated[str, typer.Option(help="Questions: a name in `ruplar data fetch`, a file or generated problems.")]


@bench.command()
def latency(shape: Shape = "embedded", device: Device = "auto", output: Output = None, quick: Quick = False) -> None:
    """Measure latency at batch size 1.

    Compares soft tokens with a written chain on the same engine and through HF generate, the published procedure and the
    hardware floor.
    """
    from ruplar.bench import latency as bench_latency

    lengths = bench_latency.QUICK if quick else bench_latency.Lengths()
    _show(bench_latency.latency(shape, *_place(device), 3 if quick else 30, lengths), output)


@bench.command()
def throughput(
    shape: Shape = "embedded",
    device: Device = "auto",
    batches: Annotated[str, typer.Option(help="Comma-separated batch sizes (concurrent questions).")] = "1,8,64",
    output: Output = None,
    quick: Quick = False,
) -> None:
    """Measure questions per second by batch size.

    Uses GSM8K's prompt lengths and compares with a written chain on the same engine and through HF generate, and with the
    published procedure.
    """
    from ruplar.bench.throughput import throughput as measure

    sizes = _positive(batches, "--batches")
    count, sample, times = (12, 3, 1) if quick else (1319, 24, 3)
    _show(measure(shape, *_place(device), sizes, count, sample, times), output)


@bench.command()
def train(
    shape: Shape = "embedded",
    device: Device = "auto",
    batch: Annotated[int, typer.Option(min=1, help="Sequences per training step.")] = 32,
    lora: Annotated[bool, typer.Option("--lora/--full", help="Train a LoRA adapter, or all weights.")] = True,
    pack: Annotated[int, typer.Option(min=0, help="Pack sequences into rows of this many tokens; 0: no packing.")] = 0,
    compile: Annotated[bool | None, typer.Option(help="Use torch.compile on the layers. Default: on a GPU.")] = None,
    checkpoint: Annotated[bool, typer.Option("--gradient-checkpointing", help="Recompute activations.")] = False,
    graph: Annotated[
        bool, typer.Option("--graph", help="Replay packed rows as CUDA graphs, as speed.graph does in training.")
    ] = False,
    liger: Annotated[bool, typer.Option("--liger", help="Use Liger's kernels (training.use_liger_kernel).")] = False,
    published: Annotated[bool, typer.Option(help="Also measure the published procedure.")] = True,
    output: Output = None,
    quick: Quick = False,
) -> None:
    """Measure speed and memory of a training step.

    Compares with the published procedure: dense priors and full logits.
    """
    from ruplar.bench.train import TrainOptions
    from ruplar.bench.train import train as measure

    where, precision = _place(device)
    compiled = where.startswith("cuda") if compile is None else compile
    options = TrainOptions(2 if quick else batch, lora, pack, compiled, checkpoint, graph, liger, published)
    _show(measure(shape, where, precision, options, 2 if quick else 20), output)


@bench.command()
def growth(shape: Shape = "embedded", device: Device = "auto", output: Output = None) -> None:
    """Measure latency by number of latents, prompt length and batch size.

    Shows the hardware floor next to each measurement.
    """
    from ruplar.bench.throughput import growth as measure

    _show(measure(shape, *_place(device)), output)


@bench.command()
def models(
    model: Annotated[str, typer.Argument(help="Model that reasons in soft tokens: a folder or a name.")],
    text: Annotated[str, typer.Argument(help="Model that writes its chain: a folder or a name.")],
    on: On = "word-problems",
    device: Device = "auto",
    dtype: Dtype = "auto",
    batches: Annotated[str, typer.Option(help="Comma-separated batch sizes.")] = "1,16",
    questions: Annotated[int, typer.Option(min=1, help="Number of questions.")] = 32,
    output: Output = None,
) -> None:
    """Time two trained models on the same questions.

    Compares soft tokens with the text model's written chain, on the same engine and through HF generate.
    """
    from ruplar.bench.models import models as measure

    where, usual = _place(device)
    place = (where, usual if dtype == "auto" else dtype)
    _show(measure((model, text), on, place, _positive(batches, "--batches"), questions), output)


@bench.command()
def agreement(
    model: Annotated[str, typer.Option(help="Model folder or name.")] = "embedded:ruplar",
    slots: Annotated[str, typer.Option(help="Comma-separated numbers of slots of the fast engine.")] = "1,8,64",
    questions: Annotated[int, typer.Option(min=8, help="Number of questions.")] = 300,
    on: On = "word-problems",
    device: Device = "auto",
    output: Output = None,
) -> None:
    """Measure how often the two engines agree.

    The fast and the reference engine answer the same questions with a trained model, in float32 and in bfloat16.
    """
    from ruplar.bench.latency import agreement as measure

    _show(measure(model, pick_device(device), questions, _positive(slots, "--slots"), on=on), output)


def _positive(text: str, option: str) -> list[int]:
    found = integers(text, option)
    if min(found) < 1:
        raise UserError(f"{option}: values must be at least 1, got {text}.")
    return found


def _place(device: str) -> tuple[str, str]:
    """Return the device and its data type."""
    where = pick_device(device)
    return where, "float32" if where == "cpu" else "bfloat16"


def _show(record: dict[str, Any], output: Path | None) -> None:
    from ruplar.bench.report import ordered, shown
    from ruplar.io import write_json

    out.print(*shown(record), sep="\n", highlight=False)
    if output is not None:
        write_json(output, ordered(record))
        print_text(out, f"record   {output}")
