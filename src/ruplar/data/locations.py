"""Name, path or Hub address → where the rows are.

- `gsm8k-aug-valid`: a known set; its file in one of the data folders, or its Hub set when no folder has the file
- `gsm8k-dev`: a known set without a file, selected from the rows of another one each time it is read
- `chains/train.jsonl`: a path
- `hub:whynlp/gsm8k-aug`: a Hub set, its train split; `hub:openai/gsm8k/main:test` names config and split
- `whynlp/gsm8k-aug:test`: the same without the prefix, if no such path exists

The data folders, in order: the one given (`--data-dir`), `$RUPLAR_DATA`, `data` in the working directory, and `data` in the
cache folder, which `ruplar data fetch` fills.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml

from ruplar.cache import data_folder
from ruplar.data.formats import BROKEN, FORMATS, BadRow, Parts, detect
from ruplar.data.rows import SUFFIXES, Row, check_package, file_rows, hub_rows
from ruplar.errors import UserError, unknown
from ruplar.fingerprints import digest, fingerprint_answers
from ruplar.types import Example

_HUB = re.compile(r"(?P<name>[\w.-]+/[\w.-]+)(?:/(?P<config>[\w.-]+))?(?::(?P<split>[\w.+\[\]%:-]+))?")

Role = Literal["test", "selection"]


@dataclass(frozen=True, slots=True)
class KnownSet:
    """A set known by name; the fields are described in `known_sets.yaml`."""

    file: str = ""
    hub: str = ""
    url: str = ""
    rows: int = 0
    fingerprint: str = ""
    sha256: str = ""
    domain: str = "arithmetic"
    test: bool = False
    selection: bool = False
    picked: Sequence[int] = ()
    of: str = ""
    without: str = ""

    @property
    def role(self) -> Role | None:
        """What it is for; None if it may be trained on."""
        return "test" if self.test else "selection" if self.selection else None


KNOWN_SETS: dict[str, KnownSet] = {
    name: KnownSet(**entry)
    for name, entry in yaml.safe_load(Path(__file__).with_name("known_sets.yaml").read_text(encoding="utf-8")).items()
}
"""Name → set."""
VALID = "valid"
"""The selection set of a run: its recipe's `data.valid`."""


def role_of(source: str) -> Role | None:
    """Return what a set is for, by its name, the name of its file or its Hub address; None if it may be trained on.

    Of a Hub dataset that holds a test or selection set, only splits that are a known training set may be trained on.
    """
    for name, known in KNOWN_SETS.items():
        if source == name or (known.file and known.file == Path(source).name):
            return known.role
    known_splits = {split: known.role for known in KNOWN_SETS.values() if known.hub for split in _splits(known.hub)}
    evaluated = {split[:2] for split, role in known_splits.items() if role}
    roles = {known_splits.get(split, "test" if split[:2] in evaluated else None) for split in _splits(source)}
    return "test" if "test" in roles else "selection" if "selection" in roles else None


def _splits(address: str) -> list[tuple[str, ...]]:
    """Hub address → owner, name, config if any, and split, of each split that it reads all or part of."""
    path, _, split = address.removeprefix("hub:").casefold().partition(":")
    return [(*path.split("/"), one.partition("[")[0]) for one in (split or "train").split("+")]


def known_as(examples: Sequence[Example]) -> list[str]:
    """Return the names of the known sets that have exactly these questions and answers; [] for any other content."""
    if len(examples) not in {known.rows for known in KNOWN_SETS.values() if known.fingerprint}:
        return []
    content = fingerprint_answers(examples)
    return [name for name, known in KNOWN_SETS.items() if (known.rows, known.fingerprint) == content]


def parts_of(name: str) -> tuple[str, ...]:
    """Return the names of the known sets that a set is selected from; any other source is its own only part."""
    known = KNOWN_SETS.get(name, KnownSet())
    return (known.of, known.without) if known.of else (name,)


@dataclass(frozen=True, slots=True)
class Location:
    """Where rows are: a file, a Hub address, or two locations that a known set is selected from."""

    path: Path | None = None
    hub: str = ""
    hint: str = ""
    selected: str = ""
    parts: tuple[Location, ...] = ()

    @property
    def name(self) -> str:
        """The path, the Hub address or the name of the selected set, for messages and records."""
        if self.selected:
            return self.selected
        return str(self.path) if self.path is not None else f"hub:{self.hub}"

    def check_packages(self) -> None:
        """Raise `UserError` if the rows need an optional package that is not installed; reads nothing."""
        for part in self.parts:
            part.check_packages()
        if self.hub:
            check_package("datasets", f"Reading '{self.hub}' from the Hugging Face Hub", self.hint)
        elif self.path is not None and self.path.suffix == ".parquet":
            check_package("pyarrow", f"Reading {self.path.name}")

    def rows(self) -> Iterator[Row]:
        """Yield all rows in order."""
        if self.selected:
            return _selected_rows(self.selected, *self.parts)
        if self.path is not None:
            return file_rows(self.path)
        address = _HUB.fullmatch(self.hub)
        if address is None:
            raise UserError(f"'{self.hub}' is not a Hub address. Write hub:owner/name or hub:owner/name/config:split.")
        return hub_rows(address["name"], address["config"], address["split"] or "train", self.hint)


def data_folders(data_dir: str | Path | None = None) -> list[Path]:
    """Return the folders where the files of known sets are looked for, in order."""
    folders = []
    for name, value in (("data_dir", data_dir), ("RUPLAR_DATA", os.environ.get("RUPLAR_DATA"))):
        if not value:
            continue
        folder = Path(value).expanduser()
        if not folder.is_dir():
            raise UserError(f"{name}: '{value}' is not a folder. Use the folder that has the files of known sets.")
        folders.append(folder)
    return [*folders, Path("data"), data_folder()]


def locate(source: str | Path, data_dir: str | Path | None = None) -> Location:
    """Path, known name or Hub address → location. An existing path takes precedence over a name."""
    text = str(source)
    if text.startswith("hub:"):
        return Location(hub=text.removeprefix("hub:"))
    if os.path.isfile(text):  # False for a name too long for a path, where Path.is_file raises
        return Location(path=Path(text))
    if text in KNOWN_SETS:
        return _locate_known(text, data_folders(data_dir))
    if os.path.isdir(text):
        raise UserError(f"{text}: is a folder. Pass one file in it.")
    if isinstance(source, Path) or Path(text).suffix in SUFFIXES or text.startswith((".", "/", "~")):
        raise UserError(f"{text}: no such file. A Hub set is written hub:owner/name.")
    if _HUB.fullmatch(text):
        return Location(hub=text)
    raise UserError(f"{unknown('dataset', text, KNOWN_SETS)} Or give the path of a file, or hub:owner/name.")


def _locate_known(name: str, folders: Sequence[Path]) -> Location:
    known = KNOWN_SETS[name]
    if known.of:
        return Location(selected=name, parts=tuple(_locate_known(part, folders) for part in parts_of(name)))
    for folder in folders:
        if (folder / known.file).is_file():
            return Location(path=folder / known.file)
    missing = f"{known.file}: not found in {', '.join(map(str, folders))}"
    if known.hub:
        return Location(
            hub=known.hub,
            hint=f"{missing}. Run `ruplar data fetch {name}`, or set RUPLAR_DATA to the folder that holds it.",
        )
    put = f"Run `ruplar data fetch {name}`, put" if known.url else "Put"
    raise UserError(
        f"{missing}, and no Hub set has the same rows. {put} it in one of these folders, or set RUPLAR_DATA to its folder."
    )


def _selected_rows(name: str, of: Location, without: Location) -> Iterator[Row]:
    """Yield the rows of a set that is selected from two others; refuse any others than those of the known set."""
    known = KNOWN_SETS[name]
    excluded = {digest(parts.question) for _, parts in _parts(without)}
    found: dict[bytes, tuple[Row, Parts]] = {}
    for row, parts in _parts(of):
        found.setdefault(digest(parts.question), (row, parts))
    chosen = [found[key] for key in sorted(found.keys() - excluded)[: known.rows]]
    content = fingerprint_answers(Example(parts.question, (), parts.answer or "") for _, parts in chosen)
    if content != (known.rows, known.fingerprint):
        raise UserError(
            f"'{name}' cannot be selected from {of.name} and {without.name}: the result has {content[0]:,} rows with "
            f"fingerprint {content[1][:12]}… instead of {known.rows:,} with {known.fingerprint[:12]}…. These are not "
            f"the published files; compare them with `ruplar data fetch {known.of} {known.without}`."
        )
    return (row for row, _ in chosen)


def _parts(location: Location) -> Iterator[tuple[Row, Parts]]:
    format = None
    for row in location.rows():
        try:
            if row.fault:
                raise BadRow(BROKEN, row.fault)
            format = format or detect(row, row.source)
            yield row, FORMATS[format].read(row.fields)
        except BadRow as bad:
            raise UserError(f"{row.source}: cannot be read: {bad.detail}.", where=location.name) from bad
