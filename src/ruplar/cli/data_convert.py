"""`ruplar data convert`: a dataset in prose → questions, chains and answers, by rules or by an LLM endpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape

from ruplar import plugins
from ruplar.cli.options import AsJson, DataDir, Domain, Ray, print_json, print_text, writable_file
from ruplar.errors import UserError

if TYPE_CHECKING:
    from ruplar.data.convert.run import ConversionProgress

out = Console()
err = Console(stderr=True)


def convert(
    source: Annotated[str, typer.Argument(metavar="INPUT", help="Input: a file, a known dataset or a Hub name.")],
    output: Annotated[Path, typer.Argument(help="Output file (jsonl).")],
    domain: Domain = "arithmetic",
    by: Annotated[Literal["rules", "llm"], typer.Option(help="Extract chains by rules or with an LLM.")] = "rules",
    endpoint: Annotated[
        str | None, typer.Option(help="URL of an OpenAI-compatible endpoint, e.g. http://localhost:8000/v1.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Name of the model at the endpoint.")] = None,
    api_key: Annotated[
        str | None,
        typer.Option(envvar="RUPLAR_API_KEY", help="API key. On the command line, other users can see it in `ps`."),
    ] = None,
    prompt: Annotated[Path | None, typer.Option(help="Prompt file that replaces the domain's default prompt.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Maximum number of concurrent requests.")] = 8,
    attempts: Annotated[int, typer.Option(min=1, help="Attempts per row if its chain fails verification.")] = 2,
    retries: Annotated[int, typer.Option(min=0, help="Retries of a failed request.")] = 6,
    timeout: Annotated[float, typer.Option(min=0.1, help="Timeout of a request in seconds.")] = 60.0,
    max_tokens: Annotated[
        int, typer.Option(min=0, help="Maximum tokens per reply; 0 uses the endpoint's limit.")
    ] = 1024,
    question: Annotated[str, typer.Option(help="Name of the question column; detected if not given.")] = "",
    answer: Annotated[str, typer.Option(help="Name of the answer column; detected if not given.")] = "",
    reasoning: Annotated[str, typer.Option(help="Name of the reasoning column; detected if not given.")] = "",
    limit: Annotated[int | None, typer.Option(min=1, help="Convert only the first N rows.")] = None,
    retry_rejected: Annotated[
        bool, typer.Option("--retry-rejected", help="Convert previously rejected rows again.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Start over and discard earlier results.")] = False,
    data_dir: DataDir = None,
    ray: Ray = None,
    as_json: AsJson = False,
) -> None:
    """Convert prose into chains, by rules or with an LLM.

    Each chain is re-executed and must reach the given answer, or the row is rejected.
    Repeating the command resumes an interrupted conversion; rows may have been added to INPUT in the meantime.
    OUTPUT.rejected.jsonl lists the rejected rows with reasons; OUTPUT.journal records finished rows and all replies.
    """
    from ruplar.data.convert.endpoint import Endpoint
    from ruplar.data.convert.messages import load_prompt
    from ruplar.data.convert.prose import read_prose
    from ruplar.data.convert.run import ByModel
    from ruplar.data.convert.run import convert as run

    plugins.make("domains", domain)
    converter = None
    if by == "llm":
        if ray is not None:
            raise UserError("--ray: is for --by rules. Requests to an endpoint run concurrently: see --concurrency.")
        if not endpoint or not model:
            raise UserError(
                "--by llm: needs --endpoint and --model, e.g. --endpoint http://localhost:8000/v1 --model NAME."
            )
        key = (api_key or "").strip()
        place = Endpoint(endpoint, model, key, timeout, retries, max_tokens=max_tokens, trust_env=True)
        instructions = load_prompt(domain, plugins.make("domains", domain), prompt)
        converter = ByModel(place, instructions, concurrency, attempts)
    elif endpoint or model:
        raise UserError(
            "--endpoint and --model are for --by llm; rules send no requests. Add --by llm, or leave them out."
        )
    columns = {"question": question, "answer": answer, "reasoning": reasoning}
    rows = read_prose(source, columns, limit=limit, data_dir=data_dir)
    journal = output.with_name(f"{output.name}.journal")
    writable_file(output, force or journal.exists())  # with a journal, the conversion is resumed
    if force:
        journal.unlink(missing_ok=True)
    with ExitStack() as stack:
        rules = None
        if ray is not None:
            from ruplar.cluster.rows import cluster_rules

            rules = stack.enter_context(cluster_rules(ray))
        update = stack.enter_context(_progress_bar())
        found = run(rows, output, domain, converter, retry_rejected=retry_rejected, on_progress=update, rules=rules)
    if as_json:
        print_json(_as_dict(found, output))
    else:
        print_text(out, _summary(found, output))


def _as_dict(progress: ConversionProgress, output: Path) -> dict[str, Any]:
    from ruplar.data.convert.run import rejected_file

    return {
        "rows": progress.total,
        "converted": progress.converted,
        "rejected": dict(progress.rejected),
        "output": str(output),
        "rejected_file": str(rejected_file(output)),
    }


def _summary(progress: ConversionProgress, output: Path) -> str:
    from ruplar.data.convert.run import rejected_file

    lines = [f"{progress.converted:,} of {progress.total:,} rows converted: {output}"]
    lines += [f"  {count:,} rejected: {reason}" for reason, count in progress.rejected.most_common()]
    if progress.rejected:
        lines.append(f"  rejected rows and reasons: {rejected_file(output)}")
    return "\n".join(lines)


@contextmanager
def _progress_bar() -> Iterator[Callable[[ConversionProgress], None]]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(bar_width=20), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=err) as bar:
        task = bar.add_task("", total=None)

        def update(progress: ConversionProgress) -> None:
            text = f"{sum(progress.rejected.values()):,} rejected"
            if progress.waiting:
                text += f"  {escape(progress.waiting)}"
            bar.update(task, completed=progress.done, total=progress.total, description=text)

        yield update
