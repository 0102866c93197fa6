"""Measure time and memory of a piece of work, and the least time the hardware allows for a question (the floor).

Two hardware ceilings are measured in the same run as everything else: the bandwidth of a copy (bytes read plus bytes
written) and the rate of a large matrix product. A forward pass must read every weight once and multiply by it, so the
slower of the two is its floor:

    forward pass over n tokens of B rows   max( (weights + B · KV cache) / bandwidth,  2 · weights · n / rate )

The copy moves as many bytes as the model has, because weights that fit into a CPU cache are read from there.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ruplar.model.backbone import Backbone
from ruplar.model.memory import forget_peak, peak_memory_gb

Work = Callable[[], Any]


@dataclass(frozen=True)
class Spread:
    """Repeated measurements: median, 10th and 90th percentile; `cpu` is the median CPU time of the same work."""

    median: float
    low: float
    high: float
    count: int
    cpu: float | None = None

    @classmethod
    def of(cls, values: Sequence[float], cpu: Sequence[float] = ()) -> Spread:
        """Summarise at least one value."""
        low, median, high = (float(np.quantile(values, q)) for q in (0.1, 0.5, 0.9))
        return cls(median, low, high, len(values), float(np.median(cpu)) if cpu else None)

    def fields(self, name: str, unit: str) -> dict[str, float]:
        """`ours_ms`, `ours_p10_ms`, `ours_p90_ms`."""
        return {f"{name}_{unit}": self.median, f"{name}_p10_{unit}": self.low, f"{name}_p90_{unit}": self.high}


def wait(device: torch.device | str) -> None:
    """Wait until the device has finished all its work."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)


def repeat(work: Work, device: torch.device | str, times: int, warm_up: int = 2, budget_s: float = 60.0) -> Spread:
    """Time `work` in milliseconds: `times` repetitions after a warm-up, fewer if `budget_s` is exceeded."""
    return interleave({"work": work}, device, times, warm_up, budget_s)["work"]


def interleave(
    works: Mapping[str, Work], device: torch.device | str, times: int, warm_up: int = 2, budget_s: float = 60.0
) -> dict[str, Spread]:
    """Time several works in turn, as `repeat`, so that a changing load of the machine favours none."""
    for work in works.values():
        for _ in range(warm_up):
            work()
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    began = time.perf_counter()
    for turn in range(times):
        if turn and time.perf_counter() - began > budget_s * len(works):
            break
        for name, work in works.items():
            wait(device)
            start, cpu = time.perf_counter(), time.process_time()
            work()
            wait(device)
            found[name].append((1000 * (time.perf_counter() - start), 1000 * (time.process_time() - cpu)))
    return {name: Spread.of(*zip(*values, strict=True)) for name, values in found.items()}


class Peak:
    """Context manager that measures the peak memory of a GPU's tensors in `gb`; None on a CPU."""

    gb: float | None = None

    def __init__(self, device: torch.device | str):
        self.device = torch.device(device)

    def __enter__(self) -> Peak:
        gc.collect()  # unused models and engines may reference each other
        if self.device.type == "cuda":
            wait(self.device)
            torch.cuda.empty_cache()
            forget_peak(self.device)
        return self

    def __exit__(self, *exception: Any) -> None:
        if self.device.type == "cuda":
            wait(self.device)
            self.gb = peak_memory_gb(self.device)


_MAX_COPY_BYTES = 4 * 2**30


@dataclass(frozen=True)
class Ceilings:
    """Measured bandwidth and floating-point rate of a device."""

    bytes_per_s: float
    flops_per_s: float

    def fields(self) -> dict[str, float]:
        """Return the fields of the record."""
        return {"bandwidth_gb_s": self.bytes_per_s / 1e9, "matmul_tflops": self.flops_per_s / 1e12}


@dataclass(frozen=True)
class Load:
    """What a forward pass of a model reads."""

    body: int  # number of weights used for every token: all except the embedding and the LM head
    head: int  # number of weights of the LM head, used only for positions that predict a token
    bytes_each: int  # bytes per weight
    cache_bytes: int  # bytes of the KV cache per position
    total_bytes: int  # bytes of all weights

    @classmethod
    def of(cls, backbone: Backbone) -> Load:
        """Count the weights of a model."""
        model, config = backbone.plain_model, backbone.plain_model.config
        every = {id(p): p for p in model.parameters()}
        tables = {id(m.weight): m.weight for m in (model.get_input_embeddings(), model.get_output_embeddings())}
        weight = backbone.embedding_weight
        body = sum(p.numel() for key, p in every.items() if key not in tables)
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        cache = 2 * config.num_hidden_layers * config.num_key_value_heads * width * weight.element_size()
        total = sum(p.numel() * p.element_size() for p in every.values())
        return cls(body, weight.numel(), weight.element_size(), cache, total)


def ceilings(device: torch.device | str, dtype: torch.dtype, load: Load, quick: bool = False) -> Ceilings:
    """Measure bandwidth and matrix product rate on random numbers."""
    copied = _copy_rate(device, min(load.total_bytes, _MAX_COPY_BYTES) // 2)
    size = 256 if quick else 8192 if torch.device(device).type == "cuda" else 1536
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    product = repeat(lambda: a @ b, device, 10, warm_up=3, budget_s=10)
    return Ceilings(copied, 2 * size**3 / (product.median / 1000))


def _copy_rate(device: torch.device | str, count: int) -> float:
    source = torch.randint(0, 255, (count,), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    took = repeat(lambda: target.copy_(source), device, 20, warm_up=5, budget_s=10)
    return 2 * count / (took.median / 1000)


def question_floor_ms(load: Load, best: Ceilings, prompt: int, latents: int, answer: int, batch: int = 1) -> float:
    """Return the least time for a batch: one prefill, then every latent, `</think>` and every answer token but one."""
    weights = (load.body + load.head) * load.bytes_each
    prefill_flops = 2 * batch * (load.body * (prompt + 1) + load.head)
    seconds = max(weights / best.bytes_per_s, prefill_flops / best.flops_per_s)
    for step in range(latents + answer):
        read = weights + batch * load.cache_bytes * (prompt + 1 + step)
        flops = 2 * batch * (load.body + load.head)
        seconds += max(read / best.bytes_per_s, flops / best.flops_per_s)
    return 1000 * seconds
