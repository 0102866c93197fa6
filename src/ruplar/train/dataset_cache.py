"""Data section of a recipe → `TrainingData`, cached in files where loading takes minutes, so that later runs reuse it.

FOLDER/<key>/train.jsonl, train.starts, valid.jsonl, valid.starts     one row per line, and the offset of each
FOLDER/<key>/about.json                                               fingerprints and counts of rows left out

Augmenting and decontaminating chains takes a minute or two, and a study would repeat it for every cell. The key depends on
the section, the content of every file it reads, and the code.
"""

import json
import logging
from pathlib import Path

from ruplar.config import DataSettings
from ruplar.data import scenarios
from ruplar.data.cache import key_of, source_of, write_once
from ruplar.data.locations import locate, parts_of
from ruplar.data.stored import StoredExamples, Writer
from ruplar.domains.base import Domain
from ruplar.fingerprints import fingerprint
from ruplar.io import write_json
from ruplar.train.dataset import TrainingData, load_data

log = logging.getLogger(__name__)


def load_cached(section: DataSettings, domain: Domain, need_steps: bool, folder: Path, dynamic: bool) -> TrainingData:
    """Return the data of a section from the cache folder (see `place_of`); load and store it there if it is missing."""
    place = place_of(section, domain, need_steps, folder, dynamic)
    if place is None:
        return load_data(section, domain, need_steps)
    write_once(place, lambda draft: _write(load_data(section, domain, need_steps), draft))
    return _read(place)


def place_of(section: DataSettings, domain: Domain, need_steps: bool, folder: Path, dynamic: bool) -> Path | None:
    """Return the cache folder of a section, whether it exists or not; None if the section is not cached.

    Not cached are Hub datasets, whose content is unknown before they are read, and what loads quickly: files, and generated
    problems unless a `dynamic` method reads them in every epoch.
    """
    slow = bool(section.decontaminate) or any(one.augment or (dynamic and one.is_generated) for one in section.train)
    files = _files(section) if slow else None
    if files is None:
        return None
    names = {"section": section.model_dump(mode="json"), "need_steps": need_steps, "files": files}
    return folder / key_of(names, source_of(domain))


def _files(section: DataSettings) -> dict[str, str] | None:
    """Return the hash of every file that is read, by the name of its dataset; None if one is not a file."""
    sources = [*section.train, *([section.valid] if section.valid else [])]
    named = [source.source for source in sources if not source.is_generated] + list(section.decontaminate)
    names = {part for one in named for name in scenarios.JOINED.get(one, (one,)) for part in parts_of(name)}
    places = {name: locate(name).path for name in sorted(names)}
    return None if None in places.values() else {name: fingerprint(path) for name, path in places.items() if path}


def _write(data: TrainingData, folder: Path) -> None:
    for name, examples in (("train", data.train), ("valid", data.valid)):
        rows = Writer(folder / f"{name}.jsonl")
        for example in examples:
            rows.append(example)
        rows.done()
    about = {"fingerprints": data.fingerprints, "left_out": data.left_out}
    write_json(folder / "about.json", about)
    log.info("%s: %d chains cached.", folder, len(data.train))


def _read(folder: Path) -> TrainingData:
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    train, valid = (StoredExamples(folder / f"{name}.jsonl") for name in ("train", "valid"))
    return TrainingData(train, valid, about["fingerprints"], about["left_out"])
