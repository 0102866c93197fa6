"""Chain → its steps, their spans, and the prior of each latent under a tokenizer.

    <<20*1.20=24>>  –domain→  20*1.20=24  –spans→  one span  –prior→  24 0.8000 · * 0.0400 · . 0.0400 · …

Only a tokenizer is loaded, no model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from ruplar.data.read import step_hint
from ruplar.domains.base import Domain
from ruplar.errors import UserError
from ruplar.priors.base import PriorTable, ids_of
from ruplar.spans.base import Spans, attached, cut_chain
from ruplar.types import Span

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_BAR = 24
_EIGHTHS = " ▏▎▍▌▋▊▉"


@dataclass(frozen=True, slots=True)
class PreviewToken:
    """One token of a prior."""

    token: str
    id: int
    prob: float
    role: Literal["result", "operand"]
    kept: bool


@dataclass(frozen=True, slots=True)
class PreviewSpan:
    """One latent: the text of its span, its number in the chain from 1, its tokens, its entropy in nats."""

    text: str
    latent: int
    tokens: tuple[PreviewToken, ...]
    entropy: float


@dataclass(frozen=True, slots=True)
class PreviewStep:
    """One step and its spans."""

    step: str
    spans: tuple[PreviewSpan, ...]


@dataclass(frozen=True, slots=True)
class Preview:
    """The priors of one chain."""

    tokenizer: str
    prior: str
    dynamic: bool
    steps: tuple[PreviewStep, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values; probabilities and entropies are rounded to six places, so that 0.8 reads 0.8."""
        return _rounded(asdict(self))


def preview(
    chain: str | Sequence[str],
    *,
    tokenizer: Any,
    domain: Domain,
    spans: Spans,
    prior_table: PriorTable,
    threshold: float = 0.01,
) -> Preview:
    steps = domain.split(chain) if isinstance(chain, str) else list(chain)
    if not steps:
        shown = f"the chain {chain[:60]!r}" if isinstance(chain, str) else "the chain"
        raise UserError(f"{shown} has no step. {step_hint(domain)}")
    attached(spans, prior_table.encode, tokenizer)
    rows: list[PreviewStep] = []
    latent = 0
    for step, cut in zip(steps, cut_chain(spans, steps, domain), strict=True):
        seen = []
        for span in cut:
            seen.append(_preview_span(span, latent, tokenizer, prior_table, threshold))
            latent += 1
        rows.append(PreviewStep(step, tuple(seen)))
    name = str(getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__)
    return Preview(name, type(prior_table.prior).__module__.rpartition(".")[2], prior_table.prior.dynamic, tuple(rows))


def _preview_span(span: Span, index: int, tokenizer: Any, table: PriorTable, threshold: float) -> PreviewSpan:
    try:
        # (epoch, row, latent), as in training
        prior = table.of(span, (0, 0, index))
    except ValueError as error:
        raise UserError(f"latent {index + 1}: {error}") from error
    results = set(ids_of(span.result, table.encode_symbol))
    kept = prior.probs > threshold
    rows = zip(prior.ids.tolist(), prior.probs.tolist(), kept.tolist(), strict=True)
    tokens = tuple(
        PreviewToken(token_text(tokenizer, i), i, prob, "result" if i in results else "operand", keep)
        for i, prob, keep in rows
    )
    # 0.0 - x, because -x of a prior of one token is -0.0
    return PreviewSpan(span.text, index + 1, tokens, 0.0 - math.fsum(t.prob * math.log(t.prob) for t in tokens))


def token_text(tokenizer: Any, token_id: int) -> str:
    """Id → its text, or its name in the vocabulary if it is part of a character or has no text."""
    text = tokenizer.decode([token_id])
    return text if text and "\ufffd" not in text else str(tokenizer.convert_ids_to_tokens(token_id))


def render(shown: Preview, console: Console) -> None:
    """Print a preview: one bar per token, with the role of each token as a word and a colour."""
    from rich.text import Text

    draw = " (one draw; training draws a new one for every sample)" if shown.dynamic else ""
    console.print(Text.assemble(("prior ", "dim"), shown.prior, draw, ("  tokenizer ", "dim"), shown.tokenizer))
    for number, step in enumerate(shown.steps, start=1):
        console.print()
        console.print(Text.assemble((f"step {number}  ", "dim"), (step.step, "bold")))
        for span in step.spans:
            head = Text.assemble((f"  latent {span.latent}  ", "dim"), span.text)
            console.print(head.append(f"  entropy {span.entropy:.3f} nats", "dim"))
            console.print(_bars(span, plain=console.options.ascii_only))
        if not step.spans:
            console.print(Text("  no latent: the step has no symbols", style="yellow"))


def _bars(span: PreviewSpan, plain: bool) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1))
    table.add_column("", width=3)
    # minimum widths, so that the columns of consecutive latents line up
    table.add_column("token", justify="right", no_wrap=True, min_width=5)
    table.add_column("bar", width=_BAR, no_wrap=True)
    table.add_column("prob", justify="right", no_wrap=True)
    table.add_column("id", justify="right", no_wrap=True, min_width=6)
    table.add_column("role", no_wrap=True)
    for token in span.tokens:
        colour = "green" if token.role == "result" else "cyan"
        style = colour if token.kept else "dim"
        role = token.role if token.kept else f"{token.role}, below focus"
        table.add_row(
            "",
            Text(_visible(token.token, plain), style=f"bold {style}" if token.role == "result" else style),
            Text(bar(token.prob, plain), style=style),
            f"{token.prob:.4f}",
            Text(str(token.id), style="dim"),
            Text(role, style=style),
        )
    return table


def bar(prob: float, plain: bool = False) -> str:
    """Probability → a bar of up to 24 columns in steps of an eighth, or in ASCII if `plain`; never empty."""
    if plain:
        return "#" * max(1, round(prob * _BAR))
    eighths = max(1, round(prob * _BAR * 8))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _visible(text: str, plain: bool) -> str:
    return ascii(text)[1:-1] if plain else text.replace(" ", "␣").replace("\n", "\\n").replace("\t", "\\t")


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(one) for one in value]
    return round(value, 6) if isinstance(value, float) else value
