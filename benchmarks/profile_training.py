"""Where a training step's time goes: GPU kernels by kind and by time, of a study's row in the trainer or of a benchmark's step.

    python benchmarks/profile_training.py "main-curves:RuPLaR-Mix try learning_rate=0.005" --set data.train.count=20000
    python benchmarks/profile_training.py --shape qwen2.5-0.5b --batch 256 --pack 256 --compile

`ms` is wall time of a step, optimizer included (in the trainer also data); `kernel_ms` is the sum over its kernels, which is smaller where
the GPU waits for the host. `--shape` profiles the step that `ruplar bench train` times.
"""

import argparse
import json
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.autograd import DeviceType
from transformers import TrainerCallback

from ruplar.bench.train import TrainOptions, training_step
from ruplar.experiments.tries import row_config
from ruplar.train.arguments import sound_attention
from ruplar.train.run import TrainingRun


class Profile(TrainerCallback):
    """Times `steps` steps after `warm_up`, then profiles as many."""

    def __init__(self, warm_up: int, steps: int, device: str):
        activity = torch.profiler.ProfilerActivity
        self.warm_up, self.steps, self.device = warm_up, steps, device
        self.profiler = torch.profiler.profile(activities=[activity.CUDA if device == "cuda" else activity.CPU])
        self.ms = 0.0

    def on_step_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Start the clock, then stop it and start the profiler."""
        if state.global_step in (self.warm_up, self.warm_up + self.steps):
            if self.device == "cuda":
                torch.cuda.synchronize()
            if state.global_step == self.warm_up:
                self.ms = -time.perf_counter()
            else:
                self.ms = (self.ms + time.perf_counter()) / self.steps * 1000
                self.profiler.start()

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Stop the profiler after the last step."""
        if state.global_step == self.warm_up + 2 * self.steps:
            if self.device == "cuda":
                torch.cuda.synchronize()
            self.profiler.stop()
            control.should_training_stop = True


def profile(row: str, overrides: list[str], warm_up: int, steps: int, device: str, top: int) -> dict[str, Any]:
    """Train one row for a few steps → its time per step and its kernels."""
    last = warm_up + 2 * steps
    config, _ = row_config(row, [*overrides, f"training.max_steps={last}", "training.save_strategy=no"])
    found = Profile(warm_up, steps, device)
    with tempfile.TemporaryDirectory() as folder:
        run = TrainingRun(config, Path(folder) / "run", device=device)
        trainer = run.trainer(callbacks=[found])
        with sound_attention(config.speed.pack):
            trainer.train()
    return {"row": row, **kernels_of(found.profiler, found.ms, steps, device, top)}


def profile_shape(
    shape: str, options: TrainOptions, warm_up: int, steps: int, device: str, top: int
) -> dict[str, Any]:
    """Run a benchmark's step a few times → its time and its kernels."""
    step, *_ = training_step(shape, device, torch.bfloat16 if device == "cuda" else torch.float32, options)
    repeat(step, warm_up, device)
    ms = repeat(step, steps, device) / steps * 1000
    activity = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[activity.CUDA if device == "cuda" else activity.CPU]) as profiler:
        repeat(step, steps, device)
    return {"row": f"{shape}, batch {options.batch}", **kernels_of(profiler, ms, steps, device, top)}


def repeat(step: Callable[[], None], times: int, device: str) -> float:
    """Run a step several times → seconds."""
    began = time.perf_counter()
    for _ in range(times):
        step()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


def kernels_of(profiler: Any, ms: float, steps: int, device: str, top: int) -> dict[str, Any]:
    """Profile of `steps` steps → kernels per step, by kind and the longest ones."""
    on_device = DeviceType.CUDA if device == "cuda" else DeviceType.CPU
    kernels = [event for event in profiler.key_averages() if event.device_type == on_device]
    spent = {
        event.key: event.self_device_time_total if device == "cuda" else event.self_cpu_time_total for event in kernels
    }
    kernels.sort(key=lambda event: -spent[event.key])
    by_kind: dict[str, float] = {}
    for key, microseconds in spent.items():
        by_kind[kind_of(key)] = by_kind.get(kind_of(key), 0.0) + microseconds / 1000 / steps
    return {
        "ms": round(ms, 3),
        "kernels": round(sum(event.count for event in kernels) / steps, 1),
        "kernel_ms": round(sum(spent.values()) / 1000 / steps, 3),
        "kinds": {kind: round(spent, 3) for kind, spent in sorted(by_kind.items(), key=lambda one: -one[1])},
        "top": [
            {"kernel": e.key[:100], "count": e.count / steps, "ms": round(spent[e.key] / 1000 / steps, 4)}
            for e in kernels[:top]
        ],
    }


KINDS = {
    "attention": r"flash|fmha|attention|softmax_warp",
    "matrix products": r"nvjet|gemm|cutlass|splitK|cublas|aten::(mm|addmm|bmm)",
    "compiled pointwise and reductions": r"^triton_",
    "Liger": r"^_.*kernel",
    "optimizer": r"multi_tensor|fused_adam",
    "copies": r"[Mm]emcpy|[Mm]emset|copy|aten::to|CatArray",
    "other pointwise and reductions": r"elementwise|reduce|index|embedding|norm",
}
"""Kind of a kernel → expression found in its name; the first that fits."""


def kind_of(kernel: str) -> str:
    """Return the kind of a kernel."""
    return next((kind for kind, pattern in KINDS.items() if re.search(pattern, kernel)), "rest")


def main() -> None:
    """Profile rows or a shape and print a table of each."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("rows", nargs="*", help="rows of studies, STUDY:LABEL")
    parser.add_argument("--shape", help="profile the step of `ruplar bench train` on this shape instead")
    parser.add_argument("--batch", type=int, default=32, help="with --shape: sequences per step")
    parser.add_argument("--pack", type=int, default=0, help="with --shape: tokens per packed row")
    for name, what in {
        "full": "train all weights",
        "compile": "compile the layers",
        "graph": "replay the layers as CUDA graphs",
        "liger": "use Liger's kernels",
    }.items():
        parser.add_argument(f"--{name}", action="store_true", help=f"with --shape: {what}")
    parser.add_argument("--set", nargs="*", default=[], help="settings that override the rows', KEY=VALUE")
    parser.add_argument("--warm-up", type=int, default=30, help="steps before the clock starts")
    parser.add_argument("--steps", type=int, default=20, help="steps that are timed, and steps that are profiled")
    parser.add_argument("--top", type=int, default=30, help="kernels to list")
    parser.add_argument("--output", type=Path, help="also write the figures to this file")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if bool(args.rows) == bool(args.shape):
        parser.error("give rows of studies, or --shape")
    found = []
    for row in args.rows or [args.shape]:
        if args.shape:
            options = TrainOptions(
                args.batch, not args.full, args.pack, args.compile, graph=args.graph, liger=args.liger
            )
            one = profile_shape(row, options, args.warm_up, args.steps, device, args.top)
        else:
            one = profile(row, args.set, args.warm_up, args.steps, device, args.top)
        found.append(one)
        print(f"\n{row}: {one['ms']} ms per step, {one['kernels']} kernels, {one['kernel_ms']} ms", flush=True)
        for kind, spent in one["kinds"].items():
            print(f"  {spent:8.3f} ms  {kind}", flush=True)
        for kernel in one["top"]:
            print(f"  {kernel['ms']:8.4f} ms  {kernel['count']:7.1f}  {kernel['kernel']}", flush=True)
    if args.output:
        args.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
