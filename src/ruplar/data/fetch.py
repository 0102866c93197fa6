"""Name of a known set → its file in the download cache, verified, complete or absent.

    GitHub file, else Hub Parquet files –download→ CACHE/data/.svamp.parts –convert, verify→ CACHE/data/svamp-test.jsonl

The Hub's Parquet files are on a branch that moves, and their rows come in another format and order. So content is compared,
not bytes: `fingerprint_answers` hashes all questions and answers in normal form, in any order.
"""

import json
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from ruplar import plugins
from ruplar.cache import data_folder
from ruplar.data.locations import KNOWN_SETS, hub_files, parts_of
from ruplar.data.read import read
from ruplar.data.rows import file_rows
from ruplar.download import Progress, download, no_progress
from ruplar.errors import UserError, unknown
from ruplar.fingerprints import fingerprint, fingerprint_answers
from ruplar.types import Example

PARQUET = "refs/convert/parquet"
"""The branch of a Hub set with the Parquet files that the Hub generates."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """The file of a set, whether it existed before and is the known set, and where it was downloaded from."""

    path: Path
    state: Literal["verified", "not verified", "already there", "already there, not verified"]
    origin: str = ""


@dataclass(slots=True)
class Fetcher:
    """Downloads known sets into one folder; with `unverified`, files whose content differs are accepted."""

    folder: Path = field(default_factory=data_folder)
    unverified: bool = False

    def fetch(self, name: str, progress: Progress = no_progress) -> Fetched:
        """Download a set unless its file exists; after an interruption the next call continues."""
        from huggingface_hub import is_offline_mode

        check_names([name])
        target = self.folder / KNOWN_SETS[name].file
        if target.exists():
            return self._existing(name, target)
        if is_offline_mode():
            raise UserError(
                f"offline mode is on (HF_HUB_OFFLINE): nothing is downloaded. {by_hand(name, self.folder)}"
            )
        try:
            return self._first(name, target, self.folder / f".{name}.parts", progress)
        except OSError as error:
            raise UserError(
                f"{target}: cannot be written ({error.strerror}). Name another folder with --to."
            ) from error

    def _existing(self, name: str, target: Path) -> Fetched:
        differs = difference(name, target)
        if differs and not self.unverified:
            raise UserError(
                f"{target}: exists, but is not the known set: {differs}. "
                "Delete it to download it again, or use it as it is with --unverified."
            )
        return Fetched(target, "already there, not verified" if differs else "already there")

    def _first(self, name: str, target: Path, scratch: Path, progress: Progress) -> Fetched:
        """Try the addresses in order; move the first file that can be downloaded and verified into the folder."""
        from huggingface_hub import hf_hub_url

        addresses = {KNOWN_SETS[name].url: [KNOWN_SETS[name].url]}
        if on_hub := hub_files(name):
            urls = [hf_hub_url(repo, file, repo_type="dataset", revision=PARQUET) for repo, file in on_hub]
            addresses[" and ".join(f"hub:{repo}/{file}" for repo, file in on_hub)] = urls
        failures = []
        for origin, urls in addresses.items():
            try:
                parts = [
                    download(url, scratch / f"{at}-{Path(urlsplit(url).path).name}", progress)
                    for at, url in enumerate(urls)
                ]
            except UserError as error:
                failures.append(f"{origin}: {error}")
                continue
            try:
                draft = _convert(name, parts, scratch / target.name)
                differs = difference(name, draft)
                if not differs or self.unverified:
                    os.replace(draft, target)
                    return Fetched(target, "not verified" if differs else "verified", origin)
                failures.append(f"{origin}: is not the known set: {differs}. Accept it with --unverified.")
            except UserError as error:
                failures.append(f"{origin}: {error}")
            finally:
                shutil.rmtree(scratch)
        raise UserError("\n  ".join([f"'{name}' cannot be downloaded.", *failures, by_hand(name, self.folder)]))


def check_names(names: Iterable[str]) -> None:
    """Check that every name is a known set with a download."""
    problems = []
    for name in names:
        if name not in KNOWN_SETS:
            problems.append(unknown("dataset", name, KNOWN_SETS))
        elif KNOWN_SETS[name].of:
            problems.append(f"'{name}' has no file. Fetch the sets it is read from: {', '.join(parts_of(name))}.")
        elif not KNOWN_SETS[name].url:
            problems.append(f"'{name}': no download known. Put the file in data/ as {KNOWN_SETS[name].file}.")
    if problems:
        raise UserError(*problems)


def by_hand(name: str, folder: Path) -> str:
    """Return a sentence that says how to download a set by hand."""
    return f"By hand: save {KNOWN_SETS[name].url} as {folder / KNOWN_SETS[name].file}."


def _convert(name: str, parts: Sequence[Path], draft: Path) -> Path:
    """Downloaded files → one file in the format that the set's file name states."""
    if len(parts) == 1 and parts[0].suffix == draft.suffix:
        return parts[0]
    with draft.open("w", encoding="utf-8") as out:
        for part in parts:
            if draft.suffix == ".txt":  # one line per row: question||<<step>> <<step>> #### answer
                for example in _examples(name, part):
                    steps = "".join(f"<<{step}>> " for step in example.steps)
                    out.write(f"{' '.join(example.question.split())}||{steps}#### {example.answer}\n")
            else:
                for row in file_rows(part):
                    out.write(json.dumps(row.fields, ensure_ascii=False) + "\n")
    return draft


def difference(name: str, file: Path) -> str:
    """Name of a set, a copy of its file → how they differ, e.g. "7,470 rows instead of 7,473"; "" if they are the same."""
    known = KNOWN_SETS[name]
    if known.sha256:
        found = fingerprint(file)
        return "" if found == known.sha256 else f"SHA-256 {found[:12]}… instead of {known.sha256[:12]}…"
    rows, content = fingerprint_answers(_examples(name, file))
    if not known.fingerprint:
        return f"known_sets.yaml has no fingerprint for '{name}'; this file has rows: {rows}, fingerprint: {content}"
    if (rows, content) == (known.rows, known.fingerprint):
        return ""
    return f"{rows:,} rows instead of {known.rows:,}, fingerprint {content[:12]}… instead of {known.fingerprint[:12]}…"


def _examples(name: str, file: Path) -> Iterable[Example]:
    return read(file, plugins.make("domains", KNOWN_SETS[name].domain), need_steps=False).examples
