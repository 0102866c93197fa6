"""Two processes with half a batch each take the steps of one process with the whole, resumed in the middle too."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import torch
from pytest import approx
from safetensors.torch import load_file
from train_in_two import train_tiny

from ruplar.train import METRICS
from ruplar.train.progress import rows

SCRIPT = str(Path(__file__).with_name("train_in_two.py"))
TWO = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]


ABORTED = "terminate called without an active exception"
"""What torch's threads say, once in many runs, when they outlive a process that has done its work."""


def start(*arguments):
    for last in (False, True):
        done = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, timeout=300)
        if done.returncode == 0 or last or ABORTED not in done.stderr:
            break  # after such an end the run is gone on with, and must come to the same weights
    assert done.returncode == 0, done.stdout + done.stderr


def test_two_processes_learn_what_one_does(config, backbone_folder, tmp_path):
    shutil.copytree(backbone_folder, tmp_path / "backbone")
    train_tiny(config, tmp_path / "one", 8, 8)
    start(*TWO, SCRIPT, tmp_path, "two", 4, 5)
    start(*TWO, SCRIPT, tmp_path, "two", 4, 8)  # goes on from step 5, in the middle of a row
    one = load_file(tmp_path / "one" / "model" / "adapter_model.safetensors")
    two = load_file(tmp_path / "two" / "model" / "adapter_model.safetensors")
    assert all(torch.allclose(one[name], two[name], atol=1e-7, rtol=0) for name in one)
    expected, found = rows(tmp_path / "one" / METRICS), rows(tmp_path / "two" / METRICS)
    assert [row["step"] for row in found] == [row["step"] for row in expected] == [3, 6]
    for a, b in zip(expected, found, strict=True):
        for key in ("loss", "answer", "prior", "align", "grad_norm", "halting", "entropy", "label_accuracy"):
            assert a[key] == approx(b[key], rel=1e-5), key
    assert (tmp_path / "two" / "checkpoint-8" / "rng_state_1.pth").is_file()


def test_companions_are_the_same_on_two_processes(config, backbone_folder, tmp_path):
    method = {"name": "codi", "distill_weight": 0.0}  # its spread is of one process
    shutil.copytree(backbone_folder, tmp_path / "backbone")
    train_tiny(config, tmp_path / "one", 8, 8, method)
    start(*TWO, SCRIPT, tmp_path, "two", 4, 8, json.dumps(method))
    for name in ("adapter_model", "method"):
        one, two = (load_file(tmp_path / run / "model" / f"{name}.safetensors") for run in ("one", "two"))
        assert all(torch.allclose(one[weight], two[weight], atol=1e-6, rtol=0) for weight in one)
    expected, found = rows(tmp_path / "one" / METRICS), rows(tmp_path / "two" / METRICS)
    assert [row["loss"] for row in found] == approx([row["loss"] for row in expected], rel=1e-5)
