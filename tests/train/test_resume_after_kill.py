"""kill -9 at random moments, in the middle of saving too: the resumed run ends exactly where the undisturbed one does."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from ruplar.train import METRICS
from ruplar.train.progress import rows

TIMING = {"tokens_per_second", "memory_gb"}


def curve(run: Path):
    return [{k: v for k, v in row.items() if k not in TIMING} for row in rows(run / METRICS)]


@pytest.mark.slow
def test_a_run_killed_many_times_ends_with_the_weights_and_the_curve_of_an_undisturbed_one(tmp_path, started):
    script = Path(__file__).with_name("train_and_die.py")
    run = started(sys.executable, script, tmp_path / "runs", 5, 1, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = run.communicate(timeout=1800)[0]
    assert run.returncode == 0, said
    killed = int(said.split("killed ")[-1].split()[0])
    assert killed >= 2, said
    whole, again = tmp_path / "runs" / "whole", tmp_path / "runs" / "killed"
    expected = load_file(whole / "model" / "adapter_model.safetensors")
    found = load_file(again / "model" / "adapter_model.safetensors")
    assert expected.keys() == found.keys()
    assert all(torch.equal(expected[name], found[name]) for name in expected)
    assert curve(again) == curve(whole)
    steps = [(row["kind"], row["step"]) for row in curve(again)]
    assert len(steps) == len(set(steps))
    # 12 steps: a row every 5, a validation every 6
    assert steps == [("train", 5), ("valid", 6), ("train", 10), ("valid", 12)]
    assert not list(again.glob(".tmp*"))
