"""A model → `ClusterReasoner`: a `LatentReasoner` whose questions are answered by workers that hold the model.

Questions are sorted by length and dealt in batches. A worker draws from the random streams of a question's place in the whole
set, so answers and their order are those of a single process.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from ruplar.cluster.pool import Pool, connected, share_of_gpu
from ruplar.experiments import memory
from ruplar.model.memory import peak_memory_gb
from ruplar.reasoner import LatentReasoner, SampleOptions
from ruplar.types import Answer


@dataclass
class ClusterReasoner(LatentReasoner):
    """A model whose weights are used by the workers of a pool; this process uses its tokenizer and metadata."""

    remote: ClassVar[bool] = True
    pool: Pool | None = None
    peak: float | None = None
    name: str | None = None

    @property
    def gpu(self) -> str | None:
        return self.name

    @property
    def peak_gb(self) -> float | None:
        return self.peak

    @property
    def workers(self) -> int:
        assert self.pool is not None
        return self.pool.most

    def _sample(self, questions: Sequence[str], how: SampleOptions) -> list[list[Answer]]:
        assert self.pool is not None and how.places is None
        _, order = self.by_length(questions, how.decoding)
        size = max(1, how.batch_size // how.samples)
        dealt = [sorted(order[start : start + size]) for start in range(0, len(order), size)]
        same = {"samples": how.samples, "decoding": how.decoding, "batch_size": how.batch_size}
        same["return_latents"] = how.keep != "none"
        batches = [{"questions": [questions[i] for i in some], "places": some, **same} for some in dealt]
        found: dict[int, list[Answer]] = {}
        for some, (answers, peak, name) in zip(dealt, self.pool.map(batches), strict=True):
            found.update(zip(some, answers, strict=True))
            self.peak, self.name = max(self.peak or 0.0, peak), name
            if how.on_batch:
                how.on_batch(how.samples * len(some))
        return [found[i] for i in range(len(questions))]


def _worker(
    reference: str, device: str, gpus: float, settings: Mapping[str, Any] | None
) -> Callable[[dict[str, Any]], tuple[list[list[Answer]], float, str | None]]:
    memory.limit(device, gpus if 0 < gpus < 1 else None)
    reasoner = LatentReasoner.from_pretrained(reference, device, settings=settings)
    return lambda batch: (reasoner.sample(**batch), peak_memory_gb(device), reasoner.gpu)


@contextmanager
def cluster_reasoners(address: str, device: str, gpus: float | None) -> Iterator[Callable[..., ClusterReasoner]]:
    """Yield what loads a model on the workers of a cluster, with the arguments of `LatentReasoner.from_pretrained`."""
    with connected(address) as ray, ExitStack() as stack:
        where, each = share_of_gpu(ray, device, gpus)

        def load(reference: str, _: str, settings: Mapping[str, Any] | None = None) -> ClusterReasoner:
            local = LatentReasoner.from_pretrained(reference, "cpu", settings=settings)
            place = str(Path(reference).absolute()) if Path(reference).exists() else reference
            pool = stack.enter_context(Pool(ray, partial(_worker, place, where, each, settings), each))
            return ClusterReasoner(local.model, local.engine, pool=pool)

        yield load
