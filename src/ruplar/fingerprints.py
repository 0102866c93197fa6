"""Questions → what tells two sets apart: normal form, fingerprints, and the examples two sets share."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable
from pathlib import Path

from ruplar.types import Example


def normal(question: str) -> str:
    """A question's normal form: letters in one case, one kind of each character, single spaces. Digits and points stay."""
    return " ".join(unicodedata.normalize("NFKC", question).casefold().split())


def digest(question: str) -> bytes:
    """16 bytes that stand for a question's normal form, so that a large set of questions stays small in memory."""
    return hashlib.blake2b(normal(question).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def fingerprint(path: str | Path) -> str:
    """File → SHA-256 of its bytes, in hex."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fingerprint_questions(examples: Iterable[Example]) -> str:
    """Examples → SHA-256 of their normal questions in order: the same for one set in two formats."""
    total = hashlib.sha256()
    for example in examples:
        total.update(digest(example.question))
    return total.hexdigest()


def overlap(train: Iterable[Example], held_out: Iterable[Example]) -> tuple[list[Example], list[Example]]:
    """Training set and held-out set → the training examples that may be used, and those whose question is held out."""
    forbidden = {digest(example.question) for example in held_out}
    kept: list[Example] = []
    shared: list[Example] = []
    for example in train:
        (shared if digest(example.question) in forbidden else kept).append(example)
    return kept, shared
