"""Rows of data → converted or augmented rows, in the order and with the content of a single process."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from ruplar.cluster.pool import Pool, connected
from ruplar.data.augment.run import Drawn, Work
from ruplar.data.augment.variants import VariantPlan
from ruplar.data.convert.prose import Prose
from ruplar.data.convert.rules import Entry
from ruplar.data.convert.run import by_rules
from ruplar.types import Example

_AT_ONCE = 32
"""Rows of a batch: some seconds of work at most."""


@contextmanager
def cluster_rules(address: str) -> Iterator[Callable[[Sequence[Prose], str], Iterable[Entry]]]:
    """Yield what converts rows by the rule of a domain, in place of `by_rules`."""
    with connected(address) as ray, Pool(ray, _call) as pool:
        yield lambda rows, domain: _mapped(pool, rows, partial(_by_rules, domain))


@contextmanager
def cluster_work(address: str) -> Iterator[Work]:
    """Yield what plans and draws augmented problems."""
    with connected(address) as ray, Pool(ray, _call) as pool:
        yield ClusterWork(pool)


class ClusterWork(Work):
    """The expensive part of an augmentation, on a pool."""

    window = 100 * _AT_ONCE

    def __init__(self, pool: Pool):
        self.pool = pool

    def plans(self, chains: Sequence[tuple[int, Example]]) -> Iterable[VariantPlan | str]:
        return _mapped(self.pool, chains, _plans)

    def drawn(self, wanted: Sequence[tuple[VariantPlan, int]], seed: int, large: float) -> Iterable[Drawn]:
        return _mapped(self.pool, wanted, partial(_drawn, seed, large))


def _mapped(pool: Pool, rows: Sequence[Any], function: Callable[[Sequence[Any]], list[Any]]) -> Iterator[Any]:
    batches = [(function, rows[start : start + _AT_ONCE]) for start in range(0, len(rows), _AT_ONCE)]
    for found in pool.map(batches):
        yield from found


def _call() -> Callable[[tuple[Callable[[Any], Any], Any]], Any]:
    return lambda batch: batch[0](batch[1])


def _by_rules(domain: str, rows: Sequence[Prose]) -> list[Entry]:
    return list(by_rules(rows, domain))


def _plans(chains: Sequence[tuple[int, Example]]) -> list[VariantPlan | str]:
    return list(Work().plans(chains))


def _drawn(seed: int, large: float, wanted: Sequence[tuple[VariantPlan, int]]) -> list[Drawn]:
    return list(Work().drawn(wanted, seed, large))
