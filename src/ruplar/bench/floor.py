"""Device → what it can do at best, and from that the least time a question can take.

Two ceilings are measured in the same run as everything else: a copy, counting bytes read plus bytes written, and a
large matrix product. A forward must read every weight once and multiply by it; the slower of the two is its floor.

    forward over n tokens of B rows   max( (weights + B · keys and values) / bandwidth,  2 · weights · n / rate )

The copy moves as many bytes as the model has, since weights that fit into a cache are read from there every time.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ruplar.bench.timing import repeat
from ruplar.model.backbone import Backbone

_MOST_COPIED = 4 * 2**30


@dataclass(frozen=True)
class Ceilings:
    """Bytes moved and floating-point operations done in a second, as measured."""

    bytes_per_s: float
    flops_per_s: float

    def fields(self) -> dict[str, float]:
        """For the record."""
        return {"bandwidth_gb_s": self.bytes_per_s / 1e9, "matmul_tflops": self.flops_per_s / 1e12}


@dataclass(frozen=True)
class Load:
    """What a forward of a model must touch.

    Attributes:
        body: Weights every token meets: all but the embedding and the head.
        head: Weights only positions that predict something meet.
        bytes_each: Of a weight.
        cache_bytes: Keys and values of one position.
        total_bytes: All weights, as they lie in memory.
    """

    body: int
    head: int
    bytes_each: int
    cache_bytes: int
    total_bytes: int

    @classmethod
    def of(cls, backbone: Backbone) -> Load:
        """Counted from the model's own weights."""
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
    """Measure both, on random numbers.

    Args:
        device: Where.
        dtype: Of the matrices.
        load: Says how many bytes to copy.
        quick: A smaller product, for tests.
    """
    copied = _copy_rate(device, min(load.total_bytes, _MOST_COPIED) // 2)
    size = 256 if quick else 8192 if torch.device(device).type == "cuda" else 1536
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    product = repeat(lambda: a @ b, device, 10, warm_up=3, budget_s=10)
    return Ceilings(copied, 2 * size**3 / (product.median / 1000))


def _copy_rate(device: torch.device | str, count: int) -> float:
    """Bytes a second when `count` are read and as many written."""
    source = torch.randint(0, 255, (count,), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    took = repeat(lambda: target.copy_(source), device, 20, warm_up=5, budget_s=10)
    return 2 * count / (took.median / 1000)


def question_floor_ms(load: Load, best: Ceilings, prompt: int, latents: int, answer: int, batch: int = 1) -> float:
    """The least time for `batch` questions at once: one prefill, then each latent, `</think>` and all but one token.

    Args:
        load: The model.
        best: The device.
        prompt: Tokens of each prompt, `<think>` not counted.
        latents: Soft tokens of each thought.
        answer: Tokens of each answer.
        batch: Questions side by side.
    """
    weights = (load.body + load.head) * load.bytes_each
    prefill_flops = 2 * batch * (load.body * (prompt + 1) + load.head)
    seconds = max(weights / best.bytes_per_s, prefill_flops / best.flops_per_s)
    for step in range(latents + answer):
        read = weights + batch * load.cache_bytes * (prompt + 1 + step)
        flops = 2 * batch * (load.body + load.head)
        seconds += max(read / best.bytes_per_s, flops / best.flops_per_s)
    return 1000 * seconds
