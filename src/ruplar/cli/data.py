"""`ruplar data …`: generate, check and augment chains.

`data convert` is in `cli/data_convert.py`; `data fetch` and `data prepare` are in `cli/data_prepare.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from ruplar import plugins
from ruplar.cli import options
from ruplar.cli.data_convert import convert
from ruplar.cli.data_prepare import fetch, prepare
from ruplar.errors import UserError
from ruplar.types import Example

if TYPE_CHECKING:
    from ruplar.data.augment import AugmentReport

data = typer.Typer(help="Download, generate, convert and check training data.", no_args_is_help=True)
data.command("convert")(convert)
data.command("fetch")(fetch)
data.command("prepare")(prepare)
out = Console()


@data.command("make")
def make(
    file: Annotated[Path, typer.Argument(help="Output file (jsonl).")],
    count: Annotated[int, typer.Option(min=1, help="Number of problems.")] = 1000,
    seed: options.Seed = 1,
    families: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated problem families (see `ruplar list families`), or a group: short, situations, held-out."
        ),
    ] = None,
    steps: Annotated[str, typer.Option(help="Minimum and maximum number of steps per problem.")] = "1,6",
    domain: Annotated[str, typer.Option(help="Domain of the problems: arithmetic, dates or logic.")] = "arithmetic",
    drills: Annotated[bool, typer.Option("--drills", help="Generate drills instead of word problems.")] = False,
    force: options.Force = False,
) -> None:
    """Generate problems with verified chains."""
    from ruplar.data.sources import generator, group
    from ruplar.problems.drills import generate as generate_drills
    from ruplar.problems.word_problems import write_jsonl

    low, high = options.integers(steps, "--steps", 2)
    if not 1 <= low <= high:
        raise UserError(f"--steps: the minimum, at least 1, comes before the maximum, e.g. 1,6; got {steps}.")
    if families is not None and (domain != "arithmetic" or drills):
        what = "drills" if drills else f"problems of the domain '{domain}'"
        raise UserError(f"--families: {what} have none. Remove it.")
    if drills and domain != "arithmetic":
        raise UserError(f"--drills: the domain '{domain}' has none.")
    chosen: dict[str, Any] = (
        {"families": [one for name in families.split(",") for one in group(name)]} if families is not None else {}
    )
    generate: Callable[..., Iterator[Example]] = generate_drills if drills else generator(domain)
    options.writable_file(file, force)
    written = write_jsonl(file, generate(count, seed, steps=(low, high), **chosen))
    options.print_text(out, f"{written:,} problems in {file}")


@data.command("check")
def check(
    file: Annotated[str, typer.Argument(help="Data to check: a file, a known dataset or a Hub name.")],
    domain: options.Domain = "arithmetic",
    format: options.Format = None,
    data_dir: options.DataDir = None,
    show: Annotated[int, typer.Option(min=0, help="Examples to print per kind of problem.")] = 5,
    rows: Annotated[int, typer.Option(min=0, help="Print the first N rows as they were parsed.")] = 0,
    as_json: options.AsJson = False,
) -> None:
    """Check chains: parse and re-execute them.

    Reports how rows are parsed, which are dropped and why, and which steps are wrong.
    """
    from ruplar.data.check import check_chains

    found = check_chains(file, plugins.make("domains", domain), format=format, data_dir=data_dir, rows=rows)
    if as_json:
        options.print_json(found.as_dict())
    else:
        options.print_text(out, found.text(show))


@data.command("augment")
def augment(
    source: Annotated[str, typer.Argument(help="Chains to augment: a file, a known dataset or a Hub name.")],
    output: Annotated[Path, typer.Argument(help="Output file (jsonl).")],
    count: Annotated[int, typer.Option(min=1, help="Total number of problems to write.")] = 150_000,
    per_chain: Annotated[int, typer.Option(min=1, help="Maximum number of problems per chain.")] = 100,
    seed: options.Seed = 1,
    valid: Annotated[list[str] | None, typer.Option(help="Dataset whose questions are held out. Repeatable.")] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(help="Test set: drop chains that share 13 words in a row, numbers masked, with it. Repeatable."),
    ] = None,
    large: Annotated[
        float, typer.Option(min=0, max=1, help="Fraction of problems with a number of 4 to 7 digits, as in GSM-Hard.")
    ] = 0.05,
    format: options.Format = None,
    force: options.Force = False,
    data_dir: options.DataDir = None,
    ray: options.Ray = None,
    as_json: options.AsJson = False,
) -> None:
    """Augment chains by resampling their numbers.

    Numbers are drawn from plausible ranges and chains are re-executed; implausible problems are dropped.
    """
    from ruplar.data.augment import AugmentReport, generate, make_plans
    from ruplar.data.decontamination import index_of, why_not_train
    from ruplar.data.read import read
    from ruplar.fingerprints import digest
    from ruplar.problems.word_problems import write_jsonl

    domain = plugins.make("domains", "arithmetic")
    if why := why_not_train(source):
        raise UserError(f"{why}; training on it is an error.")
    options.writable_file(output, force, source)
    held_out = {
        digest(example.question)
        for name in valid or ()
        for example in read(name, domain, need_steps=False, skip_bad=True, data_dir=data_dir).examples
    }
    chains = read(source, domain, format=format, skip_bad=True, data_dir=data_dir)
    index = index_of(against, domain, data_dir) if against else None

    def refuse(example: Example) -> str | None:
        if digest(example.question) in held_out:
            return "its question is held out"
        return index.hit(example.question, augmented=True) if index else None

    report = AugmentReport()
    with ExitStack() as stack:
        work = None
        if ray is not None:
            from ruplar.cluster.rows import cluster_work

            work = stack.enter_context(cluster_work(ray))
        plans = make_plans(chains.examples, report, refuse, work)
        problems = generate(plans, seed, report, count=count, per_chain=per_chain, large=large, work=work)
        if plans:
            write_jsonl(output, (example for _, _, example in problems))
    if as_json:
        unread = {reason: len(rows) for reason, rows in chains.left_out.items()}
        options.print_json({"source": chains.location.name, "output": str(output), "unread": unread, **vars(report)})
    else:
        options.print_text(out, _summary(report, output, count, per_chain))
    if not plans:
        raise typer.Exit(1)


def _summary(report: AugmentReport, output: Path, count: int, per_chain: int) -> str:
    if not report.used:
        lines = [f"none of {report.rows:,} chains can be augmented; {output} is not written"]
    else:
        lines = [f"{report.written:,} problems from {report.used:,} of {report.rows:,} chains: {output}"]
    if report.used and report.written < count:
        lines.append(
            f"  fewer than the {count:,} requested: {report.short:,} chains are exhausted, the others reached {per_chain} (--per-chain)"
        )
    for reason, number in report.left_out.most_common():
        lines.append(f"  {number:,} dropped: {reason} (first: {report.first[reason]})")
    return "\n".join(lines)
