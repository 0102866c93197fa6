"""Where the fast engine's time goes: GPU kernels of a prefill and of a decode step, by kind, at one and at many slots.

    python benchmarks/profile_engine.py --shape llama-3.2-1b --output results/bench/nvidia-h200/profile-llama-3.2-1b.json

Random weights, prompts of 110 tokens. `ms` is wall time of the phase on an idle GPU; `kernel_ms` is the sum over its kernels, which is larger
where kernels overlap, and smaller where the GPU waits for the host.
"""

import argparse
import json
import re
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from ruplar.bench.latency import Lengths, fixed_length_thinker
from ruplar.bench.report import about
from ruplar.bench.shapes import build, random_prompts
from ruplar.engine.fast import FastEngine
from ruplar.engine.options import EngineOptions
from ruplar.engine.sampling import Decoding
from ruplar.engine.scheduler import Scheduler

KINDS = {
    "products of our kernels": r"^(project|gate_up)$",
    "products of cuBLAS": r"nvjet|gemm|cutlass|splitK",
    "attention": r"sdpa|attention|flash|fmha",
    "norms": r"norm",
    "rotation, SiLU": r"^(rotate_and_store|silu_mul)$",
    "decision": r"^(candidates|decide)$",
    "copies": r"Memcpy|Memset|memcpy|copy",
}


def profile(work: Callable[[], Any], times: int) -> dict[str, Any]:
    """Time a phase, then sum its kernels by kind, each per run."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(times):
        work()
    torch.cuda.synchronize()
    took = 1000 * (time.perf_counter() - start) / times
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
        for _ in range(times):
            work()
        torch.cuda.synchronize()
    kinds: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for event in found.key_averages():
        if event.self_device_time_total > 0:
            kind = next((kind for kind, pattern in KINDS.items() if re.search(pattern, event.key)), "other")
            kinds[kind][0] += event.self_device_time_total / 1000 / times
            kinds[kind][1] += event.count / times
    by_kind = {
        kind: {"ms": ms, "kernels": count} for kind, (ms, count) in sorted(kinds.items(), key=lambda k: -k[1][0])
    }
    return {
        "ms": took,
        "kernel_ms": sum(one["ms"] for one in by_kind.values()),
        "kernels": sum(one["kernels"] for one in by_kind.values()),
        "by_kind": by_kind,
    }


def phases(backbone: Any, slots: int) -> dict[str, Any]:
    lengths = Lengths()
    prompts = random_prompts(backbone, [lengths.prompt] * slots)
    columns = -(-(lengths.prompt + lengths.latents + lengths.answer + 2) // 64) * 64
    thinker, decoding = fixed_length_thinker(backbone, lengths), Decoding(max_answer_tokens=lengths.answer)
    engine = FastEngine.of(backbone, thinker, decoding, slots, EngineOptions(columns=columns, release=True))
    assert engine is not None
    scheduler = Scheduler(engine)
    for _ in range(2):  # captures graphs
        scheduler.run_all(prompts)
    requests = [engine.request(prompt) for prompt in prompts]

    def prefill() -> None:
        engine.busy.clear()
        engine.admit(list(range(slots)), requests)

    def step() -> None:
        for slot in engine.busy.values():  # as in the first decode step, however often
            slot.left, slot.position = lengths.answer, lengths.prompt + 2
        engine.step()

    return {"slots": slots, "prefill": profile(prefill, 5), "step": profile(step, 10)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="llama-3.2-1b")
    parser.add_argument("--slots", type=int, nargs="+", default=[1, 64])
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    backbone = build(given.shape, "cuda", torch.bfloat16)
    rows = [phases(backbone, slots) for slots in given.slots]
    given.output.write_text(
        json.dumps({**about("profile", given.shape, "cuda", "bfloat16"), "rows": rows}, indent=2) + "\n"
    )


if __name__ == "__main__":
    main()
