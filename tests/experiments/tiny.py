"""Settings that make a study of the embedded model small enough for a test, and how tests run one."""

from cases import cases

TINY = cases(__file__, "tiny")
FINISHED = cases(__file__, "finished")
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
