"""The interface of a prior: span → sparse distribution over the vocabulary; and the cache of priors.

The symbols of a span are encoded one by one. K are all of their ids, in order, with repeats, including the result; R are the
ids of the result; O are the distinct ids of K that are not in R. A number of several tokens is a bag: its tokens have equal
weight and their order is lost. For a span without a result (`every_k`), every prior is uniform over its ids.
"""

import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ruplar.types import Encode, Span, SparsePrior

MAX_CACHED_SPANS = 500_000
"""Spans whose priors are cached: about half a gigabyte. Further ones are rebuilt each time, which takes microseconds."""


class Prior(Protocol):
    """A rule from a span to the target distribution of its latent.

    Attributes:
        config: Settings.
        dynamic: Whether every sample draws a new prior (Gumbel noise); if not, the prior of a span is cached.
    """

    config: Any
    dynamic: bool

    def build(self, span: Span, encode: Encode, rng: np.random.Generator) -> SparsePrior:
        """Return the prior of one span. All randomness comes from `rng`; if not dynamic, that depends on the span's text alone.

        Raises:
            ValueError: The span has no symbol that the tokenizer can encode.
        """


def ids_of(symbols: Sequence[str], encode: Encode) -> list[int]:
    """Symbols → their ids, in order, with repeats; each symbol is encoded on its own, so no token crosses two symbols."""
    return [i for symbol in symbols for i in encode(symbol)]


def ids_of_span(span: Span, encode: Encode) -> tuple[list[int], list[int]]:
    """Span → (K, R): ids of all its symbols and of its result, both in order, with repeats."""
    keys, results = ids_of(span.symbols, encode), ids_of(span.result, encode)
    if not keys and not results:
        raise ValueError(f"span {span.text!r} has no symbol that the tokenizer can encode, so it has no prior.")
    return keys, results


def sparse(weights: Mapping[int, float]) -> SparsePrior:
    """Id → weight, not normalised → `SparsePrior`, sorted by descending probability, then by id.

    The sum is computed in float64. Weights of 0, or too small for float32, are left out.
    """
    # differs from the paper: D9. Its code builds a dense prior in bfloat16
    total = math.fsum(weights.values())
    if not 0 < total < math.inf or min(weights.values()) < 0:
        raise ValueError(f"weights must be finite, not negative and not all 0, got {dict(weights)}.")
    rows = sorted((-weight / total, i) for i, weight in weights.items())
    ids = np.array([i for _, i in rows], dtype=np.int64)
    probs = np.array([-p for p, _ in rows], dtype=np.float32)
    if probs[-1] == 0:
        ids, probs = ids[probs > 0], probs[probs > 0]
    return SparsePrior(ids, probs)


def even(ids: Iterable[int]) -> SparsePrior:
    """Ids → the uniform distribution over the distinct ones."""
    return sparse(dict.fromkeys(ids, 1.0))


def soften(logits: Mapping[int, float], temperature: float, rng: np.random.Generator | None = None) -> SparsePrior:
    """Id → logit → softmax(logit / temperature); with `rng`, Gumbel(0, 1) noise is added to each logit first."""
    values = list(logits.values())
    if rng is not None:
        values = [v + g for v, g in zip(values, rng.gumbel(size=len(values)).tolist(), strict=True)]
    top = max(values)
    return sparse({i: math.exp((v - top) / temperature) for i, v in zip(logits, values, strict=True)})


def two_logits(keys: Sequence[int], results: Sequence[int], operand: float, result: float) -> dict[int, float]:
    """(K, R) → id → logit: `result` for ids in R, `operand` for the other ids of K."""
    return {**dict.fromkeys(keys, operand), **dict.fromkeys(results, result)}


def rng_of(*key: int | str) -> np.random.Generator:
    """Key → random generator, the same in every process and on every machine. Integers must not be negative."""
    # Python's hash() of a string differs between processes. The length is included because numpy pads a short key with
    # zeros, so (3,) and (3, 0) would otherwise give the same generator.
    words = [zlib.crc32(part.encode()) if isinstance(part, str) else part for part in key]
    return np.random.default_rng([len(words), *words])


@dataclass
class PriorTable:
    """A prior under one tokenizer, with caches of encoded symbols and, unless the prior is dynamic, of priors."""

    prior: Prior
    encode: Encode
    seed: int = 0  # for dynamic priors; runs of every seed share the pre-tokenized priors of others
    _ids: dict[str, list[int]] = field(default_factory=dict, init=False, repr=False)
    _priors: dict[Span, SparsePrior] = field(default_factory=dict, init=False, repr=False)

    def of(self, span: Span, context: tuple[int, ...] = ()) -> SparsePrior:
        """Return the prior of a span.

        Args:
            span: The span.
            context: Key of the draw of a dynamic prior, e.g. (epoch, row, latent); other priors ignore it.
        """
        if self.prior.dynamic:
            return self.prior.build(span, self.encode_symbol, rng_of(self.seed, *context))
        found = self._priors.get(span)
        if found is None:
            found = self.prior.build(span, self.encode_symbol, rng_of(span.text))
            if len(self._priors) < MAX_CACHED_SPANS:
                self._priors[span] = found
        return found

    def encode_symbol(self, symbol: str) -> list[int]:
        """Return the ids of one symbol, cached."""
        ids = self._ids.get(symbol)
        if ids is None:
            ids = self._ids[symbol] = self.encode(symbol)
        return ids
