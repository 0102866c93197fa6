"""Name, path or Hub address → where the rows are: the sets we know by name, and the rules for all others.

- `gsm8k-aug-valid`: a known name; its file in one of the data folders, or its Hub set when none of them has the file
- `chains/train.jsonl`: a path
- `hub:whynlp/gsm8k-aug`: a Hub set, its train split; `hub:openai/gsm8k/main:test` names config and split
- `whynlp/gsm8k-aug:test`: the same without the prefix, where no such path exists

The data folders, in order: the one that is given (`--data-dir`), `$RUPLAR_DATA`, `data` in the working directory, and
`data` in the cache folder, which `ruplar data fetch` fills.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ruplar.cache import data_folder
from ruplar.data.rows import SUFFIXES, Row, file_rows, hub_rows
from ruplar.errors import UserError, unknown

_HUB = re.compile(r"(?P<name>[\w.-]+/[\w.-]+)(?:/(?P<config>[\w.-]+))?(?::(?P<split>[\w.+\[\]%:-]+))?")


@dataclass(frozen=True, slots=True)
class Source:
    """A set known by name.

    Attributes:
        file: Its file's name in a data folder.
        hub: Its Hub address (`owner/name[/config]:split`), "" when we know none with the same rows.
    """

    file: str
    hub: str = ""


SOURCES: dict[str, Source] = {
    "gsm8k-train": Source("gsm8k-train.jsonl", "openai/gsm8k/main:train"),
    "gsm8k-test": Source("gsm8k-test.jsonl", "openai/gsm8k/main:test"),
    "gsm8k-aug-train": Source("gsm8k-aug-train.txt", "whynlp/gsm8k-aug:train"),
    "gsm8k-aug-valid": Source("gsm8k-aug-valid.txt", "whynlp/gsm8k-aug:validation"),
    "gsm8k-aug": Source("gsm8k-aug-test.jsonl", "whynlp/gsm8k-aug:test"),
    "gsm8k-aug-3000": Source("gsm8k-aug-3000.txt"),
    "gsm8k-train-equations": Source("gsm8k-train-equations.txt"),
    "gsm-hard": Source("gsm-hard-test.jsonl", "reasoning-machines/gsm-hard:train"),
    "svamp": Source("svamp-test.jsonl", "ChilleD/SVAMP:train+test"),
    "multiarith": Source("multiarith-test.jsonl", "ChilleD/MultiArith:train+test"),
    "short-dev": Source("short-dev.jsonl"),
    "date-understanding-train": Source("date-understanding-train.jsonl"),
    "date-understanding": Source("date-understanding-test.jsonl"),
    "prosqa-valid": Source("prosqa-valid.json"),
}
"""Name → set. A benchmark's bare name is what it is scored on."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where rows are: a file, or a Hub address.

    Attributes:
        path: The file; None for a Hub set.
        hub: The Hub address, "" for a file.
        hint: For a known set without a file: where the file was looked for, and the command that gets it.
    """

    path: Path | None = None
    hub: str = ""
    hint: str = ""

    @property
    def name(self) -> str:
        """For messages and records: the path, or the Hub address."""
        return str(self.path) if self.path is not None else f"hub:{self.hub}"

    def rows(self) -> Iterator[Row]:
        """All rows in order.

        Raises:
            UserError: They cannot be had; see `file_rows` and `hub_rows`.
        """
        if self.path is not None:
            return file_rows(self.path)
        address = _HUB.fullmatch(self.hub)
        if address is None:
            raise UserError(f"'{self.hub}' is no Hub address. Write hub:owner/name, hub:owner/name/config:split.")
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


def locate(source: str | Path, data_dir: str | Path | None = None) -> Place:
    """Path, known name or Hub address → place. A path that exists wins over a name.

    Args:
        source: What the user wrote.
        data_dir: A folder with files of known sets, searched before the other `data_folders`.

    Raises:
        UserError: It is none of these.
    """
    text = str(source)
    if text.startswith("hub:"):
        return Place(hub=text.removeprefix("hub:"))
    if Path(text).is_file():
        return Place(path=Path(text))
    if text in SOURCES:
        return _known(text, data_folders(data_dir))
    if Path(text).is_dir():
        raise UserError(f"{text}: is a folder. Name one file in it.")
    if isinstance(source, Path) or Path(text).suffix in SUFFIXES or text.startswith((".", "/", "~")):
        raise UserError(f"{text}: no such file. A Hub set is written hub:owner/name.")
    if _HUB.fullmatch(text):
        return Place(hub=text)
    raise UserError(f"{unknown('data set', text, SOURCES)} Or give the path of a file, or hub:owner/name.")


def _known(name: str, folders: Sequence[Path]) -> Place:
    entry = SOURCES[name]
    for folder in folders:
        if (folder / entry.file).is_file():
            return Place(path=folder / entry.file)
    missing = f"{entry.file}: not found in {', '.join(map(str, folders))}"
    if entry.hub:
        return Place(
            hub=entry.hub,
            hint=f"{missing}. Run `ruplar data fetch {name}`, or set RUPLAR_DATA to the folder that holds it.",
        )
    raise UserError(
        f"{missing}, and no Hub set has the same rows. Set RUPLAR_DATA, or data_dir, to the folder that holds it."
    )
