"""Runs with known figures, and a small study of them on disk."""

import json

from ruplar.evaluate.record import BenchmarkResult, Machine, RunRecord, write_record, write_samples


def record(seed=1, correct=460, name="ruplar", n=1000, prior="mixture", **changes):
    keys = ("limit", "decoding", "latents", "ms_batch1", "forwards")
    result = {"latents": 2.0, "forwards": 7, **{key: changes.pop(key) for key in keys if key in changes}}
    result |= {"answer_tokens": 4, "ms_per_question": 1.5 * seed}
    benchmark = BenchmarkResult(name="svamp", n=n, correct=correct, **result)
    config = {"seed": seed, "backbone": {"name": "meta-llama/Llama-3.2-1B"}, "prior": {"name": prior}}
    about = {"commit": "abc", "dirty": False, "versions": {}, "machine": Machine(cpu="x", cores=2, memory_gb=8)}
    about |= {"started": "2026-01-01T00:00:00+00:00", "train_seconds": 60.0 * seed, **changes}
    return RunRecord(name=name, seed=seed, config=config, benchmarks=[benchmark], **about)


def write_run(folder, label, seed, marks, questions=None, domain=None, **changes):
    """A run that answered the questions of `marks` ("1101": right, right, wrong, right), with its samples."""
    right = [mark == "1" for mark in marks]
    about = record(seed, sum(right), label, len(right), **{"study": "toy", **changes})
    home = folder / f"{label}-seed{seed}"
    config = {**about.config, "domain": domain} if domain else about.config
    write_record(about.model_copy(update={"config": config}), home)
    asked = enumerate(zip(questions or [f"question {i}" for i in range(len(right))], right, strict=True))
    rows = [{"benchmark": "svamp", "seed": 0, "index": i, "question": q, "correct": mark} for i, (q, mark) in asked]
    write_samples(rows, home)
    return home


def write_study(folder, **more):
    """Two seeds each of a good and a bad method; the paper printed a row for the good one. `more` is of its study.json."""
    for label, latents, seeds in (("good", 2.0, ("1110", "1100")), ("bad", 0.0, ("1000", "0000"))):
        for seed, marks in enumerate(seeds, start=1):
            write_run(folder, label, seed, marks, latents=latents)
    plan = {"name": "toy", "rows": {"good": {}, "bad": {}}, "printed": {"good": "RuPLaR-Mix"}}
    (folder / "study.json").write_text(json.dumps(plan | more))
    return folder
