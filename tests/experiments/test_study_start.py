"""Workers that cannot start: the others continue; without any, the study ends."""

import subprocess
import sys

import pytest
from tiny import run as run_study

from ruplar.errors import UserError

FULL = (
    """print('{"event": "not started", "reason": "RuntimeError: CUDA error: out of memory"}'); raise SystemExit(1)"""
)


@pytest.fixture
def start(make_study, places, monkeypatch):
    """Which starts fail → a study whose other workers are real: its outcome, its events, the number of starts."""
    popen, starts = subprocess.Popen, []

    def run(fails, code=FULL, **how):
        def started(words, **more):
            starts.append(words)
            return popen([sys.executable, "-c", code] if len(starts) in fails else words, **more)

        monkeypatch.setattr("ruplar.experiments.run.subprocess.Popen", started)
        study, events = make_study(rows=dict.fromkeys("AB", "embedded-no_cot")), []
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
    assert events.count("not started") == 1 and started == 3
    # one after another from then on
    assert [e for e in events if e in ("start", "done")] == ["start", "done"] * 2
    assert "a worker could not start (RuntimeError: CUDA error: out of memory); continuing with 1" in caplog.text


@pytest.mark.parametrize(
    ("code", "said"), [(FULL, "RuntimeError: CUDA error: out of memory ("), ("raise RuntimeError", "status 1 (")]
)
def test_a_study_ends_when_no_worker_can_start(start, code, said):
    found, events, started = start(range(1, 99), code, jobs=2)
    assert f"no worker could start: {said}" in str(found) and started == 2 and "start" not in events
