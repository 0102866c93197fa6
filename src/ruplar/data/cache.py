"""Results that take minutes to compute → cache folders that later runs reuse.

The name of a folder is a hash of everything its content depends on. A folder appears only when it is complete.
"""

import fcntl
import hashlib
import inspect
import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ruplar.errors import UserError
from ruplar.fingerprints import fingerprint
from ruplar.io import atomic_folder

ENCODED = ".encoded"
"""Name of the cache folder, beside the runs that share it."""
NOT_IN_KEY = ("evaluate", "display", "report", "serve", "bench", "runs", "experiments", "cluster", "demo", "cli")
"""Parts of the package that training never imports: changing their code does not invalidate a cache."""
_SIZES = "sizes.json"


def key_of(names: Mapping[str, Any], *texts: str) -> str:
    """Plain data and texts → a name that changes with any of them."""
    found = hashlib.sha256(json.dumps(names, sort_keys=True).encode())
    for text in texts:
        found.update(hashlib.sha256(text.encode()).digest())
    return found.hexdigest()[:24]


def source_of(*plugins: Any) -> str:
    """Return a hash of the code that produces cached data: the package without `NOT_IN_KEY`, and these plug-ins' files."""
    outside = sorted({str(inspect.getsourcefile(type(one))) for one in plugins})
    return "".join([package_source(Path(__file__).parents[1]), *(fingerprint(file) for file in outside)])


@cache
def package_source(root: Path) -> str:
    """Return a hash of the package in this folder, without `NOT_IN_KEY`; computed once per process."""
    # the generators' texts, the tables of augmentation and the known sets are data files
    found = [*root.rglob("*.py"), *root.glob("problems/**/*.yaml"), *root.glob("data/**/*.yaml")]
    files = (file.relative_to(root) for file in sorted(found))
    return "".join(fingerprint(root / file) for file in files if file.with_suffix("").parts[0] not in NOT_IN_KEY)


def is_complete(folder: Path) -> bool:
    """Return whether the folder exists; its files must have the sizes they were written with."""
    if not folder.is_dir():
        return False
    try:
        sizes = json.loads((folder / _SIZES).read_text(encoding="utf-8"))
        wrong = [name for name, size in sizes.items() if (folder / name).stat().st_size != size]
    except (FileNotFoundError, NotADirectoryError, ValueError, AttributeError) as error:
        wrong = [getattr(error, "filename", None) or _SIZES]
    if wrong:
        raise UserError(
            f"{folder}: {Path(wrong[0]).name} is missing or has the wrong size, so the folder is damaged. "
            "Remove the folder; the next run creates it again."
        )
    return True


def write_once(folder: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a cache folder unless it is complete; of several processes one does it and the others wait."""
    if is_complete(folder):
        return  # nothing is written, not even a lock: the folder may be read-only
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with folder.with_name(f".{folder.name}.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # the kernel releases it when the process dies
            if is_complete(folder):
                return
            with atomic_folder(folder) as draft:
                write(draft)
                sizes = {str(one.relative_to(draft)): one.stat().st_size for one in draft.rglob("*") if one.is_file()}
                (draft / _SIZES).write_text(json.dumps(sizes, indent=1, sort_keys=True), encoding="utf-8")
    except OSError as error:
        place = Path(str(error.filename or folder))
        if not (place.is_relative_to(folder.parent) or folder.parent.is_relative_to(place)):
            raise  # of a file that `write` reads
        raise UserError(
            f"{folder.parent}: cannot be written ({error.strerror or error}). Choose another --output (or --work), "
            "or set speed.pretokenize: false, which caches nothing."
        ) from error
