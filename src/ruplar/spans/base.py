"""Step → spans: what every way of cutting promises, and the span that is a whole step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from ruplar.domains.base import Domain
from ruplar.types import Encode, Span


class Spans(Protocol):
    """A way of cutting a step into the pieces that become one latent each.

    One that must know how the tokenizer writes a symbol also has `attach(pieces: Pieces)`, called before the first cut.
    One whose spans depend on the other steps of a chain also has `cut_chain(steps, domain)`: the spans of each step of a chain.
    One that fills places with a symbol that says nothing there names it as `filler`.
    """

    config: Any

    def cut(self, step: str, domain: Domain) -> list[Span]:
        """The spans of one step in order. A step without any symbol has none, so it gets no latent."""


KEPT_SYMBOLS = 200_000
"""Symbols whose pieces are remembered: some ten megabytes."""


@dataclass(frozen=True)
class Pieces:
    """Symbol → the texts of its tokens, in order; the symbol itself where one of them cannot be written by itself.

    Numbers recur and the tokenizer is the slow part, so what was asked is remembered.

    Attributes:
        encode: Text → ids.
        tokenizer: Whose ids they are.
    """

    encode: Encode
    tokenizer: Any
    _known: dict[str, tuple[str, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __call__(self, symbol: str) -> tuple[str, ...]:
        """See the class."""
        found = self._known.get(symbol)
        if found is None:
            found = self._written(symbol)
            if len(self._known) < KEPT_SYMBOLS:
                self._known[symbol] = found
        return found

    def _written(self, symbol: str) -> tuple[str, ...]:
        ids = self.encode(symbol)
        texts = [self.tokenizer.decode([i], clean_up_tokenization_spaces=False) for i in ids]
        apart = all(self.encode(text) == [i] for text, i in zip(texts, ids, strict=True))
        return tuple(texts) if apart and texts else (symbol,)


@dataclass
class Attached:
    """What a rule that must know how the tokenizer writes a symbol begins with.

    Attributes:
        pieces: Symbol → the texts of its tokens; None until `attach`.
    """

    pieces: Pieces | None = field(default=None, repr=False, kw_only=True)

    def attach(self, pieces: Pieces) -> None:
        """Learn how the tokenizer writes a symbol."""
        self.pieces = pieces


_Rule = TypeVar("_Rule")


def attached(rule: _Rule, encode: Encode, tokenizer: Any) -> _Rule:
    """The rule, told how the tokenizer writes a symbol if it wants to know."""
    if hasattr(rule, "attach"):
        rule.attach(Pieces(encode, tokenizer))
    return rule


def cut_chain(rule: Spans, steps: Sequence[str], domain: Domain) -> list[list[Span]]:
    """The spans of each step of a chain, in view of the others where the rule has a view of them."""
    together = getattr(rule, "cut_chain", None)
    return together(steps, domain) if together is not None else [rule.cut(step, domain) for step in steps]


def whole(step: str, domain: Domain) -> list[Span]:
    """The step as one span with its result; [] when the domain finds no symbol in it."""
    symbols = tuple(domain.symbols(step))
    return [Span(step, symbols, tuple(domain.result(step)))] if symbols else []
