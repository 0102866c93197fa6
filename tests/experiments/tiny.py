"""Settings that make a study of the embedded model small enough for a test, and how tests run one."""

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

FINISHED = {
    "rows": {
        "No-CoT": "embedded-no_cot",
        "Mix": "embedded-ruplar",
        "Short": {"of": "Mix", "set": {"method.max_latents": 1}},
    },
    "on": ["valid", {"source": "word-problems", "count": 4}, {"source": "word-problems:short", "count": 3}],
}
"""Entries of the study that the fixture `finished` gives, with its models."""


def tiny_study(**entries):
    """Return a checked study of the tiny settings."""
    from ruplar.experiments.plan import Study

    entries["set"] = {**TINY, **entries.get("set", {})}
    tiny = {"name": "tiny", "seeds": [1], "on": ["valid", {"source": "word-problems", "count": 4}]}
    return Study.model_validate({**tiny, **entries})


def job_of(study, places, *overrides, only=None, **options):
    """Return a study with all its cells, those of the rows `only` chosen."""
    from ruplar.experiments.job import Job, Options
    from ruplar.experiments.plan import plan

    cells = tuple(plan(study, overrides))
    chosen = tuple(cell for cell in cells if only is None or cell.label in only)
    return Job(study, cells, chosen, places, Options(**options))


def run(study, places, *overrides, only=None, watch=lambda event: None, **options):
    """Run a study, in this process unless `jobs` is given, and return its outcome and its events."""
    from ruplar.experiments.run import run_study

    events = []

    def seen(event):
        events.append(event)
        watch(event)

    job = job_of(study, places, *overrides, only=only, **{"jobs": 0, **options})
    return run_study(job, seen), events
