"""Name, path or Hub address → where the rows are.

- `gsm8k-aug-valid`: a known set; its file in one of the data folders, or its Hub set when no folder has the file
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

import yaml

from ruplar.cache import data_folder
from ruplar.data.rows import LOCAL_FILE, SUFFIXES, Row, check_package, file_rows, hub_rows
from ruplar.errors import UserError, unknown

_HUB = re.compile(r"(?P<name>[\w.-]+/[\w.-]+)(?:/(?P<config>[\w.-]+))?(?::(?P<split>[\w.+\[\]%:-]+))?")


@dataclass(frozen=True, slots=True)
class KnownSet:
    """A set known by name; the fields are described in `known_sets.yaml`. A set without a `url` cannot be downloaded."""

    file: str
    hub: str = ""
    url: str = ""
    rows: int = 0
    fingerprint: str = ""
    sha256: str = ""
    domain: str = "arithmetic"
    test: bool = False


KNOWN_SETS: dict[str, KnownSet] = {
    name: KnownSet(**entry)
    for name, entry in yaml.safe_load(Path(__file__).with_name("known_sets.yaml").read_text(encoding="utf-8")).items()
}
"""Name → set."""


@dataclass(frozen=True, slots=True)
class Location:
    """Where rows are: a file, or a Hub address.

    Attributes:
        path: The file; None for a Hub set.
        hub: The Hub address; "" for a file.
        hint: For a known set without a file: where the file was looked for, and the command that downloads it.
    """

    path: Path | None = None
    hub: str = ""
    hint: str = ""

    @property
    def name(self) -> str:
        """The path or the Hub address, for messages and records."""
        return str(self.path) if self.path is not None else f"hub:{self.hub}"

    def check_packages(self) -> None:
        """Raise `UserError` if the rows need an optional package that is not installed; reads nothing."""
        if self.path is None:
            check_package("datasets", f"Reading '{self.hub}' from the Hugging Face Hub", self.hint or LOCAL_FILE)
        elif self.path.suffix == ".parquet":
            check_package("pyarrow", f"Reading {self.path.name}")

    def rows(self) -> Iterator[Row]:
        """Yield all rows in order.

        Raises:
            UserError: They cannot be read; see `file_rows` and `hub_rows`.
        """
        if self.path is not None:
            return file_rows(self.path)
        address = _HUB.fullmatch(self.hub)
        if address is None:
            raise UserError(f"'{self.hub}' is not a Hub address. Write hub:owner/name or hub:owner/name/config:split.")
        return hub_rows(address["name"], address["config"], address["split"] or "train", self.hint)


def data_folders(data_dir: str | Path | None = None) -> list[Path]:
    """Return the folders where the files of known sets are looked for, in order.

    Raises:
        UserError: `data_dir`, or the value of `RUPLAR_DATA`, is not a folder.
    """
    folders = []
    for name, value in (("data_dir", data_dir), ("RUPLAR_DATA", os.environ.get("RUPLAR_DATA"))):
        if not value:
            continue
        folder = Path(value).expanduser()
        if not folder.is_dir():
            raise UserError(f"{name}: '{value}' is not a folder. Name the folder that holds the files of known sets.")
        folders.append(folder)
    return [*folders, Path("data"), data_folder()]


def locate(source: str | Path, data_dir: str | Path | None = None) -> Location:
    """Path, known name or Hub address → location. An existing path takes precedence over a name.

    Args:
        source: What the user wrote.
        data_dir: A folder with files of known sets, searched before the other `data_folders`.

    Raises:
        UserError: It is none of these.
    """
    text = str(source)
    if text.startswith("hub:"):
        return Location(hub=text.removeprefix("hub:"))
    if Path(text).is_file():
        return Location(path=Path(text))
    if text in KNOWN_SETS:
        return _locate_known(text, data_folders(data_dir))
    if Path(text).is_dir():
        raise UserError(f"{text}: is a folder. Name one file in it.")
    if isinstance(source, Path) or Path(text).suffix in SUFFIXES or text.startswith((".", "/", "~")):
        raise UserError(f"{text}: no such file. A Hub set is written hub:owner/name.")
    if _HUB.fullmatch(text):
        return Location(hub=text)
    raise UserError(f"{unknown('data set', text, KNOWN_SETS)} Or give the path of a file, or hub:owner/name.")


def _locate_known(name: str, folders: Sequence[Path]) -> Location:
    known = KNOWN_SETS[name]
    for folder in folders:
        if (folder / known.file).is_file():
            return Location(path=folder / known.file)
    missing = f"{known.file}: not found in {', '.join(map(str, folders))}"
    if known.hub:
        return Location(
            hub=known.hub,
            hint=f"{missing}. Run `ruplar data fetch {name}`, or set RUPLAR_DATA to the folder that holds it.",
        )
    start = f"Run `ruplar data fetch {name}`, put it" if known.url else "Put it"
    raise UserError(
        f"{missing}, and no Hub set has the same rows. {start} in one of these folders, or set RUPLAR_DATA to its folder."
    )


@dataclass(frozen=True, slots=True)
class HubFile:
    """A Parquet file of a Hub set."""

    repo: str
    file: str

    def __str__(self) -> str:
        return f"hub:{self.repo}/{self.file}"


def hub_files(name: str) -> list[HubFile]:
    """Name of a set → the Parquet files of its splits on the Hub, in order; [] if it is not on the Hub."""
    address, _, splits = KNOWN_SETS[name].hub.partition(":")
    if not address:
        return []
    owner, repo, *config = address.split("/")
    folder = config[0] if config else "default"
    return [HubFile(f"{owner}/{repo}", f"{folder}/{split}/0000.parquet") for split in splits.split("+")]
