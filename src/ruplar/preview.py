"""Chain → its steps, their spans, and the prior of each latent under a tokenizer.

    <<20*1.20=24>>  –domain→  20*1.20=24  –spans→  one span  –prior→  24 0.8000 · * 0.0400 · . 0.0400 · …

Only a tokenizer is loaded, no model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ruplar.data.read import step_hint
from ruplar.domains.base import Domain
from ruplar.errors import UserError
from ruplar.priors.base import PriorTable, ids_of
from ruplar.spans.base import Spans, attached, cut_chain
from ruplar.types import Span

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

FOCUS = 0.01
"""Tokens whose probability is not above it are marked, as the focus of the method leaves them out."""


def preview(
    chain: str | Sequence[str], *, tokenizer: Any, domain: Domain, spans: Spans, prior_table: PriorTable
) -> dict[str, Any]:
    """Return the steps of a chain, the spans of each, and the tokens of each span's prior, as plain JSON values."""
    steps = domain.split(chain) if isinstance(chain, str) else list(chain)
    if not steps:
        shown = f"the chain {chain[:60]!r}" if isinstance(chain, str) else "the chain"
        raise UserError(f"{shown} has no step. {step_hint(domain)}")
    attached(spans, prior_table.encode, tokenizer)
    rows: list[dict[str, Any]] = []
    latent = 0
    for step, cut in zip(steps, cut_chain(spans, steps, domain), strict=True):
        rows.append({"step": step, "spans": []})
        for span in cut:
            latent += 1
            rows[-1]["spans"].append(_preview_span(span, latent, tokenizer, prior_table))
    name = str(getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__)
    prior = type(prior_table.prior).__module__.rpartition(".")[2]
    return {"tokenizer": name, "prior": prior, "dynamic": prior_table.prior.dynamic, "steps": rows}


def _preview_span(span: Span, latent: int, tokenizer: Any, table: PriorTable) -> dict[str, Any]:
    try:
        # (epoch, row, latent), as in training
        prior = table.of(span, (0, 0, latent - 1))
    except ValueError as error:
        raise UserError(f"latent {latent}: {error}") from error
    results = set(ids_of(span.result, table.encode_symbol))
    probs = prior.probs.tolist()
    tokens = [
        {
            "token": token_text(tokenizer, i),
            "id": i,
            "prob": round(prob, 6),  # 0.8 reads 0.8
            "role": "result" if i in results else "operand",
            "kept": prob > FOCUS,
        }
        for i, prob in zip(prior.ids.tolist(), probs, strict=True)
    ]
    # 0.0 - x, because -x of a prior of one token is -0.0
    entropy = round(0.0 - math.fsum(prob * math.log(prob) for prob in probs), 6)
    return {"text": span.text, "latent": latent, "tokens": tokens, "entropy": entropy}


def token_text(tokenizer: Any, token_id: int) -> str:
    """Id → its text, or its name in the vocabulary if it is part of a character or has no text."""
    text = tokenizer.decode([token_id])
    return text if text and "\ufffd" not in text else str(tokenizer.convert_ids_to_tokens(token_id))


def render(shown: dict[str, Any], console: Console) -> None:
    """Print a preview: one bar per token, with the role of each token as a word and a colour."""
    from rich.text import Text

    draw = " (one draw; training draws a new one for every sample)" if shown["dynamic"] else ""
    console.print(Text.assemble(("prior ", "dim"), shown["prior"], draw, ("  tokenizer ", "dim"), shown["tokenizer"]))
    for number, step in enumerate(shown["steps"], start=1):
        console.print()
        console.print(Text.assemble((f"step {number}  ", "dim"), (step["step"], "bold")))
        for span in step["spans"]:
            head = Text.assemble((f"  latent {span['latent']}  ", "dim"), span["text"])
            console.print(head.append(f"  entropy {span['entropy']:.3f} nats", "dim"))
            console.print(_bars(span["tokens"]))
        if not step["spans"]:
            console.print(Text("  no latent: the step has no symbols", style="yellow"))


def _bars(tokens: Sequence[dict[str, Any]]) -> Table:
    from rich.bar import Bar
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1))
    table.add_column("", width=3)
    # minimum widths, so that the columns of consecutive latents line up
    table.add_column("token", justify="right", no_wrap=True, min_width=5)
    table.add_column("bar", width=24)
    table.add_column("prob", justify="right", no_wrap=True)
    table.add_column("id", justify="right", no_wrap=True, min_width=6)
    table.add_column("role", no_wrap=True)
    for token in tokens:
        colour = "green" if token["role"] == "result" else "cyan"
        table.add_row(
            "",
            Text(repr(token["token"])[1:-1].replace(" ", "␣")),
            Bar(1, 0, token["prob"], color=colour),
            f"{token['prob']:.4f}",
            str(token["id"]),
            token["role"] if token["kept"] else f"{token['role']}, below focus",
            style=colour if token["kept"] else "dim",
        )
    return table
