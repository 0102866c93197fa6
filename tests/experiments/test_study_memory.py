"""A GPU that several cells share: how much each may take of it, and a second try, alone, for what found no room."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tiny import job_of, run

from ruplar.errors import UserError
from ruplar.experiments import memory, storage
from ruplar.experiments.worker import work

FULL = "CUDA out of memory. Tried to allocate 2.00 GiB."
ASKED = "the GPU is out of memory. Halve training.per_device_train_batch_size"


@pytest.fixture
def row(tmp_path, monkeypatch):
    """Settings → a row of the method in plugs/hungry.py, which workers find too."""
    folder = str(Path(__file__).parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH")))))
    (tmp_path / "marks").mkdir()

    def make(**settings):
        found = {"marks": str(tmp_path / "marks"), **settings}
        return {
            "recipe": "embedded-no_cot",
            "set": {"method.name": "plugs.hungry", **{f"method.{key}": value for key, value in found.items()}},
        }

    return make


def told(events, *kinds):
    return [(event["event"], event["cell"]) for event in events if event["event"] in kinds]


def beside(row, fails):
    """Hungry fails while Calm is at work, which waits for that; Short asks the model of Hungry."""
    return {
        "Hungry": row(fails=fails, wait_for="calm-1"),
        "Short": {"of": "Hungry", "set": {"method.name_of": "short"}},
        "Calm": row(name_of="calm", wait_for="failed"),
    }


def let_calm_continue(tmp_path):
    """Calm ends its work once the first failure of Hungry is known.

    A failure that is none of those expected lets both go on too: the test is over in seconds, not when patience ends.
    """

    def watch(event):
        if event["event"] in ("again", "failed"):
            for mark in ("failed", "calm-1"):
                (tmp_path / "marks" / mark).touch()

    return watch


# --- the share ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "share", "most"),
    [
        ({"jobs": 2}, 0.475, None),
        ({"jobs": 9}, 0.475, None),  # two cells: no more than two at once
        ({"jobs": 1}, None, None),
        ({"jobs": None}, None, 1),  # without a limit until it is known how many fit, so for one cell only
    ],
)
def test_workers_are_told_their_share(make_study, places, monkeypatch, how, share, most):
    study, plans, popen = make_study(rows={"A": "embedded-no_cot", "B": "embedded-no_cot"}), [], subprocess.Popen

    def started(words, **more):
        plans.append(json.loads(Path(words[3]).read_text()))
        return popen([sys.executable, "-c", 'print(\'{"event": "ready", "room_gb": 1.0}\')'], **more)

    monkeypatch.setattr("ruplar.experiments.run.subprocess.Popen", started)
    run(study, places, device="cuda", **how)
    assert plans and all(found["options"]["share"] == (share and pytest.approx(share)) for found in plans)
    assert plans[0]["options"]["most"] == most


@pytest.mark.slow
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_a_process_is_refused_more_of_the_gpu_than_its_share():
    tenth = torch.cuda.get_device_properties(0).total_memory // 10
    memory.limit("cuda", 0.05)
    try:
        with pytest.raises(torch.cuda.OutOfMemoryError):
            torch.empty(tenth, dtype=torch.uint8, device="cuda")
    finally:
        memory.limit("cuda", 1.0)


# --- what is out of memory ---------------------------------------------------------------------------------------


def raised_from(error, cause):
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (torch.cuda.OutOfMemoryError(FULL), True),
        (raised_from(UserError("the GPU is out of memory."), torch.cuda.OutOfMemoryError(FULL)), True),
        (RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be ..."), True),
        (RuntimeError("Unexpected error from cudaGetDeviceCount(). Error 2: out of memory"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
        (UserError("the GPU is out of memory."), False),  # words alone say nothing of where it came from
        (MemoryError(), False),
    ],
)
def test_errors_of_a_full_gpu_are_known(error, full):
    assert memory.out_of_memory(error) is full


@pytest.mark.parametrize(
    ("share", "said"),
    [(None, FULL), (0.19, f"{FULL} It was limited to 19% of the GPU's memory: use fewer --jobs.")],
)  # fmt: skip
def test_the_reason_names_the_way_out_where_a_share_was_set(make_study, places, monkeypatch, share, said):
    def breaks(*arguments):
        raise torch.cuda.OutOfMemoryError(FULL)

    monkeypatch.setattr("ruplar.experiments.cell.run_cell", breaks)
    study = make_study(rows={"A": "embedded-no_cot"})
    job = job_of(study, places, session="s", share=share)
    work(job, lambda event: None)
    assert storage.failure(job.cells[0], places)["reason"] == f"OutOfMemoryError: {said}"


@pytest.mark.parametrize("error", [torch.cuda.OutOfMemoryError(FULL), ZeroDivisionError("ours")])
def test_only_what_was_out_of_memory_is_kept_for_a_worker_that_is_alone(make_study, places, monkeypatch, error):
    calls, full = [], isinstance(error, torch.cuda.OutOfMemoryError)

    def breaks(cell, *arguments):
        calls.append(cell.label)
        raise error

    monkeypatch.setattr("ruplar.experiments.cell.run_cell", breaks)
    study = make_study(rows={"Mix": "embedded-ruplar", "Short": {"of": "Mix", "set": {"method.max_latents": 1}}})
    job, events = job_of(study, places, session="s"), []
    work(job, events.append)
    assert calls == ["Mix"]
    # Short waits for the second try of Mix, but not for what will not be tried again
    assert told(events, "failed") == [("failed", "Mix-seed1")] + [("failed", "Short-seed1")] * (not full)
    work(job_of(study, places, session="s", exclusive=True), events.append)
    assert calls == ["Mix"] * (2 if full else 1)
    assert [event["again"] for event in events if event["event"] == "start"] == [False, True][: len(calls)]
    assert storage.failure(job.cells[1], places)["reason"] == "it needs the model of 'Mix', which failed."
    work(job_of(study, places, session="s", exclusive=True), events.append)
    assert len(calls) == (2 if full else 1)  # the second failure is the last


# --- the second try ----------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.slow
def test_a_cell_out_of_memory_beside_others_is_done_again_alone_and_then_what_asks_its_model(
    make_study, places, row, tmp_path
):
    study = make_study(rows=beside(row, fails=1))
    found, events = run(study, places, watch=let_calm_continue(tmp_path), jobs=2)
    assert (found.failed, found.left) == ({}, [])
    assert told(events, "again", "done", "failed") == [
        ("again", "Hungry-seed1"), ("done", "Calm-seed1"), ("done", "Hungry-seed1"), ("done", "Short-seed1"),
    ]  # fmt: skip
    began = [(event["cell"], event["again"]) for event in events if event["event"] == "start"]
    assert sorted(began[:2]) == [("Calm-seed1", False), ("Hungry-seed1", False)]
    assert began[2:] == [("Hungry-seed1", True), ("Short-seed1", False)]
    [reason] = [event["reason"] for event in events if event["event"] == "again"]
    assert reason.startswith(ASKED)
    assert "Hungry-seed1: retried exclusively" in (places.work / "Hungry-seed1" / storage.LOG).read_text()
    assert len(list((tmp_path / "marks").glob("hungry-*"))) == 2


@pytest.mark.long
@pytest.mark.slow
def test_a_cell_that_had_the_gpu_for_itself_is_not_tried_again(make_study, places, row, tmp_path):
    rows = {"Hungry": row(fails=1), "Short": {"of": "Hungry", "set": {"method.name_of": "short"}}}
    found, events = run(make_study(rows=rows), places, jobs=2)
    assert set(found.failed) == {"Hungry-seed1", "Short-seed1"} and found.left == []
    assert told(events, "again", "start") == [("start", "Hungry-seed1")]
    assert len(list((tmp_path / "marks").glob("hungry-*"))) == 1
