"""Log rows of a run → one readable line, a progress bar, and `metrics.jsonl`.

    step 0120/4500  2.7% | loss 0.412 = answer 0.201 + prior 0.180 + align 0.031 | lr 2.9e-04 | 8,420 tok/s | 11.2 GB | eta 0:41:00

Nothing here prints: a `Show` callback gets each `Progress`, and the command line prints it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from ruplar.io import write_text
from ruplar.train import METRICS
from ruplar.train.metrics import finite


@dataclass(frozen=True)
class Progress:
    """State of a run at a log row."""

    step: int  # optimizer steps done
    steps: int  # steps of the whole run
    # the metrics logged at this step; empty at the start, at the end, and after a step that logs nothing
    row: Mapping[str, float] = field(default_factory=dict)
    parts: tuple[str, ...] = ()  # names of the loss parts in `row`
    eta: float | None = None  # seconds left; None if unknown


Show = Callable[[Progress], bool | None]
"""Called after each step and with each row; a true result ends the training after the current step."""


def line(progress: Progress) -> str:
    """Format one row as a line of text; "" for an empty row."""
    row, width = progress.row, len(str(progress.steps))
    if not row:
        return ""
    head = f"step {progress.step:0{width}d}/{progress.steps} {progress.step / max(progress.steps, 1):6.1%}"
    if "eval_accuracy" in row:
        return " | ".join([head, *_validation(row)])
    left = [f"eta {timedelta(seconds=round(progress.eta))}"] if progress.eta is not None else []
    return " | ".join([head, *_training(progress), *left])


def _training(progress: Progress) -> list[str]:
    row, pieces = progress.row, []
    if "loss" in row:
        sum_of = " + ".join(f"{name} {row[name]:.3f}" for name in progress.parts)
        pieces.append(f"loss {row['loss']:.3f}" + (f" = {sum_of}" if len(progress.parts) > 1 else ""))
    if "reward" in row:
        pieces.append(f"reward {row['reward']:.3f}")
    if "learning_rate" in row:
        pieces.append(f"lr {row['learning_rate']:.1e}")
    if "tokens_per_second" in row:
        pieces.append(f"{row['tokens_per_second']:,.0f} tok/s")
    if "memory_gb" in row:
        pieces.append(f"{row['memory_gb']:.1f} GB")
    return pieces


def _validation(row: Mapping[str, float]) -> list[str]:
    pieces = [f"valid accuracy {row['eval_accuracy']:.1%}"]
    pieces += [f"{row[f'eval_{name}']:.2f} {name}" for name in ("latents", "forwards") if f"eval_{name}" in row]
    return pieces + ([f"halting {row['eval_halting']:.1%}"] if "eval_halting" in row else [])


class ProgressCallback(TrainerCallback):
    """Pass every step and log row to `show`, and append the rows to `metrics.jsonl`; main process only."""

    def __init__(self, run: Path, part_names: Callable[[], tuple[str, ...]], show: Show | None = None):
        self.file, self.part_names, self.show = run / METRICS, part_names, show
        self._begun = (0.0, 0)
        self._written: set[tuple[str, int]] = set()

    def on_train_begin(self, args, state, control, **kwargs):
        """Drop rows after the step resumed from: they will be logged again."""
        if state.is_world_process_zero:
            truncate(self.file, state.global_step or -1)
            self._written = {(row["kind"], row["step"]) for row in rows(self.file)}
            self._begun = (time.monotonic(), state.global_step)
            self._report(state, {})

    def on_step_end(self, args, state, control, **kwargs):
        """Move the progress bar: rows may be minutes apart."""
        if state.is_world_process_zero:
            control.should_training_stop |= bool(self._report(state, {}))

    def on_log(self, args, state, control, logs=None, **kwargs):
        """Write one row, but not the trainer's final summary, which `run.json` contains too."""
        if state.is_world_process_zero and logs and "train_runtime" not in logs:
            kind = "valid" if any(key.startswith("eval_") for key in logs) else "train"
            if (kind, state.global_step) not in self._written:
                figures = {k: finite(v) if isinstance(v, float) else v for k, v in logs.items()}
                row = {"kind": kind, "step": state.global_step, **figures}
                with self.file.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
                self._written.add((kind, state.global_step))
            control.should_training_stop |= bool(self._report(state, logs))

    def on_train_end(self, args, state, control, **kwargs):
        """Complete the progress bar."""
        if state.is_world_process_zero:
            self._report(state, {})

    def _report(self, state, row: Mapping[str, float]) -> bool | None:
        if self.show is None:
            return None
        since, first = self._begun
        done = state.global_step - first
        eta = (time.monotonic() - since) / done * (state.max_steps - state.global_step) if done else None
        return self.show(Progress(state.global_step, state.max_steps, dict(row), self.part_names(), eta))


def truncate(file: Path, step: int) -> None:
    """Keep the rows up to a step and drop a truncated last line; create the file if it is missing."""
    lines = []
    for text in file.read_text(encoding="utf-8").splitlines() if file.is_file() else []:
        try:
            row = json.loads(text)
        except ValueError:
            continue
        if row["step"] <= step:
            lines.append(text + "\n")
    write_text(file, "".join(lines))


def rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in file.read_text(encoding="utf-8").splitlines()]


class BarProgress:
    """A progress bar: step, elapsed and remaining time, then the loss in parts; a context manager around the run."""

    def __init__(self, console: Any):
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar
        from rich.table import Column

        columns = (TextColumn("step"), MofNCompleteColumn(), BarColumn(bar_width=20), TimeElapsedColumn())
        metrics = TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1))
        self._bar = Bar(*columns, metrics, console=console, expand=True)
        self._task = self._bar.add_task("loading data and model", total=None)
        self._metrics: list[str] = []

    def __call__(self, progress: Progress) -> None:
        """Show one row; a validation is printed as a line above the bar."""
        if "eval_accuracy" in progress.row:
            self._bar.console.print(line(progress), highlight=False)
        elif progress.row:
            self._metrics = _training(progress)
        left = "first step" if progress.eta is None else f"eta {timedelta(seconds=round(progress.eta))}"
        text = " | ".join([left, *self._metrics])
        self._bar.update(self._task, completed=progress.step, total=progress.steps, description=text)

    def __enter__(self) -> BarProgress:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()
