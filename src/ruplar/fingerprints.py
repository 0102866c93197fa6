"""Questions, examples and files → fingerprints that identify them."""

import hashlib
import itertools
import sys
import unicodedata
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from ruplar.mapped import mapped, sorted_once
from ruplar.types import Example


def normal(text: str) -> str:
    """Text → its normal form: NFKC, case folded, single spaces. Digits and punctuation stay."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def digest(question: str) -> bytes:
    """Question → 16 bytes that identify its normal form, so that a large set of questions fits in memory."""
    return hashlib.blake2b(normal(question).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def short_digest(question: str) -> int:
    """Question → the first 8 bytes of its digest as a number."""
    return int.from_bytes(digest(question)[:8], sys.byteorder)


def digests(questions: Iterable[str], before: Iterable[int] = ()) -> np.ndarray:
    """Questions → their short digests and those `before`, sorted, without repeats, in a temporary file."""
    return sorted_once(mapped(itertools.chain(before, map(short_digest, questions)), np.uint64))


def count_seen(questions: Iterable[str], known: np.ndarray) -> int:
    """Return how many questions have a digest that is among the `known`, which `digests` returned."""
    keys = np.fromiter(map(short_digest, questions), np.uint64)
    return int(np.sum(np.searchsorted(known, keys, "right") > np.searchsorted(known, keys)))


def fingerprint(path: str | Path) -> str:
    """File → SHA-256 of its bytes, in hex."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fingerprint_questions(examples: Iterable[Example]) -> str:
    """Examples → SHA-256 of their questions in normal form, in order: the same for one set in two formats."""
    total = hashlib.sha256()
    for example in examples:
        total.update(digest(example.question))
    return total.hexdigest()


def fingerprint_answers(examples: Iterable[Example]) -> tuple[int, str]:
    """Examples → their number, and a SHA-256 of all questions and answers in normal form that ignores the order."""
    found = sorted(digest(f"{example.question} #### {_normal_answer(example.answer)}") for example in examples)
    return len(found), hashlib.sha256(b"".join(found)).hexdigest()


def _normal_answer(text: str) -> str:
    """An answer's normal form. Numbers as floats, since copies of GSM-Hard print them to different precision."""
    try:
        return repr(float(text.replace(",", "").removeprefix("$")))
    except ValueError:
        return normal(text)
