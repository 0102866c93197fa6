"""Trains one recipe to its end twice: once undisturbed, once killed again and again. Run by test_resume_after_kill.py.

    python train_and_die.py FOLDER KILLS SEED

Everything heavy is imported once; each attempt is a fork, so a kill costs no start-up time. The parent itself computes
nothing, because threads do not survive a fork.
"""

import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import torch
from tiny_runs import make_config, write_backbone

import ruplar.model.store  # noqa: F401  (imported before forking)
from ruplar import io
from ruplar.train.run import train


def attempt(folder: Path, resume: bool, die_after_syncs: int | None) -> None:
    """One training process; `die_after_syncs`: it kills itself when it flushes its n-th file while saving."""
    torch.set_num_threads(1)
    real, left = io._sync, die_after_syncs

    def sync(path):
        nonlocal left
        if left is not None:
            left -= 1
            if left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)
        real(path)

    io._sync = sync
    config = make_config(
        folder / "backbone", prior="gumbel", valid=True, rows=20, max_steps=12, logging_steps=5,
        per_device_train_batch_size=2, gradient_accumulation_steps=2, eval_strategy="steps", eval_steps=6,
        save_strategy="steps", save_steps=2, load_best_model_at_end=False,
    )  # fmt: skip
    train(config, output=folder / ("killed" if resume else "whole"), resume=resume)


def fork(run, *arguments) -> int:
    """The child's process id."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            run(*arguments)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return pid


def wait(pid: int, seconds: float | None = None) -> int | None:
    """Its exit status; it is killed once `seconds` are over."""
    end = time.monotonic() + (seconds if seconds is not None else 600)
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return -signal.SIGKILL
        time.sleep(0.01)


def main(folder: Path, kills: int, seed: int) -> None:
    """See the module's docstring."""
    draw = random.Random(seed)
    (folder / "backbone").mkdir(parents=True)
    assert wait(fork(write_backbone, folder / "backbone")) == 0
    began = time.monotonic()
    assert wait(fork(attempt, folder, False, None)) == 0
    whole = time.monotonic() - began
    killed = 0
    for turn in range(kills):
        # by turns: in the middle of a save, and at any moment
        dies = draw.randint(1, 25) if turn % 2 == 0 else None
        status = wait(fork(attempt, folder, True, dies), None if dies else draw.uniform(0.1, 0.6) * whole)
        if status == 0:
            break
        assert status == -signal.SIGKILL, f"attempt {turn} failed by itself"
        killed += 1
        left = sorted(path.name for path in (folder / "killed").glob("*checkpoint*"))
        print(f"attempt {turn}: killed, left {left}")  # noqa: T201
    assert wait(fork(attempt, folder, True, None)) == 0
    print(f"killed {killed} times")  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
