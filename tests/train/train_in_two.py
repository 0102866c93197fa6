"""One training process of several: train_in_two.py FOLDER RUN ROWS_PER_PROCESS STEPS [METHOD AS JSON]."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import torch
from conftest import make_config

from ruplar.train.run import train

if __name__ == "__main__":
    folder, run, rows, steps = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(1)
    # plain SGD, so that a gradient summed instead of averaged (or the reverse) shows in the weights
    config = make_config(
        folder / "backbone", lora={"rank": 4, "alpha": 8, "dropout": 0.0}, per_device_train_batch_size=rows,
        max_steps=steps, logging_steps=3, save_strategy="steps", save_steps=2, optim="sgd", learning_rate=0.1,
        max_grad_norm=0.1, lr_scheduler_type="constant",
        method=json.loads(sys.argv[5]) if len(sys.argv) > 5 else "ruplar",
    )  # fmt: skip
    train(config, output=folder / run, resume=True)
