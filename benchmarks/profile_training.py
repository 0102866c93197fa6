"""Where a training step's time goes: rows of a study, trained for a few steps, with their GPU kernels by time.

    python benchmarks/profile_training.py "main-curves:RuPLaR-Mix try learning_rate=0.005" --set data.train.count=20000

`ms` is wall time of a step in the trainer, data and optimizer included; `kernel_ms` is the sum over its kernels, which is smaller where the
GPU waits for the host.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch.autograd import DeviceType
from transformers import TrainerCallback

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
    on_device = DeviceType.CUDA if device == "cuda" else DeviceType.CPU
    kernels = [event for event in found.profiler.key_averages() if event.device_type == on_device]
    spent = {
        event.key: event.self_device_time_total if device == "cuda" else event.self_cpu_time_total for event in kernels
    }
    kernels.sort(key=lambda event: -spent[event.key])
    return {
        "row": row,
        "ms": round(found.ms, 3),
        "kernels": round(sum(event.count for event in kernels) / steps, 1),
        "kernel_ms": round(sum(spent.values()) / 1000 / steps, 3),
        "top": [
            {"kernel": e.key[:100], "count": e.count / steps, "ms": round(spent[e.key] / 1000 / steps, 4)}
            for e in kernels[:top]
        ],
    }


def main() -> None:
    """Profile rows and print a table of each."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("rows", nargs="+", help="rows of studies, STUDY:LABEL")
    parser.add_argument("--set", nargs="*", default=[], help="settings that override the rows', KEY=VALUE")
    parser.add_argument("--warm-up", type=int, default=30, help="steps before the clock starts")
    parser.add_argument("--steps", type=int, default=20, help="steps that are timed, and steps that are profiled")
    parser.add_argument("--top", type=int, default=30, help="kernels to list")
    parser.add_argument("--output", type=Path, help="also write the figures to this file")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    found = []
    for row in args.rows:
        one = profile(row, args.set, args.warm_up, args.steps, device, args.top)
        found.append(one)
        print(f"\n{row}: {one['ms']} ms per step, {one['kernels']} kernels, {one['kernel_ms']} ms", flush=True)
        for kernel in one["top"]:
            print(f"  {kernel['ms']:8.4f} ms  {kernel['count']:7.1f}  {kernel['kernel']}", flush=True)
    if args.output:
        args.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
