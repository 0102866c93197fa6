"""Models of one recipe and one start → the model of their mean weights: better than each of them, at the cost of one.

Trainings that begin at the same weights and differ in their seed end in one valley, and the middle of it is often the better
place (model soups, Wortsman et al. 2022). Trainings from different starts do not: their mean is worth less than either.
Of an adapter both factors are averaged, each by itself: it went on from the same ones. `average.json` beside the weights says
which models they are the mean of.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ruplar.errors import UserError
from ruplar.fingerprints import fingerprint
from ruplar.model.store import METADATA_FILE, find_model, read_metadata, whole_folder

START = "start.json"
"""What a run's folder says of the weights it began at; see `train.run`."""
AVERAGE = "average.json"
"""What a mean is of: each model's name and seed and the hash of each file of its weights, and the hash of those they began at, where it is known."""
_RECORDS = ("run.json", "trained.json")
"""What a run's folder says of its training: `ruplar train` writes the first, `ruplar study` the second."""
_OF_ONE = ("README.md", "ci-answers.json", AVERAGE)
"""Files that say something of one model's weights, which is not true of the mean."""


def average(references: Sequence[str | Path], folder: Path, dtype: Any = None) -> Path:
    """Write the mean of several models, whole or not at all.

    Args:
        references: At least two; see `store.find_model`.
        folder: Where it goes; not there yet.
        dtype: Precision of the written weights; None: as the first model has them.

    Raises:
        UserError: They differ in anything but their weights, or are known to have begun at different ones.
    """
    folders = [find_model(reference) for reference in references]
    if len(folders) < 2:
        raise UserError("an average needs at least two models.")
    if len({one.resolve() for one in folders}) < len(folders):
        raise UserError("the same model is named twice; its weight in the average would be doubled.")
    _check_alike(folders)
    with whole_folder(folder) as draft:
        for file in sorted(folders[0].iterdir()):
            if file.suffix == ".safetensors":
                _average_file([one / file.name for one in folders], draft / file.name, dtype)
            elif file.is_file() and file.name not in _OF_ONE:
                shutil.copyfile(file, draft / file.name)
        known = {"models": [_told(one) for one in folders], "start": _start(folders[0])}
        (draft / AVERAGE).write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")
    return Path(folder)


def seeds_of(model: Path) -> list[int]:
    """Seeds of the trainings a saved model is the mean of; none where it is one training's, or they are not known."""
    file = model / AVERAGE
    seeds = [one.get("seed") for one in _read(file).get("models", [])] if file.is_file() else []
    return [] if None in seeds else seeds


def _check_alike(folders: Sequence[Path]) -> None:
    first, *others = folders
    for other in others:
        known, found = (read_metadata(one).model_dump(mode="json", exclude={"ruplar"}) for one in (first, other))
        differing = [key for key in known if known[key] != found[key]]
        if differing:
            raise UserError(
                f"{other / METADATA_FILE}: its {differing[0]} is not that of {first / METADATA_FILE}. Models that are averaged differ in their "
                "weights alone."
            )
        marks = [_start(one) for one in (first, other)]
        if None not in marks and marks[0] != marks[1]:
            raise UserError(
                f"{other}: began at other weights than {first}, as their runs' folders say. The mean of such models is worth "
                "less than either; average trainings that differ in their seed alone."
            )
        names = [sorted(file.name for file in one.glob("*.safetensors")) for one in (first, other)]
        if names[0] != names[1] or not names[0]:
            raise UserError(f"{other}: holds the weights {names[1]}, {first} holds {names[0]}.")


def _told(model: Path) -> dict[str, Any]:
    """A model as `average.json` names it: by its run's folder, where it lies in one, and by its weights."""
    place = model.resolve()
    weights = {file.name: fingerprint(file) for file in sorted(model.glob("*.safetensors"))}
    name = place.parent.name if place.name == "model" else place.name
    record = _record(model)
    seed = None if record.get("mean_of") else record.get("seed")  # a mean's record has the seed of the first of them
    return {"name": name, "seed": seed, "sha256": weights}


def _start(model: Path) -> str | None:
    """The hash of the weights a run began at, where its folder says so."""
    file = model.parent / START
    if file.is_file():
        return next(iter(_read(file).values()), None)
    marks = _record(model).get("data", {})
    return next((mark for source, mark in marks.items() if source.startswith("start: ")), None)


def _record(model: Path) -> Mapping[str, Any]:
    """What the run's folder that a model lies in says of its training; nothing where there is none."""
    place = model.resolve()
    found = [place.parent / name for name in _RECORDS] if place.name == "model" else []
    return next((_read(file) for file in found if file.is_file()), {})


def _read(file: Path) -> Mapping[str, Any]:
    try:
        read: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(
            f"{file}: is not JSON ({error}). Take it away, or fetch the folder it lies in anew."
        ) from error
    return read


def _average_file(files: Sequence[Path], to: Path, dtype: Any) -> None:
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
    mean = {name: (weight / len(files)).to(dtype or first[name].dtype).contiguous() for name, weight in total.items()}
    save_file(mean, to, metadata={"format": "pt"})
