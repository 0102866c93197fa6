"""Span → sparse distribution over the vocabulary: what every prior promises, and the cache that builds each span once.

A span's symbols are encoded one by one; every id counts. K are all of them, in order and with repeats, the result's own
included; R are the result's; O are the distinct ids of K that are not in R. A number of several pieces is therefore a
bag: its pieces are weighted alike and their order is lost. Where a span emphasises no result (the every-k split) every
prior is even over its ids.
"""

from __future__ import annotations

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
    """A rule from a span to the distribution its latent should have.

    Attributes:
        config: The rule's settings.
        fresh: Whether every visit draws anew (Gumbel noise); if not, a span's prior never changes and is cached.
    """

    config: Any
    dynamic: bool

    def build(self, span: Span, encode: Encode, rng: np.random.Generator) -> SparsePrior:
        """The prior of one span. Randomness comes from `rng` alone.

        Raises:
            ValueError: The span has no symbol the tokenizer can write.
        """


def ids_of(symbols: Sequence[str], encode: Encode) -> list[int]:
    """Symbols → the ids of each encoded on its own, in order and with repeats; no merge crosses two symbols."""
    return [i for symbol in symbols for i in encode(symbol)]


def ids_of_span(span: Span, encode: Encode) -> tuple[list[int], list[int]]:
    """Span → (K, R): ids of all its symbols and of its result's, both in order and with repeats.

    Raises:
        ValueError: Neither has any id.
    """
    keys, results = ids_of(span.symbols, encode), ids_of(span.result, encode)
    if not keys and not results:
        raise ValueError(f"span {span.text!r} has no symbol the tokenizer can write, so it has no prior.")
    return keys, results


def sparse(weights: Mapping[int, float]) -> SparsePrior:
    """Id → weight, not yet normalised, to a `SparsePrior`: most probable first, then by id.

    The sum is taken in float64. A weight of 0, or one too small for float32, is left out: it is no token of the prior.

    Raises:
        ValueError: The weights are negative, not finite or all 0.
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
    """Ids → the same probability on each distinct one."""
    return sparse(dict.fromkeys(ids, 1.0))


def soften(logits: Mapping[int, float], temperature: float, rng: np.random.Generator | None = None) -> SparsePrior:
    """Id → logit, to softmax(logit / temperature); with `rng`, fresh Gumbel(0, 1) noise is added to each logit first."""
    values = list(logits.values())
    if rng is not None:
        values = [v + g for v, g in zip(values, rng.gumbel(size=len(values)).tolist(), strict=True)]
    top = max(values)
    return sparse({i: math.exp((v - top) / temperature) for i, v in zip(logits, values, strict=True)})


def two_logits(keys: Sequence[int], results: Sequence[int], operand: float, result: float) -> dict[int, float]:
    """(K, R) → id → logit: `operand` on K, then `result` on R, which overrides where an operand is also a result."""
    return {**dict.fromkeys(keys, operand), **dict.fromkeys(results, result)}


def focus(probs: np.ndarray, threshold: float, top_k: int | None = None) -> np.ndarray:
    """Probabilities [..., K] → mask [..., K] of those the focused KL sums over; what is kept is *not* renormalised.

    Args:
        probs: Any shape; the last axis is one distribution. Unused places hold 0 and are never kept.
        threshold: Kept are probabilities strictly above it.
        top_k: Of those, only the k largest, the earlier first where two are equal; None keeps all.
    """
    mask = (probs > threshold) & (probs > 0)
    if top_k is not None:
        order = np.argsort(-probs, axis=-1, kind="stable")
        rank = np.argsort(order, axis=-1, kind="stable")
        mask &= rank < top_k
    return mask


def rng_of(*key: int | str) -> np.random.Generator:
    """Key → random generator, the same in every process and on every machine; integers must not be negative."""
    # Python's own hash() of a string differs between processes. The length goes in because numpy pads a short key with
    # zeros, so (3,) and (3, 0) would otherwise draw alike.
    words = [zlib.crc32(part.encode()) if isinstance(part, str) else part for part in key]
    return np.random.default_rng([len(words), *words])


@dataclass
class PriorTable:
    """One prior under one tokenizer: symbols are encoded once, and a span is built once unless it is drawn anew.

    Attributes:
        prior: The rule.
        encode: Text → ids of the tokenizer.
        seed: The run's seed.
    """

    prior: Prior
    encode: Encode
    seed: int = 0
    _ids: dict[str, list[int]] = field(default_factory=dict, init=False, repr=False)
    _priors: dict[Span, SparsePrior] = field(default_factory=dict, init=False, repr=False)

    def of(self, span: Span, context: tuple[int, ...] = ()) -> SparsePrior:
        """The prior of a span.

        Args:
            span: The piece of a step.
            context: What tells one draw from another, e.g. (epoch, row, latent). It seeds a fresh prior together with the
                run's seed; any other prior depends on the span alone and ignores it.

        Raises:
            ValueError: The span has no symbol the tokenizer can write.
        """
        if self.prior.dynamic:
            return self.prior.build(span, self.encode_symbol, rng_of(self.seed, *context))
        found = self._priors.get(span)
        if found is None:
            found = self.prior.build(span, self.encode_symbol, rng_of(self.seed, span.text))
            if len(self._priors) < MAX_CACHED_SPANS:
                self._priors[span] = found
        return found

    def encode_symbol(self, symbol: str) -> list[int]:
        """Ids of one symbol, remembered: numbers recur, and the tokenizer is the slow part."""
        ids = self._ids.get(symbol)
        if ids is None:
            ids = self._ids[symbol] = self.encode(symbol)
        return ids
