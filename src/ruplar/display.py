"""Answers, latents and results → text and tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from ruplar.types import Answer, Latent

if TYPE_CHECKING:
    from rich.console import Console

    from ruplar.evaluate.ablate import AblationRow
    from ruplar.evaluate.record import BenchmarkResult
    from ruplar.evaluate.score import Vote

_BAR = 20
_MIN_PROB = 0.02
_TOP_WIDTH = 40
"""Width of the most likely tokens of a latent: with bar and entropy, a line of at most 80 columns."""


def print_text(console: Console, text: str, style: str | None = None) -> None:
    """Print text as is: no markup, no highlighting, no wrapping."""
    console.print(text, style=style, markup=False, highlight=False, emoji=False, soft_wrap=True)


def percent(value: float | None, low: float | None = None, high: float | None = None) -> str:
    """Format a percentage with its interval, `93.4 (90.9–95.3)`, or a dash."""
    if value is None:
        return "–"
    return f"{value:.1f}" + (f" ({low:.1f}–{high:.1f})" if low is not None and high is not None else "")


def latent_line(number: int, latent: Latent, count: int = 1) -> Text:
    """Format one of `count` latents: a bar for its most likely token, its tokens with probabilities, its entropy."""
    top = Text()
    for token, prob in zip(latent.tokens, latent.probs, strict=True):
        name = token.strip() or repr(token)
        if prob < _MIN_PROB or (top and len(top) + len(f"{name} {prob:.2f}  ") > _TOP_WIDTH):
            break
        top.append(name, style="bold green" if not top else "cyan")
        top.append(f" {prob:.2f}  ", style="dim")
    filled = round(latent.probs[0] * _BAR)
    bar = Text("█" * filled + "░" * (_BAR - filled), style="green")
    name = f"z{number}".ljust(len(f"z{count}"))
    return Text.assemble((f"  {name} ", "dim"), bar, "  ", top, (f"entropy {latent.entropy:.2f}", "dim"))


def _tokens(count: int, kind: str) -> str:
    return f"{count} {kind} token{'' if count == 1 else 's'}"


def show_answer(console: Console, answer: Answer, chain: str = "") -> None:
    """Print the latents in readable form, then the answer and its cost."""
    if chain:
        console.print(Text.assemble(("  chain   ", "dim"), chain))
    for number, latent in enumerate(answer.latents, start=1):
        console.print(latent_line(number, latent, len(answer.latents)))
    if answer.thought:
        console.print(Text.assemble(("  thought  ", "dim"), answer.thought))
    unit = _tokens(answer.latent_count, "reasoning" if answer.thought else "soft")
    console.print(
        Text.assemble(
            ("  answer  ", "dim"),
            (answer.text.strip() or "(empty)", "bold"),
            (f"   {unit}, {answer.forwards} forward passes", "dim"),
        )
    )
    if not answer.halted:
        console.print(Text("  the model did not halt; the thought was cut at the limit of latents", style="yellow"))


def answer_as_dict(question: str, answer: Answer) -> dict[str, Any]:
    plain = asdict(answer)
    return {"question": question, "answer": plain.pop("text"), **plain}


def show_votes(console: Console, vote: Vote, answers: Sequence[Answer]) -> None:
    """Print the votes, most frequent first, each with the most likely tokens of one thought; then the majority and its cost."""
    most = max((count for _, count in vote.counts), default=1)
    width = max((len(text) for text, _ in vote.counts), default=0)
    shown = {a.text.strip(): a for a in reversed(answers)}
    for text, count in vote.counts:
        bar = "█" * round(_BAR * count / most)
        first = shown.get(text.strip())
        thought = " ".join(z.tokens[0].strip() for z in first.latents) if first else ""
        console.print(
            Text.assemble(
                (f"  {count:3} × ", "dim"), (text.rjust(width), "bold"), "  ", (bar.ljust(_BAR), "green"),
                (f"  {thought}", "cyan"),
            )
        )  # fmt: skip
    if vote.unreadable:
        console.print(Text(f"  {vote.unreadable:3} × no readable answer", style="yellow"))
    thought = _tokens(vote.answer.latent_count, "soft")
    costs = f"   {len(answers)} samples, {thought}, {vote.answer.forwards} forward passes"
    answer = vote.answer.text.strip() or "(empty)"
    console.print(Text.assemble(("  answer  ", "dim"), (answer, "bold"), (costs, "dim")))


def vote_as_dict(question: str, vote: Vote) -> dict[str, Any]:
    """Return a vote as JSON values; its costs are summed over all samples."""
    return {
        **{key: value for key, value in answer_as_dict(question, vote.answer).items() if key != "latents"},
        "votes": [{"answer": text, "votes": count} for text, count in vote.counts],
        "unreadable": vote.unreadable,
    }


def pass_table(title: str, results: Iterable[BenchmarkResult]) -> Table:
    """Return a table of pass@k with intervals, one row per sampled benchmark."""
    sampled = [r for r in results if r.pass_at]
    ks = sorted({k for r in sampled for k in r.pass_at})
    rows = []
    for r in sampled:
        shares = [r.pass_at.get(k) for k in ks]
        name = f"{r.name} {r.decoding} seed {r.seed}"
        rows.append((name, *("–" if s is None else percent(s.mean, s.low, s.high) for s in shares)))
    return table(title, ("benchmark", *(f"k={k}" for k in ks)), rows)


def benchmark_table(title: str, results: Iterable[BenchmarkResult]) -> Table:
    """Return a table of accuracies with intervals and costs, one row per benchmark."""
    results = list(results)
    columns = ["benchmark", "n", "accuracy (95 % CI)", "#L", "Acc/#L", "forwards", "ms"]
    batch1 = any(r.ms_batch1 is not None for r in results)
    return table(
        title,
        columns + ["ms (batch 1)"] * batch1,
        (
            (
                r.name
                + (" (lenient)" if r.lenient else "")
                + (f" ({r.trained_on:,} in training data)" if r.trained_on else "")
                + ("" if r.decoding == "greedy" else f" {r.decoding} seed {r.seed}"),
                f"{r.n:,}",
                percent(r.accuracy, r.low, r.high),
                f"{r.latents:.2f}",
                percent(r.acc_per_latent),
                f"{r.forwards:.1f}",
                f"{r.ms_per_question:.1f}",
                *(["–" if r.ms_batch1 is None else f"{r.ms_batch1:.1f}"] * batch1),
            )
            for r in results
        ),
    )


def ablation_table(title: str, rows: Iterable[AblationRow]) -> Table:
    """Return a table of the latent ablation: accuracy per mode, and the difference to the real latents."""
    columns = ("latents", "replaced by", "accuracy (95 % CI)", "difference (95 % CI)")
    shown = []
    for row in rows:
        gap = row.difference
        difference = f"{gap.mean:+.1f} ({gap.low:+.1f}, {gap.high:+.1f})" if gap else ""
        accuracy = percent(row.result.accuracy, row.result.low, row.result.high)
        shown.append((row.mode, str(row.as_dict()["about"]), accuracy, difference))
    return table(title, columns, shown, texts=2)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> Table:
    """Return a table with the first `texts` columns aligned left and the others right; nothing in it is read as markup."""
    shown = Table(title=Text(title, "bold"), title_justify="left", header_style="dim")
    for index, column in enumerate(columns):
        shown.add_column(column, justify="left" if index < texts else "right")
    for row in rows:
        shown.add_row(*map(Text, row))
    return shown
