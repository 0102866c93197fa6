"""The `ruplar` command: `demo`, `train`, `evaluate` and `ablate`; the other commands have their own modules.

Torch is imported only by the commands that need it, so that help, `list`, `preview` and `train --check` start quickly.
"""

import io
import logging
import os
import sys
import warnings
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ruplar import __version__
from ruplar.cli import options
from ruplar.cli.ask import ask
from ruplar.cli.bench import bench
from ruplar.cli.data import data
from ruplar.cli.listing import completion, list_
from ruplar.cli.models import average, export, fetch, push
from ruplar.cli.preview import preview
from ruplar.cli.report import report
from ruplar.cli.serve import serve
from ruplar.cli.study import study
from ruplar.errors import Interrupted, UserError

app = typer.Typer(
    help="Train, evaluate and serve language models that reason in a few soft tokens instead of text.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

out = Console()
err = Console(stderr=True)

BatchSize = Annotated[int, typer.Option(min=1, help="Batch size: questions answered concurrently.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Use only the first N questions of each dataset.")]
On = Annotated[
    str,
    typer.Option(help="Comma-separated datasets: known names (gsm8k-aug, svamp, …), word-problems[:FAMILY] or files."),
]


@app.callback(invoke_without_command=True)
def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log more details.")] = False,
) -> None:
    level = logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, format="ruplar: %(message)s", stream=sys.stderr)
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # ruplar shows its own progress bars
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    if version:
        out.print(f"ruplar {__version__}", highlight=False)
        raise typer.Exit


@app.command()
def demo(
    output: Annotated[Path, typer.Option(help="Output folder; replaces an earlier demo's.")] = Path("runs/demo"),
    questions: Annotated[
        int | None,
        typer.Option(
            min=20,
            help="Number of held-out problems per evaluation. Default: 100 (40 in the ablation), or 400 with --full.",
        ),
    ] = None,
    full: Annotated[
        bool,
        typer.Option("--full", help="Evaluate 400 problems and train for 600 steps: about 12 minutes on two cores."),
    ] = False,
    train: Annotated[bool, typer.Option(help="Also train; --no-train stops before the training.")] = True,
    device: options.Device = "cpu",
) -> None:
    """Run the five-minute tour of the embedded model, on a CPU.

    Shows the latents of a few problems, compares methods and ablates the latents (half a minute), then trains on a new
    family of problems. Ctrl-C ends the training early and evaluates the model so far.
    """
    from ruplar.demo import FULL, DemoSize, run_demo

    size = FULL if full else DemoSize()
    size = replace(size, questions=questions, ablated=questions) if questions else size
    run_demo(output, size, options.pick_device(device), out, train=train)


@app.command()
def train(
    recipe: Annotated[
        str | None,
        typer.Argument(
            help="Recipe: a name in `ruplar list recipes`, or a YAML file; not with --row.",
            autocompletion=completion("recipes"),
        ),
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Settings that override the recipe, e.g. prior.operand_share=0.3.")
    ] = None,
    row: Annotated[
        str | None, typer.Option(metavar="STUDY:LABEL", help="Train one row of a study exactly as the study does.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Output folder of the run. [default: runs/NAME-seedN]")] = None,
    resume: Annotated[bool, typer.Option(help="Resume from the last complete checkpoint of the run.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Check the recipe and print all its settings, without training.")
    ] = False,
    device: options.Device = "auto",
) -> None:
    """Train a model from a recipe and write its run folder."""
    from ruplar.config import load_recipe, to_yaml
    from ruplar.config.check import unverified

    overrides = overrides or []
    if row is not None:
        from ruplar.experiments.tries import row_config

        config, given = row_config(row, [*([recipe] if recipe else []), *overrides])
        overrides = list(given)
    elif recipe is None:
        raise UserError("pass a recipe of `ruplar list recipes`, or a row of a study: --row STUDY:LABEL.")
    else:
        config = load_recipe(recipe, overrides)
    if check:
        options.print_text(out, to_yaml(config))
        for name in unverified(config.data):
            text = f"data: '{name}' is not a local file; whether it exists on the Hub was not checked."
            options.print_text(err, text)
        return
    from ruplar.io import METRICS, MODEL, RECORD
    from ruplar.runs import train_and_record

    folder = options.writable_folder(output or Path("runs") / f"{config.name}-seed{config.seed}")
    where = options.pick_device(device)
    if where == "cpu" and config.training.get("bf16"):
        text = f"{config.name} is meant for a GPU (training.bf16: true); on a CPU the whole run takes hours or days. "
        options.print_text(out, f"{text}For a CPU: `ruplar train embedded-live`.", "yellow")
    found = train_and_record(config, folder, overrides, resume=resume, device=where, console=out)
    if found is not None:
        options.print_text(out, f"model    {found / MODEL}\nrecord   {found / RECORD}\ncurve    {found / METRICS}")


@app.command()
def evaluate(
    model: options.ModelArg,
    on: On,
    limit: Limit = None,
    seeds: Annotated[
        str, typer.Option(help="Comma-separated random seeds; one evaluation each. Only sampling depends on them.")
    ] = "0",
    samples: options.Samples = 1,
    noise: options.NoiseScale = None,
    temperature: options.Temperature = 0.0,
    top_p: options.TopP = 1.0,
    max_answer_tokens: Annotated[int, typer.Option(min=1, help="Maximum number of answer tokens.")] = 64,
    lenient: Annotated[bool, typer.Option(help="Grade like the published code; tables mark such results.")] = False,
    batch_size: BatchSize = 64,
    batch1: Annotated[int, typer.Option(min=0, help="Also time the first N questions at batch size 1.")] = 0,
    data_dir: options.DataDir = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip unreadable rows; marks the run partial.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(help="Output folder. Default: the folder of the model's run, or runs/evaluate-MODEL."),
    ] = None,
    settings: options.MethodSettings = None,
    device: options.Device = "auto",
    ray: options.Ray = None,
    gpus: options.Gpus = None,
    as_json: options.AsJson = False,
) -> None:
    """Evaluate a model on benchmarks or files.

    Reports accuracy with its 95 % CI, latents, forward passes, latency and memory.
    """
    from ruplar.engine.sampling import Decoding
    from ruplar.runs import evaluate_and_record

    noise = options.default_noise(samples, noise, temperature)
    decoding = Decoding(temperature, top_p, 0, max_answer_tokens, noise)
    options.check_ray(ray, gpus, batch1=batch1)
    if output:
        options.writable_folder(output)
    with ExitStack() as stack:
        load = None
        if ray is not None:
            from ruplar.cluster.answers import cluster_reasoners

            load = stack.enter_context(cluster_reasoners(ray, device, gpus))
        record, folder, results = evaluate_and_record(
            model, _sources(on), decoding, options.integers(seeds, "--seeds"), limit=limit, lenient=lenient,
            batch_size=batch_size, data_dir=data_dir, skip_bad=skip_bad, output=output, console=err, load=load,
            device="cpu" if ray is not None else options.pick_device(device),
            settings=options.method_settings(settings), samples=samples, latency_questions=batch1,
        )  # fmt: skip
    if as_json:
        options.print_json([b.model_dump(mode="json") for b in results])
        return
    from ruplar.display import benchmark_table, pass_table

    out.print(benchmark_table(f"{model} on {on}", results))
    if any(b.pass_at for b in results):
        out.print(pass_table("pass@k: at least one of k answers is correct", results))
    options.print_text(out, f"record   {folder / 'run.json'}\nsamples  {folder / 'samples.jsonl.gz'}")
    for reason in record.partial:
        options.print_text(out, f"partial: {reason}; excluded from report tables", "yellow")


@app.command()
def ablate(
    model: options.ModelArg,
    on: On = "word-problems",
    limit: Limit = None,
    seed: options.Seed = 0,
    batch_size: BatchSize = 64,
    data_dir: options.DataDir = None,
    device: options.Device = "auto",
    as_json: options.AsJson = False,
) -> None:
    """Measure whether the latents matter (latent ablation).

    Compares accuracy with real, no, random, shuffled, zeroed and hardened (argmax token) latents.
    """
    from ruplar.display import ablation_table
    from ruplar.runs import ablate_model

    found = ablate_model(
        model, _sources(on), limit=limit, seed=seed, batch_size=batch_size, data_dir=data_dir, device=options.pick_device(device), console=err
    )  # fmt: skip
    if as_json:
        options.print_json({name: [r.as_dict() for r in rows] for name, rows in found.items()})
        return
    for name, rows in found.items():
        out.print(ablation_table(f"{model} on {name}", rows))


for command in (ask, preview, study, report, serve, export, push, average, fetch):
    app.command()(command)
app.command("list")(list_)
app.add_typer(data, name="data")
app.add_typer(bench, name="bench")


_DISK = ("I/O error", "PytorchStreamWriter")
"""In errors of safetensors and torch that are not an OSError: the disk is full or read-only."""


def main() -> None:
    """Run the `ruplar` command; a user error is printed without a traceback and exits with status 2."""
    # transformers warns the authors of peft; users can do nothing about it
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    for stream, errors in ((sys.stdin, "surrogateescape"), (sys.stdout, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":  # else one wrong byte is a traceback
            stream.reconfigure(errors=errors)
    try:
        app()
    except UserError as error:
        options.print_text(err, f"ruplar: {error}")
        raise SystemExit(130 if isinstance(error, Interrupted) else 2) from None
    except KeyboardInterrupt:
        err.print("ruplar: interrupted", highlight=False)
        raise SystemExit(130) from None
    except Exception as error:  # a full or read-only disk, a file without permission
        if not isinstance(error, OSError) and not any(sign in str(error) for sign in _DISK):
            raise
        options.print_text(err, f"ruplar: {str(error)[:500]}. Complete files are intact.")
        raise SystemExit(2) from None


def _sources(text: str) -> list[Any]:
    from pydantic import ValidationError

    from ruplar.data.sources import SourceConfig

    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names:
        raise UserError("--on: no dataset given. Use e.g. word-problems, gsm8k-aug,svamp or a file.")
    try:
        return [SourceConfig.model_validate(name) for name in names]
    except ValidationError as error:
        raise UserError(*(f"--on: {e['msg'].removeprefix('Value error, ')}" for e in error.errors())) from error
