"""One training process of several: train_in_two.py FOLDER RUN ROWS_PER_PROCESS STEPS [METHOD AS JSON]."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import torch

from ruplar.train.run import train


def train_tiny(make, run: Path, rows: int, steps: int, method="ruplar") -> None:
    """Train in `run`, or go on there; plain SGD, so that a gradient summed instead of averaged shows in the weights."""
    config = make(
        lora={"rank": 4, "alpha": 8, "dropout": 0.0}, per_device_train_batch_size=rows,
        max_steps=steps, logging_steps=3, save_strategy="steps", save_steps=2, optim="sgd", learning_rate=0.1,
        max_grad_norm=0.1, lr_scheduler_type="constant", method=method,
    )  # fmt: skip
    train(config, output=run, resume=True)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    from conftest import make_config

    torch.set_num_threads(1)
    folder, run, rows, steps = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    train_tiny(partial(make_config, folder / "backbone"), folder / run, rows, steps, *map(json.loads, sys.argv[5:]))
