"""The interface of a span rule: step → spans, and the span that is a whole step."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from ruplar.domains.base import Domain
from ruplar.types import Encode, Span


class Spans(Protocol):
    """A rule that splits a step into spans, each of which becomes one latent.

    Optional methods: `attach(pieces: Pieces)` is called before the first cut, for rules that depend on the tokenizer.
    `cut_chain(steps, domain)` returns the spans of each step, for rules where these depend on the other steps of a chain.
    """

    config: Any

    def cut(self, step: str, domain: Domain) -> list[Span]:
        """Return the spans of one step in order. A step without symbols has none, so it gets no latent."""


MAX_CACHED_SYMBOLS = 200_000
"""Symbols whose tokens are cached: about ten megabytes."""


@dataclass(frozen=True)
class Pieces:
    """Symbol → the texts of its tokens, in order; the symbol itself if a token is not text on its own. Cached."""

    encode: Encode
    tokenizer: Any
    _known: dict[str, tuple[str, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __call__(self, symbol: str) -> tuple[str, ...]:
        """Return the texts of a symbol's tokens."""
        found = self._known.get(symbol)
        if found is None:
            ids = self.encode(symbol)
            texts = [self.tokenizer.decode([i], clean_up_tokenization_spaces=False) for i in ids]
            apart = all(self.encode(text) == [i] for text, i in zip(texts, ids, strict=True))
            found = tuple(texts) if apart and texts else (symbol,)
            if len(self._known) < MAX_CACHED_SYMBOLS:
                self._known[symbol] = found
        return found


@dataclass
class Attached:
    """Base class of rules that depend on the tokenizer."""

    pieces: Pieces | None = field(default=None, repr=False, kw_only=True)

    def attach(self, pieces: Pieces) -> None:
        """Set the tokenizer."""
        self.pieces = pieces


_Rule = TypeVar("_Rule")


def attached(rule: _Rule, encode: Encode, tokenizer: Any) -> _Rule:
    """Return the rule, attached to the tokenizer if it depends on it."""
    if hasattr(rule, "attach"):
        rule.attach(Pieces(encode, tokenizer))
    return rule


def cut_chain(rule: Spans, steps: Sequence[str], domain: Domain) -> list[list[Span]]:
    own = getattr(rule, "cut_chain", None)
    return own(steps, domain) if own is not None else [rule.cut(step, domain) for step in steps]


def whole(step: str, domain: Domain) -> list[Span]:
    """Return the step as one span with its result; [] if it has no symbols."""
    symbols = tuple(domain.symbols(step))
    return [Span(step, symbols, tuple(domain.result(step)))] if symbols else []
