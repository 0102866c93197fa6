"""Checkpoints that are complete or absent: written to a temporary folder, marked, then renamed.

    RUN/.tmp-checkpoint-200-4711/checkpoint-200/…    while it is written; removed at the next start if left behind
    RUN/checkpoint-200/COMPLETE                      written last: name and size of every file

A folder whose mark is missing or does not match its files (an interrupted copy or deletion) is skipped with a warning.
"""

import json
import logging
import re
import shutil
from pathlib import Path

from ruplar.errors import UserError
from ruplar.io import publish_folder, write_json

log = logging.getLogger(__name__)

MARK = "COMPLETE"
_DRAFT = ".tmp-"
_NAME = re.compile(r"checkpoint-(\d+)")


def folder_of(run: Path, step: int) -> Path:
    return run / f"checkpoint-{step}"


def draft_of(run: Path, step: int, pid: int) -> Path:
    """Return the temporary folder of a checkpoint; inside is one folder with the checkpoint's final name."""
    return run / f"{_DRAFT}{folder_of(run, step).name}-{pid}"


def step_of(checkpoint: Path) -> int:
    """`checkpoint-200` → 200."""
    found = _NAME.fullmatch(checkpoint.name)
    if found is None:
        raise UserError(f"{checkpoint}: is not a checkpoint; checkpoints are named checkpoint-STEP.")
    return int(found[1])


def commit(draft: Path, run: Path, step: int) -> Path:
    written, final = draft / folder_of(run, step).name, folder_of(run, step)
    write_json(written / MARK, {"step": step, "files": _sizes(written)})
    publish_folder(written, final, replace=True, sync=True)  # an incomplete folder, or the same step saved twice
    shutil.rmtree(draft)
    return final


def flaw(checkpoint: Path) -> str | None:
    """Return what is wrong with a checkpoint's folder; None if it is complete."""
    try:
        files = json.loads((checkpoint / MARK).read_text(encoding="utf-8"))["files"]
    except FileNotFoundError:
        return f"it has no {MARK} mark"
    except (ValueError, KeyError, TypeError, OSError):
        return f"its {MARK} mark cannot be read"
    there = _sizes(checkpoint)
    return next((f"{name} is missing or cut off" for name, size in files.items() if there.get(name) != size), None)


def _sizes(folder: Path) -> dict[str, int]:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MARK)
    return {str(path.relative_to(folder)): path.stat().st_size for path in files}


def latest(run: Path) -> Path | None:
    """Return the newest complete checkpoint of a run; skip incomplete ones with a warning."""
    found = [path for path in run.glob("checkpoint-*") if path.is_dir() and _NAME.fullmatch(path.name)]
    for checkpoint in sorted(found, key=step_of, reverse=True):
        wrong = flaw(checkpoint)
        if wrong is None:
            return checkpoint
        log.warning("%s is incomplete (%s); skipping it.", checkpoint, wrong)
    return None


def clear_drafts(run: Path) -> None:
    for draft in sorted(run.glob(f"{_DRAFT}checkpoint-*")):
        log.info("removing %s, left by an interrupted save.", draft)
        shutil.rmtree(draft)
