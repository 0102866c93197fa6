"""A known set's name → where its file can be downloaded, and what it must contain.

The first address is a file on GitHub at a fixed commit. Sets that are also on the Hub (`Source.hub` in
`chains/places.py`) have a second one: the Parquet files that the Hub makes of every set (branch
`refs/convert/parquet`). That branch moves, and its rows come in another format and order, so the content is compared,
not the bytes: `fingerprint` hashes all questions and answers in normal form, in any order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ruplar import plugins
from ruplar.data.locations import SOURCES
from ruplar.data.read import iterate
from ruplar.fingerprints import digest, normal
from ruplar.fingerprints import fingerprint as file_hash
from ruplar.types import Example

PARQUET = "refs/convert/parquet"
"""The branch of a Hub set with the Parquet files that the Hub made of it."""

_GITHUB = "https://raw.githubusercontent.com"
_RUPLAR = f"{_GITHUB}/xiaocen-luo/RuPLaR/973e7e5f745c6ac50a98d5c6dfdf4e79852315a4/data"
_GSM8K = f"{_GITHUB}/openai/grade-school-math/3101c7d5072418e28b9008a6636bde82a006892c/grade_school_math/data"
_ICOT = f"{_GITHUB}/da03/implicit_chain_of_thought/51027999b2780c53adc9cb92bd36a96dab84560c/data/gsm8k"
_COCONUT = f"{_GITHUB}/facebookresearch/coconut/27273cb8cca4bb763c041a63b036d0c3b7cbbb48/data"
# stored with Git LFS, which raw.githubusercontent.com does not serve; COCONUT trains on this file
_STEP_BY_STEP = (
    "https://media.githubusercontent.com/media/da03/Internalize_CoT_Step_by_Step/"
    "e06a32ee5e4cd117171daeb4755d2a97ece62761/data/gsm8k"
)


@dataclass(frozen=True, slots=True)
class Download:
    """Where a set's file can be had, and how a copy of it is verified.

    Attributes:
        url: The file on GitHub, in the format of `Source.file`.
        rows: Number of rows.
        fingerprint: Of the questions and answers (`fingerprint`); "" when unknown.
        sha256: Of the file's bytes; only for a set whose fingerprint is unknown.
        domain: The domain that reads its rows.
    """

    url: str
    rows: int
    fingerprint: str = ""
    sha256: str = ""
    domain: str = "arithmetic"


DOWNLOADS: dict[str, Download] = {
    "gsm8k-train": Download(
        f"{_GSM8K}/train.jsonl", 7_473, "7a127916c8f715179835d63135a3874bb2409ab7fe4d378ebb02a3e34074fbca"
    ),
    "gsm8k-test": Download(
        f"{_GSM8K}/test.jsonl", 1_319, "6323b89fb32242d10889e9bce4d814f9e707b72830d8ebbc8e228a5ffe850320"
    ),
    "gsm8k-aug-train": Download(
        f"{_STEP_BY_STEP}/train.txt",
        385_620,
        sha256="0a3909a9e7d8d2f7ad6b8c7b5608aa744988d835f9bf874d4cf06ca77df6bf8c",
    ),
    "gsm8k-aug-valid": Download(
        f"{_ICOT}/valid.txt", 500, "90d0a6249ad0fee172922623136b780e3cb8022f171f7bb486b3ea28da72ca6e"
    ),
    "gsm8k-aug": Download(
        f"{_RUPLAR}/GSM8k-Aug-test.jsonl", 1_319, "6323b89fb32242d10889e9bce4d814f9e707b72830d8ebbc8e228a5ffe850320"
    ),
    "gsm-hard": Download(
        f"{_RUPLAR}/GSM8k-Hard-test.jsonl", 1_319, "bc45f913645eafa1e8654c6f66645129009ed8b5ffc6672d577ffb56fad958cf"
    ),
    "svamp": Download(
        f"{_RUPLAR}/Svamp-test.jsonl", 1_000, "513b7f8b532ab3d782986eb3c03050141c074ad2a08442ea8d9702e788207bfc"
    ),
    "multiarith": Download(
        f"{_RUPLAR}/Multiarith-test.jsonl", 600, "55b1e48c9ab106cfbb8dc9021f0492c3eec6e8da980926ae846e2b49149d5da3"
    ),
    "date-understanding-train": Download(
        f"{_RUPLAR}/Du-train.jsonl",
        295,
        "fc0e699e12d5e8827e856ada91800cdfdea20709dff98207eae8b477ebdba7ef",
        domain="dates",
    ),
    "date-understanding": Download(
        f"{_RUPLAR}/Du-test.jsonl",
        74,
        "4e985a2417043d9fe7b03a7c08be0965f09852edf27be7945fe5b8048d9bccee",
        domain="dates",
    ),
    "prosqa-valid": Download(
        f"{_COCONUT}/prosqa_valid.json",
        300,
        "ecaa71a32d991d20b6a1dbbf7cc9b8bcefb0b1153f2f96ebafb06e86ff069c03",
        domain="logic",
    ),
}
"""Name of a set in `SOURCES` → its download."""


@dataclass(frozen=True, slots=True)
class HubFile:
    """A Parquet file of a Hub set."""

    repo: str
    file: str

    def __str__(self) -> str:
        return f"hub:{self.repo}/{self.file}"


def hub_files(name: str) -> list[HubFile]:
    """Name of a set → the Parquet files of its splits on the Hub, in order; [] when it is not on the Hub."""
    address, _, splits = SOURCES[name].hub.partition(":")
    if not address:
        return []
    owner, repo, *config = address.split("/")
    folder = config[0] if config else "default"
    return [HubFile(f"{owner}/{repo}", f"{folder}/{split}/0000.parquet") for split in splits.split("+")]


def fingerprint(examples: Iterable[Example]) -> tuple[int, str]:
    """Examples → their number, and a SHA-256 of all questions and answers in normal form that ignores the order."""
    found = sorted(digest(f"{example.question} #### {_answer(example.answer)}") for example in examples)
    return len(found), hashlib.sha256(b"".join(found)).hexdigest()


def difference(name: str, file: Path) -> str:
    """Name of a set, a copy of its file → how the copy differs from the set ("7,470 rows instead of 7,473"); "" if verified.

    Raises:
        UserError: The file cannot be read, or holds a row that cannot be read.
    """
    expected = DOWNLOADS[name]
    if expected.sha256:
        found = file_hash(file)
        wanted = f"SHA-256 {found[:12]}… instead of {expected.sha256[:12]}…"
        return "" if found == expected.sha256 else wanted
    rows, content = fingerprint(examples(name, file))
    if (rows, content) == (expected.rows, expected.fingerprint):
        return ""
    return (
        f"{rows:,} rows instead of {expected.rows:,}, "
        f"fingerprint {content[:12]}… instead of {expected.fingerprint[:12]}…"
    )


def examples(name: str, file: Path) -> Iterable[Example]:
    """Name of a set, a file with its rows → its examples, one by one."""
    return iterate(file, plugins.make("domains", DOWNLOADS[name].domain), need_steps=False)


def _answer(text: str) -> str:
    """An answer's normal form. Numbers as floats, since copies of GSM-Hard print them to different precision."""
    try:
        return repr(float(text.replace(",", "").removeprefix("$")))
    except ValueError:
        return normal(text)
