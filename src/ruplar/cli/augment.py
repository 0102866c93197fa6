"""`ruplar data augment` → the same problems with other numbers; `ruplar data overlap` → what training data shares with tests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from ruplar import plugins
from ruplar.cli.options import AsJson, DataDir, free_file, print_json
from ruplar.errors import UserError
from ruplar.types import Example

if TYPE_CHECKING:
    from ruplar.data.augment import AugmentReport

out = Console()

AGAINST = "gsm8k-aug,gsm-hard,svamp,multiarith,gsm8k-aug-valid"


def augment(
    source: Annotated[str, typer.Argument(help="Chains: a file, a known set or a Hub name.")],
    output: Annotated[Path, typer.Argument(help="The jsonl file to write.")],
    count: Annotated[int, typer.Option(min=1, help="How many problems in all.")] = 150_000,
    per_chain: Annotated[int, typer.Option(min=1, help="Most problems of one chain.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Which ones.")] = 1,
    valid: Annotated[
        list[str] | None, typer.Option(help="A set whose questions are left out; may be given several times.")
    ] = None,
    against: Annotated[
        str,
        typer.Option(help="Test sets, with commas: chains that share 13 words with one, numbers apart, are left out."),
    ] = "",
    large: Annotated[
        float, typer.Option(min=0, max=1, help="Share with a number of four to seven digits, as in GSM-Hard.")
    ] = 0.05,
    format: Annotated[str | None, typer.Option(help="Shape of the rows; found out when left out.")] = None,
    show: Annotated[int, typer.Option(min=0, help="Chains of each kind left out to show.")] = 1,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Tell chains again with other numbers: drawn in sensible ranges, carried out exactly, kept where they make sense."""
    from ruplar.data.augment import AugmentReport, generate, make_plans
    from ruplar.data.decontamination import index_of, why_not_train
    from ruplar.data.read import read
    from ruplar.fingerprints import digest
    from ruplar.problems.word_problems import write_jsonl

    domain = plugins.make("domains", "arithmetic")
    if why := why_not_train(source):
        raise UserError(f"{why}; nothing may be trained on it.")
    free_file(output, force)
    held = {
        digest(example.question)
        for name in valid or ()
        for example in read(name, domain, need_steps=False, skip_bad=True, data_dir=data_dir).examples
    }
    chains = read(source, domain, format=format, skip_bad=True, data_dir=data_dir)
    index = index_of(_names(against), domain, data_dir) if against else None

    def refuse(example: Example) -> str | None:
        if digest(example.question) in held:
            return "its question is held out"
        hit = index and (index.hit(example.question) or index.masked_hit(example.question))
        return f"{hit.kind} as in {hit.set}" if hit else None

    tally = AugmentReport()
    plans = make_plans(chains.examples, tally, refuse)
    problems = generate(plans, seed, tally, count=count, per_chain=per_chain, large=large)
    if plans:
        write_jsonl(output, (example for _, _, example in problems))
    if as_json:
        unread = {reason: len(rows) for reason, rows in chains.left_out.items()}
        print_json({"source": chains.location.name, "output": str(output), "unread": unread, **tally.as_dict()})
    else:
        out.print(_report(tally, output, count, per_chain, show), markup=False, highlight=False, soft_wrap=True)
    if not plans:
        raise typer.Exit(1)


def _report(tally: AugmentReport, output: Path, count: int, per_chain: int, show: int) -> str:
    if not tally.used:
        lines = [f"none of {tally.rows:,} chains can be told with other numbers; {output} is not written"]
    else:
        each = tally.written / tally.used
        lines = [
            f"{tally.written:,} problems from {tally.used:,} of {tally.rows:,} chains, {each:.1f} a chain: {output}"
        ]
    if tally.used and tally.written < count:
        lines.append(
            f"  {count:,} were asked for: {tally.short:,} chains have no more, the others {per_chain} at most (--per-chain)"
        )
    for reason, number in tally.left_out.most_common():
        lines.append(f"  {number:,} chains left out: {reason}")
        lines += [f"    {at}  {question}" for at, question in tally.shown[reason][:show]]
    return "\n".join(lines)


def _names(against: str) -> list[str]:
    names = [name for part in against.split(",") if (name := part.strip())]
    if not names:
        raise UserError(f"--against: names no set. Write for instance {AGAINST}, or a file.")
    return names


def overlap(
    train: Annotated[list[str], typer.Argument(help="Training data: files, known sets or Hub names.")],
    against: Annotated[str, typer.Option(help="Test sets or files, with commas.")] = AGAINST,
    show: Annotated[int, typer.Option(min=0, help="Pairs of each kind to show.")] = 3,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 where anything is shared.")] = False,
    format: Annotated[str | None, typer.Option(help="Shape of the training rows; found out when left out.")] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Which training questions equal a test question or share 13 words in a row with one; also with numbers masked."""
    from ruplar.data.decontamination import find_overlap, index_of

    domain = plugins.make("domains", "arithmetic")
    index = index_of(_names(against), domain, data_dir)
    found = [find_overlap(name, index, domain, format=format, data_dir=data_dir) for name in train]
    if as_json:
        print_json({"against": index.sets, "train": [one.as_dict() for one in found]})
    else:
        out.print("\n".join(one.text(show) for one in found), markup=False, highlight=False, soft_wrap=True)
    if strict and any(one.hits for one in found):
        raise typer.Exit(1)
