"""Settings that make a study of the embedded model small enough for a test: a few steps, short problems."""

TINY = {
    "training.max_steps": 2,
    "training.per_device_train_batch_size": 2,
    "training.dataloader_num_workers": 0,
    "training.dataloader_prefetch_factor": None,
    "training.bf16": False,
    "training.logging_steps": 1,
    "training.eval_strategy": "no",
    "training.save_strategy": "steps",
    "training.save_steps": 2,
    "data.train": {"source": "word-problems", "count": 40, "seed": 5, "steps": [1, 2]},
    "data.valid.count": 3,
    "speed.pack": 0,
}
