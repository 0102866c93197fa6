"""Models of one recipe and one start → a model soup: the mean of their weights, often better than each of them.

Runs that start from the same weights and differ only in their seed end in the same basin, and its centre often generalises
better (Wortsman et al. 2022). Runs from different starts do not: their soup is worse than either. Both factors of an adapter
are averaged separately, which is valid because they continue the same start. `average.json` lists the averaged models.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ruplar.errors import UserError
from ruplar.fingerprints import fingerprint
from ruplar.io import MODEL, RECORD, START, TRAINED, atomic_folder, write_json
from ruplar.model.store import METADATA_FILE, check_replaceable, find_model, read_metadata

AVERAGE = "average.json"
"""Describes a soup: name, seed and weight hashes of each model, and the hash of their start weights where known."""
_NOT_COPIED = ("README.md", "ci-answers.json", AVERAGE)
"""Files that describe one model's weights and are not valid for the soup."""


def average(references: Sequence[str | Path], folder: Path) -> Path:
    """Write the soup of several models atomically; refuse models that differ in more than their weights."""
    folders = [find_model(reference) for reference in references]
    if len(folders) < 2:
        raise UserError("a model soup needs at least two models.")
    if len({one.resolve() for one in folders}) < len(folders):
        raise UserError("the same model is given twice; it would count twice in the average.")
    _check_same_kind(folders)
    check_replaceable(folder)
    with atomic_folder(folder, replace=True) as draft:
        for file in sorted(folders[0].iterdir()):
            if file.suffix == ".safetensors":
                _average_file([one / file.name for one in folders], draft / file.name)
            elif file.is_file() and file.name not in _NOT_COPIED:
                shutil.copyfile(file, draft / file.name)
        write_json(draft / AVERAGE, {"models": [_describe(one) for one in folders], "start": _start(folders[0])})
    return Path(folder)


def seeds_of(model: Path) -> list[int]:
    """Return the seeds of the runs in a soup; [] for a single run, or where they are not known."""
    file = model / AVERAGE
    seeds = [one.get("seed") for one in _read(file).get("models", [])] if file.is_file() else []
    return [] if None in seeds else seeds


def _check_same_kind(folders: Sequence[Path]) -> None:
    first, *others = folders
    for other in others:
        known, found = (read_metadata(one).model_dump(mode="json", exclude={"ruplar"}) for one in (first, other))
        differing = [key for key in known if known[key] != found[key]]
        if differing:
            raise UserError(
                f"{other / METADATA_FILE}: its {differing[0]} differs from that of {first / METADATA_FILE}. Averaged models "
                "may differ only in their weights."
            )
        marks = [_start(one) for one in (first, other)]
        if None not in marks and marks[0] != marks[1]:
            raise UserError(
                f"{other}: started from other weights than {first}, according to their run folders. Their soup "
                "is worse than either; average runs that differ only in their seed."
            )
        names = [sorted(file.name for file in one.glob("*.safetensors")) for one in (first, other)]
        if names[0] != names[1] or not names[0]:
            raise UserError(f"{other}: has the weight files {names[1]}, but {first} has {names[0]}.")


def _describe(model: Path) -> dict[str, Any]:
    """Return the entry of a model in `average.json`: the name of its run, its seed, and its weight hashes."""
    place = model.resolve()
    weights = {file.name: fingerprint(file) for file in sorted(model.glob("*.safetensors"))}
    name = place.parent.name if place.name == MODEL else place.name
    record = _record(model)
    # the record of a soup has the seed of its first model
    seed = None if record.get("mean_of") else record.get("seed")
    return {"name": name, "seed": seed, "sha256": weights}


def _start(model: Path) -> str | None:
    """Return the hash of a run's start weights, or None if its folder does not say."""
    file = model.parent / START
    if file.is_file():
        return next(iter(_read(file).values()), None)
    marks = _record(model).get("data", {})
    return next((mark for source, mark in marks.items() if source.startswith("start: ")), None)


def _record(model: Path) -> Mapping[str, Any]:
    """Return the record of the run folder that contains a model; {} without one."""
    place = model.resolve()
    found = [place.parent / name for name in (RECORD, TRAINED)] if place.name == MODEL else []
    return next((_read(file) for file in found if file.is_file()), {})


def _read(file: Path) -> Mapping[str, Any]:
    try:
        read: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{file}: is not JSON ({error}). Remove it, or download its folder again.") from error
    return read


def _average_file(files: Sequence[Path], to: Path) -> None:
    from safetensors.torch import load_file, save_file

    first = load_file(files[0])
    total = {name: weight.float().clone() for name, weight in first.items()}  # float() of float32 is the weight itself
    for file in files[1:]:
        weights = load_file(file)
        wrong = sorted({*total} ^ {*weights}) or [n for n in total if total[n].shape != weights[n].shape]
        if wrong:
            raise UserError(f"{file}: the weight {wrong[0]} is missing, or has another shape than in {files[0]}.")
        for name in total:
            total[name] += weights[name].float()
    mean = {name: (weight / len(files)).to(first[name].dtype).contiguous() for name, weight in total.items()}
    save_file(mean, to, metadata={"format": "pt"})
