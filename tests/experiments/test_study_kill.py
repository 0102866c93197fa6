"""A study resumed after kill -9 of its process, and of its worker, ends in the records of an undisturbed study."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from tiny import TINY, run

from ruplar.evaluate.record import SAMPLES, read_record
from ruplar.experiments import storage
from ruplar.experiments.plan import load_study

PATIENCE = 300
"""Seconds; on a busy machine importing torch alone may take half a minute."""
TIMING = {"tokens_per_second", "memory_gb"}


COMMAND = [sys.executable, "-m", "ruplar", "study", "tiny.yaml", "--device", "cpu", "--jobs", "1", "--json"]


def until(holds, process: subprocess.Popen | None = None):
    end = time.monotonic() + PATIENCE
    while not (found := holds()):
        assert time.monotonic() < end, "it did not happen"
        assert process is None or process.poll() is None, process.communicate(timeout=PATIENCE)[0]
        time.sleep(0.01)
    return found


def workers(pid: int) -> list[int]:
    """The processes of cells; the other child is the resource tracker of multiprocessing."""
    children = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [child for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def undisturbed(folder: Path, results: str, work: str):
    study = load_study(str(folder / "tiny.yaml"))
    return run(study, storage.Places(folder / results, folder / work))[0]


def curve(folder: Path):
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if key not in TIMING} for row in rows]


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds the worker through /proc")
def test_a_killed_study_and_a_killed_worker_end_in_the_records_of_an_undisturbed_one(tmp_path, started):
    entries = {"name": "tiny", "seeds": [1], "on": [{"source": "word-problems", "count": 4}]}
    entries["rows"] = {"Mix": "embedded-ruplar", "Short": {"of": "Mix", "set": {"method.max_latents": 1}}}
    entries["set"] = {**TINY, "training.max_steps": 24, "training.save_steps": 4}
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(entries, sort_keys=False))
    folder = tmp_path / "runs" / "tiny" / "Mix-seed1"
    options = {"cwd": tmp_path, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}

    study = started(*COMMAND, **options)
    until(lambda: any(folder.glob("checkpoint-*")), study)
    [worker] = workers(study.pid)
    study.kill()
    study.wait(60)
    until(lambda: not alive(worker))  # it ends with the study
    assert not (folder / storage.TRAINED).exists()
    reached = {path.name for path in folder.glob("checkpoint-*")}

    study = started(*COMMAND, **options)
    until(lambda: {path.name for path in folder.glob("checkpoint-*")} - reached, study)
    [worker] = workers(study.pid)
    os.kill(worker, signal.SIGKILL)
    said = study.communicate(timeout=PATIENCE)[0]
    assert study.returncode == 1
    told = json.loads(said[said.index("{") :])
    needing = "it needs the model of 'Mix', which failed."
    assert told["failed"] == {"Mix-seed1": "its process ended with signal 9", "Short-seed1": needing}
    assert not (folder / storage.TRAINED).exists()

    again = undisturbed(tmp_path, "results/tiny", "runs/tiny")
    whole = undisturbed(tmp_path, "other/results", "other/runs")
    assert not (again.failed or again.left or whole.failed or whole.left)
    for cell in ("Mix-seed1", "Short-seed1"):
        one, two = tmp_path / "results" / "tiny" / cell, tmp_path / "other" / "results" / cell
        assert (one / SAMPLES).read_bytes() == (two / SAMPLES).read_bytes()
        assert curve(one) == curve(two) and len(curve(one)) == 24
        first, second = read_record(one), read_record(two)
        assert first.config == second.config and first.data == second.data
        assert [b.correct for b in first.benchmarks] == [b.correct for b in second.benchmarks]
