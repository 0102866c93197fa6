"""Name of a known set → its file in the download cache, verified, complete or absent.

    file at a fixed commit on GitHub –download→ temporary folder –verify→ CACHE/data/svamp-test.jsonl

A user may have put another copy of a set there, with its rows in another format and order. So content is compared, not
bytes: `fingerprint_answers` hashes all questions and answers in normal form, in any order.

Requests go through the session of `huggingface_hub`, which knows proxies and the offline mode (`HF_HUB_OFFLINE`).
"""

import os
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ruplar import plugins
from ruplar.cache import data_folder
from ruplar.data.locations import KNOWN_SETS, parts_of
from ruplar.data.read import read
from ruplar.errors import UserError, unknown
from ruplar.fingerprints import fingerprint, fingerprint_answers
from ruplar.types import Example

CONNECT_SECONDS = 5.0
"""How long to wait for a host to answer before it counts as unreachable."""

READ_SECONDS = 30.0
"""How long to wait for the next bytes of a download."""

Progress = Callable[[int, int | None], None]
"""Called with the bytes downloaded so far and their total, where the server states it."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """The file of a set, and whether it existed before and is the known set."""

    path: Path
    state: Literal["verified", "not verified", "already there", "already there, not verified"]


@dataclass(slots=True)
class Fetcher:
    """Downloads known sets into one folder; with `unverified`, files whose content differs are accepted."""

    folder: Path = field(default_factory=data_folder)
    unverified: bool = False

    def fetch(self, name: str, progress: Progress = lambda done, total: None) -> Fetched:
        """Download a set unless its file exists; after an error the folder is unchanged."""
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
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".fetch-", dir=self.folder) as scratch:
                return self._download(name, target, Path(scratch), progress)
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

    def _download(self, name: str, target: Path, scratch: Path, progress: Progress) -> Fetched:
        """Download the file and move it into the folder once it is verified."""
        url, draft = KNOWN_SETS[name].url, scratch / target.name
        try:
            _download(url, draft, progress)
            differs = difference(name, draft)
            if differs and not self.unverified:
                raise UserError(f"is not the known set: {differs}. Accept it with --unverified.")
        except UserError as error:
            lines = [f"'{name}' cannot be downloaded.", f"{url}: {error}", by_hand(name, self.folder)]
            raise UserError("\n  ".join(lines)) from error
        os.replace(draft, target)
        return Fetched(target, "not verified" if differs else "verified")


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


def responds(origin: str) -> bool:
    """Return whether a host responds in time, with any HTTP status."""
    import httpx
    from huggingface_hub.utils import get_session

    try:
        get_session().head(origin, timeout=CONNECT_SECONDS, follow_redirects=False)
    except httpx.HTTPError:
        return False
    return True


def _download(url: str, path: Path, progress: Progress) -> None:
    import httpx
    from huggingface_hub.utils import get_session

    timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    try:
        with get_session().stream("GET", url, timeout=timeout, follow_redirects=True) as response:
            response.raise_for_status()
            total = int(response.headers.get("content-length", 0)) or None
            with path.open("wb") as out:
                for chunk in response.iter_bytes():
                    out.write(chunk)
                    progress(response.num_bytes_downloaded, total)
    except httpx.HTTPStatusError as error:
        status = error.response
        raise UserError(f"the server returned {status.status_code} {status.reason_phrase}.") from error
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise UserError(f"no connection (tried for up to {CONNECT_SECONDS:g} s).") from error
    except httpx.HTTPError as error:
        raise UserError(f"the download broke off: {error or type(error).__name__}.") from error


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
