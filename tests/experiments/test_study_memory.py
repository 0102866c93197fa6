"""A GPU that several cells share: how much each may take of it, and a second run, alone, of what found no room."""

import os
from pathlib import Path

import pytest
import torch
from tiny import job_of, run

from ruplar.errors import UserError
from ruplar.experiments import memory, storage
from ruplar.experiments.run import run_study
from ruplar.experiments.worker import turn

FULL = "CUDA out of memory. Tried to allocate 2.00 GiB."


def told(events, *kinds):
    return [(event["event"], event["cell"]) for event in events if event["event"] in kinds]


@pytest.mark.slow
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_a_process_is_refused_more_of_the_gpu_than_its_share():
    tenth = torch.cuda.get_device_properties(0).total_memory // 10
    memory.limit("cuda", memory.share_of(19, "cuda"))  # 0.95 / 19 is a twentieth
    try:
        with pytest.raises(torch.cuda.OutOfMemoryError):
            torch.empty(tenth, dtype=torch.uint8, device="cuda")
    finally:
        memory.limit("cuda", 1.0)


def raised_from(error, cause):
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (torch.cuda.OutOfMemoryError(FULL), True),
        (raised_from(UserError("the GPU is out of memory."), torch.cuda.OutOfMemoryError(FULL)), True),
        (RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be ..."), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
        (UserError("the GPU is out of memory."), False),  # words alone say nothing of where it came from
    ],
)
def test_errors_of_a_full_gpu_are_known(error, full):
    assert memory.out_of_memory(error) is full


@pytest.mark.parametrize(
    ("error", "jobs", "calls"),
    [
        (torch.cuda.OutOfMemoryError(FULL), 2, 2),
        (torch.cuda.OutOfMemoryError(FULL), 1, 1),
        (ZeroDivisionError("ours"), 2, 1),
    ],
)
def test_only_what_was_out_of_memory_beside_others_is_run_again(make_study, places, monkeypatch, error, jobs, calls):
    called, events = [], []

    def breaks(cell, job):
        called.append(cell.label)
        raise error

    def here(job, watch):
        for cell in job.chosen:
            turn(cell, job, watch)

    monkeypatch.setattr("ruplar.experiments.cell.run_cell", breaks)
    study = make_study(rows={"Short": {"of": "Mix", "set": {"method.max_latents": 1}}, "Mix": "embedded-ruplar"})
    found = run_study(job_of(study, places, jobs=jobs), events.append, here)
    assert called == ["Mix"] * calls
    # Short waits for the second run of Mix
    assert told(events, "failed") == [("failed", "Mix-seed1")] * calls + [("failed", "Short-seed1")]
    assert [event["again"] for event in events if event["event"] == "start"] == [False, True][:calls]
    assert found.failed["Short-seed1"] == "it needs the model of 'Mix', which failed."


@pytest.mark.long
def test_a_cell_out_of_memory_is_run_again_alone_and_then_what_needs_its_model(
    make_study, places, tmp_path, monkeypatch
):
    folder = str(Path(__file__).parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH")))))
    hungry = {"method.name": "plugs.hungry", "method.marks": str(tmp_path / "marks"), "method.fails": 1}
    (tmp_path / "marks").mkdir()
    rows = {"Short": {"of": "Hungry", "set": {"method.fails": 2}}, "Calm": "embedded-no_cot"}
    rows["Hungry"] = {"recipe": "embedded-no_cot", "set": hungry}
    found, events = run(make_study(rows=rows), places, jobs=2)
    assert (found.failed, found.left) == ({}, [])
    [failed] = [event for event in events if event["event"] == "failed"]
    assert failed["cell"] == "Hungry-seed1" and failed["again"]
    assert failed["reason"].startswith("the GPU is out of memory. Halve training.per_device_train_batch_size")
    began = [(event["cell"], event["again"]) for event in events if event["event"] == "start"]
    assert sorted(began[:2]) == [("Calm-seed1", False), ("Hungry-seed1", False)]
    assert began[2:] == [("Hungry-seed1", True), ("Short-seed1", False)]
    assert "Hungry-seed1: run again alone" in (places.work / "Hungry-seed1" / storage.LOG).read_text()
