"""One training process of several: train_in_two.py FOLDER RUN_JSON …, with a run as `train_tiny` takes it; the last may be sharded."""

import json
import sys
from functools import partial
from pathlib import Path

import torch
from tiny_runs import make_config

from ruplar.train.run import train


def train_tiny(make, folder: Path, run: str, rows: int, steps: int = 20, **settings) -> None:
    """Train in `folder/run`, or go on there; plain SGD, so that a gradient summed instead of averaged shows in the weights."""
    defaults = {
        "lora": {"rank": 4, "alpha": 8, "dropout": 0.0}, "logging_steps": 3, "save_strategy": "steps", "save_steps": 5,
        "optim": "sgd", "learning_rate": 0.1, "max_grad_norm": 0.1, "lr_scheduler_type": "constant",
    }  # fmt: skip
    config = make(per_device_train_batch_size=rows, max_steps=steps, **{**defaults, **settings})
    train(config, output=folder / run, resume=True)


if __name__ == "__main__":
    from ruplar import reasoner
    from ruplar.engine.sampling import Decoding

    reasoner.Decoding = partial(Decoding, max_answer_tokens=8)  # as in the conftest: an untrained model never ends
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    for text in sys.argv[2:]:
        train_tiny(partial(make_config, folder / "backbone"), folder, **json.loads(text))
