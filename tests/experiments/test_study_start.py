"""Workers that cannot start: without GPU memory the others continue, for any other reason the study ends."""

import subprocess
import sys

import pytest
from tiny import job_of
from tiny import run as run_study

from ruplar.errors import UserError
from ruplar.experiments.run import Pool

FULL = """print('{"event": "no room", "reason": "RuntimeError: CUDA error: out of memory"}'); raise SystemExit(1)"""


@pytest.fixture
def start(make_study, places, monkeypatch):
    """Which starts fail → a study whose other workers are real: its outcome, its events, the number of starts."""
    popen, starts = subprocess.Popen, []

    def run(fails, code=FULL, rows="AB", **how):
        def started(words, **more):
            starts.append(words)
            return popen([sys.executable, "-c", code] if len(starts) in fails else words, **more)

        monkeypatch.setattr("ruplar.experiments.run.subprocess.Popen", started)
        study, events = make_study(rows=dict.fromkeys(rows, "embedded-no_cot")), []
        try:
            found, _ = run_study(study, places, watch=events.append, **how)
        except UserError as refused:
            found = refused
        return found, [event["event"] for event in events], len(starts)

    return run


@pytest.mark.long
@pytest.mark.slow
def test_a_study_goes_on_with_the_workers_that_find_room(start, caplog):
    found, events, started = start((2,), jobs=2)
    assert (found.failed, found.left) == ({}, [])
    assert events.count("no room") == 1 and started == 3
    # one after another from then on
    assert [e for e in events if e in ("start", "done")] == ["start", "done"] * 2
    assert "found no memory to start (RuntimeError: CUDA error: out of memory); continuing with 1" in caplog.text


@pytest.mark.parametrize(("fit", "jobs"), [(4, 4), (3, 3), (1, 1)])
def test_a_number_that_is_found_out_stays_below_what_found_no_room(fit, jobs, make_study, places, monkeypatch):
    monkeypatch.setattr("ruplar.experiments.run.os.cpu_count", lambda: 64)
    study = make_study(rows=dict.fromkeys("ABCD", "embedded-no_cot"))
    pool = Pool([job_of(study, places)], None, lambda event: None)
    pool.room, pool.peak, pool.fit = 1000.0, 1.0, fit
    pool._grow()
    assert pool.jobs == jobs


def test_a_study_ends_when_no_worker_finds_room(start):
    found, events, started = start(range(1, 99), jobs=2)
    assert "no worker could start, the GPU is full: RuntimeError: CUDA error: out of memory (" in str(found)
    assert started == 3 and "start" not in events  # two, then one exclusively


def test_a_worker_that_cannot_start_for_another_reason_ends_the_study(start):
    found, events, _ = start((1, 2), "raise RuntimeError('ours')", jobs=2)
    assert "a worker could not start: RuntimeError: ours" in str(found) and "no room" not in events
