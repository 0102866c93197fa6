"""Test questions → an index that finds training questions which are equal to one or share a 13-gram with one.

Questions are compared in a normal form: lower case, without punctuation and thousands separators, with their numbers. Two
questions share a passage if 13 consecutive words are the same, the length used since GPT-3 to find test data in training
data; shorter questions can only be equal. With numbers masked, variants with other numbers are found too. GSM8K's own
training set has many of these, so they are reported but not excluded.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruplar.data.locations import role_of
from ruplar.data.read import read
from ruplar.domains.base import Domain
from ruplar.errors import UserError

# differs from the paper: D71. Training data is compared with every test set before a run.
LENGTH = 13
"""Consecutive words that make a shared passage."""
EQUAL, PASSAGE, MASKED = "the same question", f"{LENGTH} words in a row", f"{LENGTH} words in a row but for numbers"

_WORD = re.compile(r"[^\W\d_]+|\d+(?:\.\d+)?")
_REMOVED = re.compile(r"(?<=\d),(?=\d{3}\b)|['’]")


def words(question: str) -> list[str]:
    """Question → its words and numbers in normal form."""
    return _WORD.findall(_REMOVED.sub("", unicodedata.normalize("NFKC", question).casefold()))


def masked(found: Sequence[str]) -> list[str]:
    """Words → the same with every number replaced by #."""
    return ["#" if word[0].isdigit() else word for word in found]


@dataclass
class Index:
    """Questions and 13-grams of test sets; `sets` has the `ReadResult.record` of each."""

    sets: dict[str, dict[str, Any]] = field(default_factory=dict)
    _equal: dict[tuple[str, ...], str] = field(default_factory=dict)
    _plain: dict[tuple[str, ...], str] = field(default_factory=dict)
    _masked: dict[tuple[str, ...], str] = field(default_factory=dict)
    _known: set[str] = field(default_factory=set)

    def add(self, name: str, question: str) -> None:
        """Add one question of a test set."""
        found = words(question)
        self._equal.setdefault(tuple(found), name)
        for grams, text in ((self._plain, found), (self._masked, masked(found))):
            self._known.update(text)
            for start in range(len(text) - LENGTH + 1):
                grams.setdefault(tuple(text[start : start + LENGTH]), name)

    def hit(self, question: str, augmented: bool = False) -> str | None:
        """Return what a question shares with a test set, in words; None if nothing.

        With `augmented`, as for questions whose numbers will be changed, a passage with other numbers counts too.
        """
        found = words(question)
        if (name := self._equal.get(tuple(found))) is not None:
            return f"{EQUAL} as in {name}"
        if (name := self._shared(found, self._plain)) is not None:
            return f"{PASSAGE} as in {name}"
        if augmented and (name := self._shared(masked(found), self._masked)) is not None:
            return f"{MASKED} as in {name}"
        return None

    def _shared(self, found: Sequence[str], grams: dict[tuple[str, ...], str]) -> str | None:
        run = 0
        for end, word in enumerate(found, start=1):
            # a passage with a word that no test question has cannot be shared
            run = run + 1 if word in self._known else 0
            name = grams.get(tuple(found[end - LENGTH : end])) if run >= LENGTH else None
            if name is not None:
                return name
        return None


def index_of(sets: Iterable[str], domain: Domain, data_dir: str | Path | None = None) -> Index:
    """Names or files of test sets → their index."""
    index = Index()
    for name in sets:
        try:
            reading = read(name, domain, need_steps=False, skip_bad=True, data_dir=data_dir)
        except UserError as error:
            raise UserError(
                f"the test set '{name}' cannot be read, so training data cannot be checked against it: {error}"
            ) from error
        for example in reading.examples:
            index.add(name, example.question)
        index.sets[name] = reading.record()
    if not index.sets:
        raise UserError("no test set is given to check training data against.")
    return index


_FORBIDDEN = (
    (re.compile(r"mawps", re.I), "MAWPS contains MultiArith, on which models are tested"),
    (re.compile(r"gsm[-_ ]?symbolic", re.I), "GSM-Symbolic is made from templates of GSM8K's test questions"),
    (re.compile(r"gsm[-_ ]?plus", re.I), "GSM-Plus is made from GSM8K's test questions"),
)


def why_not_train(source: str) -> str | None:
    """Return why a source must not be trained on, judged by its name, file or Hub address; None if it may be used."""
    role = role_of(source)
    if role in ("test", "selection"):
        return f"'{source}' is a {role} set"
    return next((f"'{source}': {why}" for pattern, why in _FORBIDDEN if pattern.search(source)), None)
