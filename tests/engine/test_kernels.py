"""The Triton kernels agree with PyTorch operators and compile for a GPU; both are tested without one."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")


@pytest.mark.slow
def test_kernels_agree_with_pytorch_operators():
    script = Path(__file__).parent / "kernel_checks.py"
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    found = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=environment)
    assert found.returncode == 0, found.stderr[-2000:]
    assert found.stdout.count("agrees") == 9 and found.stdout.count("step") == 3, found.stdout
    assert found.stdout.count("layer") == 3, found.stdout


@pytest.mark.slow
def test_kernels_compile_for_a_gpu():
    script = Path(__file__).parent / "compile_kernels.py"
    found = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr[-2000:]
    names = {line.split()[1] for line in found.stdout.splitlines()}
    steps = {"project", "gate_up", "decode_attention", "grouped_attention"}
    assert names == steps | {"rotate_and_store", "silu_mul", "candidates", "decide"}
