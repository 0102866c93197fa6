"""Checkpoints that are complete or not there: written beside, marked, then renamed.

    RUN/.tmp-checkpoint-200-4711/checkpoint-200/…    while it is written; cleared away at the next start
    RUN/checkpoint-200/COMPLETE                      written last: every file's name and size

A folder whose mark is missing or does not agree with its files (a copy cut short, a deletion cut short) is passed over
with a warning that names it.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
from pathlib import Path
from typing import Any

from ruplar.errors import UserError

log = logging.getLogger(__name__)

MARK = "COMPLETE"
_DRAFT = ".tmp-"
_NAME = re.compile(r"checkpoint-(\d+)")


def folder_of(run: Path, step: int) -> Path:
    """Where the checkpoint of a step stands."""
    return run / f"checkpoint-{step}"


def draft_of(run: Path, step: int, pid: int) -> Path:
    """The folder a checkpoint is written in; it holds one folder, under the checkpoint's own name."""
    return run / f"{_DRAFT}{folder_of(run, step).name}-{pid}"


def step_of(checkpoint: Path) -> int:
    """`checkpoint-200` → 200."""
    found = _NAME.fullmatch(checkpoint.name)
    if found is None:
        raise UserError(f"{checkpoint}: is not a checkpoint; those are named checkpoint-STEP.")
    return int(found[1])


def commit(draft: Path, run: Path, step: int) -> Path:
    """Flush a draft to the disk, mark it complete and give it its name.

    Returns:
        The checkpoint's folder.
    """
    written, final = draft / folder_of(run, step).name, folder_of(run, step)
    files = sorted(path for path in written.rglob("*") if path.is_file() and path.name != MARK)
    for path in files:
        _sync(path)
    mark = {"step": step, "files": {str(path.relative_to(written)): path.stat().st_size for path in files}}
    with (written / MARK).open("w", encoding="utf-8") as file:
        json.dump(mark, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    _sync(written)
    if final.exists():  # a broken one, or the same step saved twice
        final.rename(draft / "replaced")
    written.rename(final)
    _sync(run)
    shutil.rmtree(draft)
    return final


def flaw(checkpoint: Path) -> str | None:
    """What is wrong with a checkpoint's folder, None when it is complete."""
    try:
        files = json.loads((checkpoint / MARK).read_text(encoding="utf-8"))["files"]
    except FileNotFoundError:
        return f"it has no {MARK} mark"
    except (ValueError, KeyError, TypeError, OSError):
        return f"its {MARK} mark cannot be read"
    for name, size in files.items():
        path = checkpoint / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != size:
            return f"{name} has {path.stat().st_size:,} bytes, not {size:,}"
    return None


def latest(run: Path) -> Path | None:
    """The newest complete checkpoint of a run; incomplete ones are passed over with a warning."""
    found = [path for path in run.glob("checkpoint-*") if path.is_dir() and _NAME.fullmatch(path.name)]
    for checkpoint in sorted(found, key=step_of, reverse=True):
        wrong = flaw(checkpoint)
        if wrong is None:
            return checkpoint
        log.warning("%s is incomplete (%s); it is not used.", checkpoint, wrong)
    return None


def clear_drafts(run: Path) -> list[Path]:
    """Remove what interrupted saves left behind; returns what was removed."""
    stale = sorted(run.glob(f"{_DRAFT}checkpoint-*"))
    for draft in stale:
        log.info("removing %s, left by a save that was cut short.", draft)
        shutil.rmtree(draft)
    return stale


def trainer_state(checkpoint: Path) -> dict[str, Any]:
    """The trainer's own record in a checkpoint: global_step, max_steps, best_global_step, best_metric, log_history."""
    return json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
