"""`ruplar data convert` → a data set in prose turned into question, chain, answer, by rules or by a model behind an endpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape

from ruplar import plugins
from ruplar.cli.options import AsJson, DataDir, print_json
from ruplar.errors import UserError

if TYPE_CHECKING:
    from ruplar.data.convert import ConversionProgress, Outcome

out = Console()
err = Console(stderr=True)


def convert(
    source: Annotated[str, typer.Argument(metavar="INPUT", help="A file, a known set or a Hub name.")],
    output: Annotated[Path, typer.Argument(help="The jsonl file to write.")],
    domain: Annotated[str, typer.Option(help="See `ruplar list domains`, or a dotted name of yours.")] = "arithmetic",
    by: Annotated[Literal["rules", "llm"], typer.Option(help="How chains are made.")] = "rules",
    endpoint: Annotated[str | None, typer.Option(help="OpenAI-compatible, e.g. http://localhost:8000/v1.")] = None,
    model: Annotated[str | None, typer.Option(help="The model's name there.")] = None,
    api_key: Annotated[
        str | None, typer.Option(envvar="RUPLAR_API_KEY", help="Its key; others see it in the list of processes.")
    ] = None,
    api_key_file: Annotated[Path | None, typer.Option(help="A file that holds the key and nothing else.")] = None,
    prompt: Annotated[Path | None, typer.Option(help="A prompt file in place of the domain's own.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Requests in flight.")] = 8,
    attempts: Annotated[int, typer.Option(min=1, help="Times a row is asked when its chain does not hold.")] = 2,
    retries: Annotated[int, typer.Option(min=0, help="Times a failed request is sent again.")] = 6,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds a reply may take.")] = 60.0,
    max_tokens: Annotated[int, typer.Option(min=0, help="Most tokens of a reply; 0: the endpoint's limit.")] = 1024,
    price_in: Annotated[float, typer.Option(min=0, help="Of a million prompt tokens.")] = 0.0,
    price_out: Annotated[float, typer.Option(min=0, help="Of a million reply tokens.")] = 0.0,
    question: Annotated[str, typer.Option(help="Column of the question.")] = "",
    answer: Annotated[str, typer.Option(help="Column of the marked answer.")] = "",
    reasoning: Annotated[str, typer.Option(help="Column of the reasoning in prose.")] = "",
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first rows.")] = None,
    retry_rejected: Annotated[bool, typer.Option("--retry-rejected", help="Try rejected rows again.")] = False,
    set_aside_unanswered: Annotated[
        bool, typer.Option("--set-aside-unanswered", help="Finish without rows that get no reply.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Start over; what was done before is lost.")] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Turn prose into chains. Each is re-executed and must come to the marked answer; the others are kept aside.

    A run that was stopped, or killed, goes on when the same command is given again; rows may have been added to INPUT.
    OUTPUT.rejected.jsonl holds what failed, with its reason; OUTPUT.journal holds what is done, and every reply.
    """
    from ruplar.data.convert import ByModel, ByRules, Columns, Endpoint, read_prose
    from ruplar.data.convert import convert as run
    from ruplar.data.convert.messages import load_prompt

    plugins.make("domains", domain)
    way: ByRules | ByModel = ByRules()
    if by == "llm":
        if not endpoint or not model:
            raise UserError(
                "--by llm: needs --endpoint and --model, e.g. --endpoint http://localhost:8000/v1 --model NAME."
            )
        place = Endpoint(
            endpoint, model, _key(api_key, api_key_file), timeout, retries, max_tokens=max_tokens, trust_env=True
        )
        told = load_prompt(domain, plugins.make("domains", domain), prompt)
        way = ByModel(place, told, concurrency, attempts, set_aside_unanswered=set_aside_unanswered)
    elif set_aside_unanswered:
        raise UserError("--set-aside-unanswered is for --by llm; rules ask nobody. Add --by llm, or leave it out.")
    elif endpoint or model:
        raise UserError("--endpoint and --model are for --by llm; rules ask nobody. Add --by llm, or leave them out.")
    rows = read_prose(source, Columns(question, answer, reasoning), limit=limit, data_dir=data_dir)
    _make_room(output, force)
    with _progress(price_in, price_out) as tell:
        found = run(rows, output, domain, way, retry_rejected=retry_rejected, on_progress=tell)
    if as_json:
        print_json(_as_dict(found, price_in, price_out))
    else:
        _tell(found, price_in, price_out)


def _as_dict(found: Outcome, price_in: float, price_out: float) -> dict[str, Any]:
    tally = found.progress
    return {
        "rows": tally.total,
        "converted": tally.kept,
        "rejected": dict(tally.rejected),
        "tokens_in": tally.tokens_in,
        "tokens_out": tally.tokens_out,
        "replies_without_usage": tally.uncounted,
        "cost": tally.cost(price_in, price_out),
        "output": str(found.output),
        "rejected_file": str(found.rejected),
    }


def _tell(found: Outcome, price_in: float, price_out: float) -> None:
    tally = found.progress
    out.print(f"{tally.kept:,} of {tally.total:,} rows converted: {found.output}", highlight=False, soft_wrap=True)
    for reason, count in tally.rejected.most_common():
        out.print(f"  {count:,} set aside: {reason}", highlight=False, soft_wrap=True)
    if tally.rejected:
        out.print(f"  each with its reason in {found.rejected}", highlight=False, soft_wrap=True)
    if tally.tokens_in or tally.tokens_out or tally.uncounted:
        out.print(f"  {_used(tally, price_in, price_out)}", highlight=False, soft_wrap=True)


def _key(given: str | None, file: Path | None) -> str:
    if file is None:
        return (given or "").strip()
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--api-key-file: cannot read '{file}' ({error}).") from error


def _make_room(output: Path, force: bool) -> None:
    """Refuse to write over what no journal of ours explains; with `force`, forget the journal too."""
    if output.is_dir() or not output.parent.is_dir():
        what = "is a folder" if output.is_dir() else "its folder does not exist"
        raise UserError(f"{output}: {what}. Name a file in one that does.")
    journal = output.with_name(f"{output.name}.journal")
    if force:
        journal.unlink(missing_ok=True)
    elif output.exists() and not journal.exists():
        raise UserError(f"{output}: exists. Name another file, or write over it with --force.")


@contextmanager
def _progress(price_in: float, price_out: float) -> Iterator[Callable[[ConversionProgress], None]]:
    """A bar with rows, rejected ones, tokens and cost so far."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(bar_width=20), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=err) as bar:
        task = bar.add_task("", total=None)

        def tell(tally: ConversionProgress) -> None:
            told = f"{sum(tally.rejected.values()):,} rejected"
            if tally.tokens_in or tally.tokens_out:
                told += f"  {_used(tally, price_in, price_out)}"
            if tally.waiting:
                told += f"  {escape(tally.waiting)}"
            bar.update(task, completed=tally.done, total=tally.total, description=told)

        yield tell


def _used(tally: ConversionProgress, price_in: float, price_out: float) -> str:
    """`12,400 + 3,100 tokens, 0.0125`: what was used, and its price where prices were given."""
    text = f"{tally.tokens_in:,} + {tally.tokens_out:,} tokens"
    if price_in or price_out:
        text += f", cost {tally.cost(price_in, price_out):.4f}"
    return text + (f" ({tally.uncounted:,} replies did not say)" if tally.uncounted else "")
