"""`ruplar data convert`: a dataset in prose → questions, chains and answers, by rules or by an LLM endpoint."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console

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
    max_tokens: Annotated[int, typer.Option(min=0, help="Maximum tokens per reply; 0: the endpoint's limit.")] = 1024,
    question: Annotated[str, typer.Option(help="Name of the question column; detected if not given.")] = "",
    answer: Annotated[str, typer.Option(help="Name of the answer column; detected if not given.")] = "",
    reasoning: Annotated[str, typer.Option(help="Name of the reasoning column; detected if not given.")] = "",
    limit: Annotated[int | None, typer.Option(min=1, help="Convert only the first N rows.")] = None,
    retry_rejected: Annotated[bool, typer.Option("--retry-rejected", help="Convert rejected rows again.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Start over and discard earlier results.")] = False,
    data_dir: DataDir = None,
    ray: Ray = None,
    as_json: AsJson = False,
) -> None:
    """Convert prose into chains, by rules or with an LLM.

    Each chain is re-executed and must reach the given answer, or the row is rejected.
    Repeat the command to resume an interrupted conversion; you may add rows to INPUT in between.
    OUTPUT.rejected.jsonl lists the rejected rows with reasons; OUTPUT.journal records finished rows and all replies.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from ruplar.data.convert.endpoint import ByModel, load_prompt
    from ruplar.data.convert.prose import read_prose
    from ruplar.data.convert.run import convert as run
    from ruplar.data.convert.run import journal_file, rejected_file

    checker = plugins.make("domains", domain)
    by_model = None
    if by == "llm":
        if ray is not None:
            raise UserError("--ray: needs --by rules. Requests to an endpoint run concurrently: see --concurrency.")
        if not endpoint or not model:
            raise UserError("--by llm needs --endpoint and --model: --endpoint http://localhost:8000/v1 --model NAME.")
        if not endpoint.startswith(("http://", "https://")):
            raise UserError(f"--endpoint: '{endpoint}' is not an address, e.g. http://localhost:8000/v1.")
        instructions = load_prompt(domain, checker, prompt)
        key = (api_key or "").strip()
        by_model = ByModel(endpoint, model, instructions, key, concurrency, attempts, max_tokens)
    elif endpoint or model:
        raise UserError("--endpoint and --model need --by llm; rules send no requests. Add --by llm, or remove them.")
    columns = {"question": question, "answer": answer, "reasoning": reasoning}
    rows = read_prose(source, columns, limit=limit, data_dir=data_dir)
    journal = journal_file(output)
    writable_file(output, force or journal.exists(), source)  # with a journal, the conversion is resumed
    if force:
        journal.unlink(missing_ok=True)
    with ExitStack() as stack:
        rules = None
        if ray is not None:
            from ruplar.cluster.rows import cluster_rules

            rules = stack.enter_context(cluster_rules(ray))
        bar_columns = (BarColumn(20), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
        bar = stack.enter_context(Progress(*bar_columns, console=err))
        task = bar.add_task("", total=len(rows))

        def update(progress: ConversionProgress) -> None:
            bar.update(task, completed=progress.done, description=f"{progress.rejected.total():,} rejected")

        found = run(rows, output, domain, by_model, retry_rejected=retry_rejected, on_progress=update, rules=rules)
    if as_json:
        about = {"rows": found.total, "converted": found.converted, "rejected": dict(found.rejected)}
        print_json({**about, "output": str(output), "rejected_file": str(rejected_file(output))})
        return
    lines = [f"{found.converted:,} of {found.total:,} rows converted: {output}"]
    lines += [f"  {count:,} rejected: {reason}" for reason, count in found.rejected.most_common()]
    if found.rejected:
        lines.append(f"  rejected rows and reasons: {rejected_file(output)}")
    print_text(out, "\n".join(lines))
