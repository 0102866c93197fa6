"""Name of a known set → its file in the download cache, from GitHub, verified, complete or absent.

Where GitHub cannot be reached, a set that is on the Hub can be read from there instead (`locations.py`). The Hub's rows come in
another format and order, so content is compared, not bytes: `fingerprint_answers` hashes all questions and answers in normal
form, in any order.
"""

import csv
import fcntl
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ruplar import plugins
from ruplar.data.locations import KNOWN_SETS, parts_of
from ruplar.data.read import read
from ruplar.download import Progress, download, no_progress
from ruplar.errors import UserError, unknown
from ruplar.fingerprints import fingerprint, fingerprint_answers


def fetch(name: str, folder: Path, progress: Progress = no_progress) -> tuple[Path, str]:
    """Download a set into a folder unless its file exists there; an interrupted download continues.

    Returns:
        The file, and "verified" or "already there".
    """
    from huggingface_hub import is_offline_mode

    check_names([name])
    known = KNOWN_SETS[name]
    file = folder / known.file
    if file.exists():
        if differs := difference(name, file):
            raise UserError(f"{file}: exists, but is not the known set: {differs}. Delete it to download it again.")
        return file, "already there"
    by_hand = f"By hand: save {known.url} as {file}."
    if is_offline_mode():
        raise UserError(f"offline mode is on (HF_HUB_OFFLINE): nothing is downloaded. {by_hand}")
    draft = folder / f".{known.file}"
    try:
        with _held(folder):
            if file.exists():  # another process has just downloaded it
                return file, "already there"
            download(known.url, draft, progress)
            try:
                if known.picked:
                    _pick(draft, known.picked)
                if differs := difference(name, draft):
                    raise UserError(f"it is not the known set: {differs}.")
                return draft.rename(file), "verified"
            finally:
                draft.unlink(missing_ok=True)
    except UserError as error:
        raise UserError(f"'{name}' cannot be downloaded from {known.url}: {error} {by_hand}") from error
    except OSError as error:
        raise UserError(f"{file}: cannot be written ({error.strerror}). Choose another folder with --to.") from error


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Hold a folder, so that two processes do not write one draft; the kernel releases it when the process dies."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _pick(file: Path, rows: Iterable[int]) -> None:
    """Replace a CSV file of SVAMP's authors by JSON lines of these rows, each a question and its answer."""
    with open(file, newline="", encoding="utf-8") as opened:
        table = list(csv.DictReader(opened))
    try:
        found = [_question(table[row]) for row in rows]
    except (IndexError, KeyError, ValueError, TypeError) as error:
        raise UserError(f"it is not the known set: it has no such rows ({error}).") from error
    file.write_text("".join(json.dumps(row) + "\n" for row in found), encoding="utf-8")


def _question(row: Mapping[str, str]) -> dict[str, str]:
    """Put the numbers back into the question, `number0` being the first, and remove the spaces before punctuation."""
    text = row["Question"]
    for index, value in reversed(list(enumerate(row["Numbers"].split()))):
        text = text.replace(f"number{index}", f"{float(value):g}")
    return {"question": re.sub(r" ([.,?!;:'])", r"\1", text), "answer": f"{float(row['Answer']):g}"}


def check_names(names: Iterable[str]) -> None:
    """Check that every name is a known set with a download."""
    problems = []
    for name in names:
        if name not in KNOWN_SETS:
            problems.append(unknown("dataset", name, KNOWN_SETS))
        elif KNOWN_SETS[name].of:
            problems.append(f"'{name}' has no file. Fetch the sets it is read from: {', '.join(parts_of(name))}.")
        elif not KNOWN_SETS[name].url:
            problems.append(f"'{name}' has no url in known_sets.yaml. Put {KNOWN_SETS[name].file} in data/ yourself.")
    if problems:
        raise UserError(*problems)


def difference(name: str, file: Path) -> str:
    """Name of a set, a copy of its file → how they differ, e.g. "7,470 rows instead of 7,473"; "" if they are the same."""
    known = KNOWN_SETS[name]
    if known.sha256:
        found = fingerprint(file)
        return "" if found == known.sha256 else f"SHA-256 {found[:12]}… instead of {known.sha256[:12]}…"
    examples = read(file, plugins.make("domains", known.domain), need_steps=False).examples
    rows, content = fingerprint_answers(examples)
    if not known.fingerprint:
        return f"known_sets.yaml has no fingerprint for '{name}'; this file has rows: {rows}, fingerprint: {content}"
    if (rows, content) == (known.rows, known.fingerprint):
        return ""
    return f"{rows:,} rows instead of {known.rows:,}, fingerprint {content[:12]}… instead of {known.fingerprint[:12]}…"
