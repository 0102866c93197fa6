"""Workers that cannot start: those for which the GPU has no room are done without, any other end the study."""

from __future__ import annotations

import os

import pytest

from ruplar.errors import UserError
from ruplar.experiments import storage as disk
from ruplar.experiments.plan import plan
from ruplar.experiments.pool import Pool
from ruplar.experiments.run import How, run_study
from ruplar.experiments.worker import Job

FULL = 'RuntimeError("CUDA error: out of memory\\nCUDA kernel errors might be asynchronously reported")'
AT_START = '''"""Python imports this as it starts: a worker whose number is among those that fail raises instead of measuring memory."""
import itertools, pathlib, sys

if "ruplar.experiments.worker" in sys.orig_argv:
    from ruplar.experiments import memory

    measured = memory.room_gb

    def room_gb(device):
        for number in itertools.count(1):
            try:
                pathlib.Path({marks!r}, f"start-{{number}}").touch(exist_ok=False)
                break
            except FileExistsError:
                pass
        if number in {fails!r}:
            raise {error}
        return measured(device)

    memory.room_gb = room_gb
'''


@pytest.fixture
def start(make_study, tmp_path, monkeypatch):
    """Which starts fail → a study run by real workers: what came of it, its events, how many were started."""

    def run(fails, error=FULL, rows="AB", **how):
        marks = tmp_path / "marks"
        marks.mkdir()
        (tmp_path / "early").mkdir()
        code = AT_START.format(marks=str(marks), fails=fails, error=error)
        (tmp_path / "early" / "sitecustomize.py").write_text(code)
        paths = (str(tmp_path / "early"), os.environ.get("PYTHONPATH"))
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
        study, events = make_study(rows=dict.fromkeys(rows, "embedded-no_cot")), []
        places = disk.Places(tmp_path / "results", tmp_path / "runs")
        try:
            found = run_study(study, plan(study), plan(study), places, How(**how), events.append)
        except UserError as refused:
            found = refused
        return found, [event["event"] for event in events], len(list(marks.iterdir()))

    return run


@pytest.mark.slow
def test_a_study_goes_on_with_the_workers_that_find_room(start, caplog):
    found, events, started = start((2,), jobs=2)
    assert (found.failed, found.left) == ({}, [])
    assert events.count("no room") == 1 and started == 3
    # one after another from then on
    assert [e for e in events if e in ("start", "done")] == ["start", "done"] * 2
    assert "found no room to start (RuntimeError: CUDA error: out of memory); from now on 1 at once" in caplog.text


@pytest.mark.parametrize(("fit", "jobs"), [(4, 4), (3, 3), (1, 1)])
def test_a_number_that_is_found_out_stays_below_what_found_no_room(fit, jobs, make_study, tmp_path, monkeypatch):
    monkeypatch.setattr("ruplar.experiments.pool.os.cpu_count", lambda: 64)
    study = make_study(rows=dict.fromkeys("ABCD", "embedded-no_cot"))
    cells = tuple(plan(study))
    job = Job(study, cells, cells, disk.Places(tmp_path / "results", tmp_path / "runs"))
    pool = Pool([job], None, lambda event: None)
    pool.room, pool.peak, pool.fit = 1000.0, 1.0, fit
    pool._grow()
    assert pool.jobs == jobs


@pytest.mark.slow
def test_a_study_ends_when_no_worker_finds_room(start):
    found, events, started = start(range(1, 99), jobs=2)
    assert "no worker could start, the GPU is full: RuntimeError: CUDA error: out of memory (" in str(found)
    assert started == 3 and "start" not in events  # two, then one alone


@pytest.mark.slow
def test_a_worker_that_cannot_start_for_another_reason_ends_the_study(start):
    found, events, _ = start((2,), 'RuntimeError("ours")', jobs=2)
    assert "a worker could not start: RuntimeError: ours" in str(found) and "no room" not in events
