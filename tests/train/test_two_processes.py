"""Two processes with half a batch each take the steps of one process with the whole: DDP and FSDP2, resumed and killed too."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pytest import approx
from safetensors.torch import load_file
from train_in_two import train_tiny

from ruplar import plugins
from ruplar.errors import UserError
from ruplar.fingerprints import fingerprint
from ruplar.train import METRICS, progress

SCRIPT = str(Path(__file__).with_name("train_in_two.py"))
TWO = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
EXAMPLES = Path(__file__).parents[2] / "examples" / "accelerate"
ACCELERATE = ["-m", "accelerate.commands.launch", "--config_file", EXAMPLES / "8-gpus.yaml", "--num_processes", "2"]
APART = {"kind", "same_top", "tokens_per_second", "memory_gb"}
"""Not compared as numbers: the kind, what is counted within one batch, and timing."""
ABORTED = "terminate called without an active exception"
"""What torch's threads say, once in many runs, when they outlive a process that has done its work."""


def start(*arguments):
    for last in (False, True):
        done = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, timeout=300)
        if done.returncode == 0 or last or ABORTED not in done.stderr:
            break  # after such an end the run is gone on with, and must come to the same weights
    assert done.returncode == 0, done.stdout + done.stderr


def weights(run: Path):
    files = sorted((run / "model").glob("*.safetensors"))
    assert files
    return {f"{file.name} {name}": value for file in files for name, value in load_file(file).items()}


def assert_same_weights(one: Path, two: Path, atol=2e-7):
    expected, found = weights(one), weights(two)
    assert expected.keys() == found.keys()
    assert max(float((expected[name] - found[name]).abs().max()) for name in expected) <= atol


def assert_same_curve(one: Path, two: Path):
    expected, found = progress.rows(one / METRICS), progress.rows(two / METRICS)
    assert [(row["kind"], row["step"]) for row in found] == [(row["kind"], row["step"]) for row in expected]
    for a, b in zip(expected, found, strict=True):
        one, two = ({k: v for k, v in row.items() if k not in APART} for row in (a, b))
        assert two == approx(one, rel=1e-5)


def compare(config, backbone_folder, folder, sharded, cases, more=()):
    """Train the cases on one process, and on two with half the rows each; they must come to the same weights and curves."""
    shutil.copytree(backbone_folder, folder / "backbone")
    pair = [{**case, "run": f"two-{case['run']}", "rows": 4} for case in cases]
    start(*TWO, SCRIPT, folder, *(json.dumps({**case, "fsdp": sharded}) for case in [*pair, *more]))
    for case in cases:
        train_tiny(config, folder, **case, rows=8)
        assert_same_weights(folder / case["run"], folder / f"two-{case['run']}", 2e-6 if "optim" in case else 2e-7)
        assert_same_curve(folder / case["run"], folder / f"two-{case['run']}")


both = pytest.mark.parametrize(
    "sharded", [pytest.param(False, id="ddp"), pytest.param(True, id="fsdp2", marks=pytest.mark.long)]
)


@both
def test_two_processes_learn_what_one_does(config, backbone_folder, tmp_path, sharded):
    validated = {"valid": True, "eval_strategy": "steps", "eval_steps": 5, "load_best_model_at_end": True}
    full = {"lora": None, "optim": "adamw_torch", "learning_rate": 1e-3, "gradient_checkpointing": True}
    # the same batch of 8 in twice 2 rows on 2 processes; Adam's moments are loaded at step 5, in the middle of a log row
    halves = {"run": "halves", "rows": 2, "gradient_accumulation_steps": 2, **full}
    cases = [{"run": "validated", **validated}, {"run": "full", "steps": 8, **full}]
    compare(config, backbone_folder, tmp_path, sharded, cases, [{**halves, "steps": 5}, {**halves, "steps": 8}])
    assert_same_weights(tmp_path / "full", tmp_path / "halves", 2e-6)
    assert_same_curve(tmp_path / "full", tmp_path / "halves")
    saved = tmp_path / "two-validated" / "checkpoint-20"
    assert (saved / "rng_state_1.pth").is_file()
    assert (saved / "optimizer_0" / "__1_0.distcp").is_file() == sharded, "the second process saves its own share"
    assert not list(saved.glob("pytorch_model*")), "the frozen weights are not saved"
    if sharded:  # its optimizer state cannot be loaded by a run that is not sharded
        with pytest.raises(UserError, match="saved with FSDP"):
            train_tiny(config, tmp_path, "two-validated", 8, 25, **validated)


@pytest.mark.long
@both
def test_every_method_learns_on_two_processes_what_it_does_on_one(config, backbone_folder, tmp_path, sharded):
    names = sorted(set(plugins.names("methods")) - {"codi"})
    methods = [*names, {"name": "codi", "distill_weight": 0.0}]  # the spread of its targets is of one process
    cases = [{"run": f"method-{n}", "steps": 8, "method": method} for n, method in enumerate(methods)]
    compare(config, backbone_folder, tmp_path, sharded, cases)


def recipe(folder: Path, chains: str = "") -> str:
    """A recipe file over `chains.jsonl`, long enough to be killed in the middle."""
    rows = [{"question": f"{n} bags of 4?", "steps": [f"{n}*4={4 * n}"], "answer": str(4 * n)} for n in range(2, 90)]
    (folder / "chains.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = f"""
        name: tiny
        backbone: {{name: {folder}/backbone, dtype: float32, lora: {{rank: 4, alpha: 8, dropout: 0.0}}}}
        prompt: {{template: plain, instruction: ""}}
        data: {{train: {chains or folder / "chains.jsonl"}}}
        training: {{per_device_train_batch_size: 4, max_steps: 60, save_strategy: steps, save_steps: 2, logging_steps: 4}}
        method: {{name: ruplar}}
        speed: {{pretokenize: true}}
    """
    (folder / "tiny.yaml").write_text(text)
    return str(folder / "tiny.yaml")


def children(pid: int) -> list[int]:
    """The training processes under a launcher, first rank first."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            environment = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
            found += [(rank, int(child)) for rank in environment if rank.startswith(b"RANK=")]
    return [child for _, child in sorted(found)]


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds the processes in /proc")
def test_a_killed_process_stops_the_launch_with_the_cause_and_the_run_resumes_to_the_same_weights(
    backbone_folder, tmp_path, started
):
    shutil.copytree(backbone_folder, tmp_path / "backbone")
    command = [*ACCELERATE, "-m", "ruplar", "train", recipe(tmp_path), "--device", "cpu", "--output"]
    start(*command, tmp_path / "whole")
    run = tmp_path / "killed"
    launch = started(sys.executable, *command, run, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    end = time.monotonic() + 200
    while not list(run.glob("checkpoint-*/COMPLETE")) and launch.poll() is None and time.monotonic() < end:
        time.sleep(0.02)
    ranks = children(launch.pid)
    os.kill(ranks[1], signal.SIGKILL)
    _, said = launch.communicate(timeout=120)
    assert launch.returncode != 0
    assert "Signal 9 (SIGKILL)" in said and "rank      : 1" in said
    assert not any(Path(f"/proc/{rank}").exists() for rank in ranks), "the other process is stopped too"
    assert not (run / "model").exists()
    start(*command, run, "--resume")
    assert_same_weights(tmp_path / "whole", run, 0.0)


def test_the_example_for_two_nodes_starts_16_sharded_processes():
    from accelerate.commands.config.config_args import load_config_from_file

    config = load_config_from_file(str(EXAMPLES / "2-nodes.yaml"))
    assert (config.num_machines, config.num_processes, config.distributed_type) == (2, 16, "FSDP")
    assert config.fsdp_config == load_config_from_file(str(EXAMPLES / "8-gpus.yaml")).fsdp_config


@pytest.mark.long
def test_processes_with_different_data_are_refused_by_name(backbone_folder, tmp_path):
    shutil.copytree(backbone_folder, tmp_path / "backbone")
    file = recipe(tmp_path, chains="chains.jsonl")  # each node reads its own copy
    for rank, line in enumerate((tmp_path / "chains.jsonl").read_text().splitlines()[:2]):
        (tmp_path / str(rank)).mkdir()
        (tmp_path / str(rank) / "chains.jsonl").write_text(line + "\n")
    script = tmp_path / "node.py"
    script.write_text(
        "import os, sys\nfrom ruplar.train.run import train\n"
        f"os.chdir(os.path.join({str(tmp_path)!r}, os.environ['RANK']))\ntrain({file!r}, output={str(tmp_path / 'run')!r})\n"
    )
    done = subprocess.run([sys.executable, *TWO, str(script)], capture_output=True, text=True, timeout=300)
    assert done.returncode != 0 and not list(tmp_path.glob("run/checkpoint-*"))
    first, second = (fingerprint(tmp_path / str(rank) / "chains.jsonl") for rank in range(2))
    said = rf"train 1: chains.jsonl: process 1 on \S+ has {second}, process 0 on \S+ has {first}"
    assert re.search(said, done.stderr), done.stderr
