"""Words typed → one verb each; `data`, `bench`, `report` and `study` have files of their own.

Torch is imported by the verbs that need it, so help, `list`, `preview` and the checking of a recipe take a moment.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ruplar import __version__
from ruplar.cli.ask import ask
from ruplar.cli.average import average
from ruplar.cli.bench import bench
from ruplar.cli.data import data
from ruplar.cli.export import export
from ruplar.cli.fetch import fetch
from ruplar.cli.listing import list_
from ruplar.cli.options import (
    AsJson,
    DataDir,
    Device,
    MethodSettings,
    ModelArg,
    NoiseScale,
    NoiseTemperature,
    Samples,
    Temperature,
    TopP,
    drawing,
    integers,
    method_settings,
    no_file,
    pick_device,
    print_json,
)
from ruplar.cli.preview import chains_of, make, plugin_settings
from ruplar.cli.report import report
from ruplar.cli.serve import serve
from ruplar.cli.study import study
from ruplar.errors import UserError

app = typer.Typer(
    help="Language models that think in a handful of soft tokens: train one, trust one, run one.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(data, name="data")
app.add_typer(bench, name="bench")
app.command()(ask)
app.command()(export)
app.command()(average)
app.command()(fetch)
app.command("serve")(serve)
app.command()(report)
app.command()(study)
app.command("list")(list_)

out = Console()
err = Console(stderr=True)

BatchSize = Annotated[int, typer.Option(min=1, help="Questions answered at a time.")]
On = Annotated[
    str, typer.Option(help="Comma-separated: known sets (gsm8k-aug, svamp …), word-problems[:FAMILY], files.")
]


@app.callback(invoke_without_command=True)
def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say more of what is done.")] = False,
) -> None:
    level = logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, format="ruplar: %(message)s", stream=sys.stderr)
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # our own bars say what is going on
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    if version:
        out.print(f"ruplar {__version__}", highlight=False)
        raise typer.Exit


@app.command()
def demo(
    output: Annotated[Path, typer.Option(help="Where everything is written.")] = Path("runs/demo"),
    questions: Annotated[int, typer.Option(min=20, help="Held-out problems asked of every method.")] = 400,
    device: Device = "cpu",
) -> None:
    """The whole loop on the model inside the package: compare, ablate, train live, show thoughts. Minutes on a laptop."""
    from ruplar.demo import run_demo

    run_demo(output, questions, pick_device(device), out)


@app.command()
def preview(
    chains: Annotated[str, typer.Argument(help="A chain such as '<<20*1.20=24>>', or a file of chains.")],
    tokenizer: Annotated[
        str | None,
        typer.Option(help="See `ruplar list backbones`; llama-3, a folder, a tokenizer.model file, or a Hub name."),
    ] = None,
    number_tokens: Annotated[
        bool, typer.Option("--number-tokens", help="With tokens for groups of digits, as backbone.number_tokens adds.")
    ] = False,
    prior: Annotated[str, typer.Option(help="See `ruplar list priors`.")] = "mixture",
    semantics: Annotated[
        str | None, typer.Option(help="Of the mixture prior: set, multiset, paper, published.")
    ] = None,
    spans: Annotated[str, typer.Option(help="See `ruplar list spans`.")] = "step",
    domain: Annotated[str, typer.Option(help="See `ruplar list domains`.")] = "arithmetic",
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting, e.g. prior.operand_share=0.3.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of priors that draw.")] = 0,
    limit: Annotated[int, typer.Option(min=1, help="Chains of a file to show.")] = 5,
    as_json: AsJson = False,
) -> None:
    """What a chain teaches: its steps, its spans, and the prior of each latent as the tokenizer sees it."""
    from ruplar.model.number_tokens import with_number_tokens
    from ruplar.model.prompt import PlainText
    from ruplar.model.tokenizers import load_tokenizer, of_domain
    from ruplar.preview import preview as make_preview
    from ruplar.preview import render
    from ruplar.priors.base import PriorTable

    chosen = plugin_settings(settings or [], {"semantics": semantics} if semantics else {})
    rule = make("domains", domain, chosen["domain"])
    cutter = make("spans", spans, chosen["spans"])
    loaded = load_tokenizer(tokenizer or of_domain(domain))
    loaded = with_number_tokens(loaded) if number_tokens else loaded
    encode = PlainText(loaded, frozenset(loaded.all_special_ids))
    table = PriorTable(make("priors", prior, chosen["prior"]), encode, seed)
    shown = [
        make_preview(c, tokenizer=loaded, domain=rule, spans=cutter, prior_table=table)
        for c in chains_of(chains, rule, limit)
    ]
    if as_json:
        rows = [s.as_dict() for s in shown]
        print_json(rows[0] if len(rows) == 1 else rows)
    else:
        for one in shown:
            render(one, out)


@app.command(context_settings={"ignore_unknown_options": False})
def train(
    recipe: Annotated[
        str | None, typer.Argument(help="A recipe of `ruplar list recipes`, or your own YAML file; not with --row.")
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Dotted settings, e.g. prior.operand_share=0.3.")
    ] = None,
    row: Annotated[
        str | None, typer.Option(metavar="STUDY:LABEL", help="Train one row of a study exactly as the study does.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="The run's folder; runs/NAME-seedN when left out.")] = None,
    resume: Annotated[bool, typer.Option(help="Go on from the last complete checkpoint of that folder.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Only check the recipe and print it whole.")] = False,
    device: Device = "auto",
) -> None:
    """Train a model from a recipe."""
    from ruplar.config import load_recipe, to_yaml

    if row is not None:
        from ruplar.experiments.plan import row_config

        config, settings = row_config(row, [*([recipe] if recipe else []), *(overrides or [])])
        overrides = list(settings)
    elif recipe is None:
        raise UserError(
            "no recipe is named. Name one of `ruplar list recipes`, or a row of a study: --row STUDY:LABEL."
        )
    else:
        config = load_recipe(recipe, overrides or [])
    if check:
        out.print(to_yaml(config), markup=False, highlight=False)
        return
    from ruplar.runs import train_and_record

    folder = no_file(output or Path("runs") / f"{config.name}-seed{config.seed}")
    found = train_and_record(config, folder, overrides or [], resume=resume, device=pick_device(device), console=out)
    if found is not None:
        out.print(
            f"model    {found / 'model'}\nrecord   {found / 'run.json'}\ncurve    {found / 'metrics.jsonl'}",
            highlight=False,
        )


@app.command()
def evaluate(
    model: ModelArg,
    on: On,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Only the first questions; such a run enters no table.")
    ] = None,
    seeds: Annotated[str, typer.Option(help="Comma-separated; they matter when something is drawn.")] = "0",
    samples: Samples = 1,
    noise: NoiseScale = None,
    noise_temperature: NoiseTemperature = 1.0,
    temperature: Temperature = 0.0,
    top_p: TopP = 1.0,
    max_answer_tokens: Annotated[int, typer.Option(min=1, help="An answer is cut here.")] = 64,
    lenient: Annotated[bool, typer.Option(help="Grade as the published code does; labelled in every table.")] = False,
    batch_size: BatchSize = 64,
    alone: Annotated[
        int, typer.Option(min=0, help="Ask so many of the first questions one by one too, for what one alone takes.")
    ] = 0,
    data_dir: DataDir = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave unreadable rows out; such a run enters no table.")
    ] = False,
    output: Annotated[Path | None, typer.Option(help="Folder for run.json and samples.jsonl.gz.")] = None,
    settings: MethodSettings = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Accuracy with its interval, #L, forwards, latency and memory on any benchmark or file."""
    from ruplar.engine.sampling import Decoding
    from ruplar.runs import evaluate_and_record

    noise = drawing(samples, noise, temperature)
    decoding = Decoding(temperature, top_p, 0, max_answer_tokens, noise, noise_temperature)
    if output:
        no_file(output)
    record, folder = evaluate_and_record(
        model, _sources(on), decoding, integers(seeds, "--seeds"), limit=limit, lenient=lenient, batch_size=batch_size,
        data_dir=data_dir, skip_bad=skip_bad, output=output, device=pick_device(device), console=err,
        settings=method_settings(settings or []), samples=samples, latency_questions=alone,
    )  # fmt: skip
    if as_json:
        print_json([b.model_dump(mode="json") for b in record.benchmarks])
        return
    from ruplar.display import benchmark_table, pass_table

    out.print(benchmark_table(f"{model} on {on}", record.benchmarks))
    if any(b.pass_at for b in record.benchmarks):
        out.print(pass_table("pass@k: one of k answers is right", record.benchmarks))
    out.print(f"record   {folder / 'run.json'}\nsamples  {folder / 'samples.jsonl.gz'}", highlight=False)
    for reason in record.partial:
        out.print(f"partial: {reason}; it enters no table", style="yellow", highlight=False)


@app.command()
def ablate(
    model: ModelArg,
    on: On = "word-problems",
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first questions of each set.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the random latents and the shuffling.")] = 0,
    batch_size: BatchSize = 64,
    data_dir: DataDir = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Do the latents matter? Real against none, random, shuffled, zeroed, and hardened to their likeliest token."""
    from ruplar.display import ablation_table
    from ruplar.runs import ablate_model

    found = ablate_model(
        model, _sources(on), limit=limit, seed=seed, batch_size=batch_size, data_dir=data_dir, device=pick_device(device), console=err
    )  # fmt: skip
    if as_json:
        print_json({name: [r.as_dict() for r in rows] for name, rows in found.items()})
        return
    for name, rows in found.items():
        out.print(ablation_table(f"{model} on {name}", rows))


def main() -> None:
    """The `ruplar` command: a user's mistake is shown without a traceback and ends with status 2."""
    try:
        app()
    except UserError as error:
        err.print(f"ruplar: {error}", markup=False, highlight=False, soft_wrap=True)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        err.print("ruplar: stopped", highlight=False)
        raise SystemExit(130) from None


def _sources(text: str) -> list[Any]:
    from pydantic import ValidationError

    from ruplar.data.sources import SourceConfig

    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names:
        raise UserError("--on: names no set. Write for instance word-problems, or gsm8k-aug,svamp, or a file.")
    try:
        return [SourceConfig.model_validate(name) for name in names]
    except ValidationError as error:
        raise UserError(*(f"--on: {e['msg'].removeprefix('Value error, ')}" for e in error.errors())) from error
