"""Test questions → an index that tells which training questions stand in them: the same words, or thirteen in a row.

A question is compared in a normal form: lower case, punctuation and thousands separators away, numbers kept. Two share a
passage when some 13 words in a row are the same, the length used since GPT-3 to find test data in training data. Shorter
questions can only be equal. With numbers masked, retellings with other numbers show too; GSM8K writes many of these
itself, so that count is for the report and refuses nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ruplar.data.locations import SOURCES
from ruplar.data.read import read
from ruplar.domains.base import Domain
from ruplar.errors import UserError

# differs from the paper: D71. Training data is held against every test set before a run.
LENGTH = 13
"""Words in a row that make a shared passage."""
EQUAL, PASSAGE, RETOLD = "the same question", f"{LENGTH} words in a row", f"{LENGTH} words in a row but for numbers"

_WORD = re.compile(r"[^\W\d_]+|\d+(?:\.\d+)?")
_AWAY = re.compile(r"(?<=\d),(?=\d{3}\b)|['’]")


def words(question: str) -> list[str]:
    """A question's words and numbers in their normal form."""
    return _WORD.findall(_AWAY.sub("", unicodedata.normalize("NFKC", question).casefold()))


def masked(found: Sequence[str]) -> list[str]:
    """The same with every number in digits written alike."""
    return ["#" if word[0].isdigit() else word for word in found]


class Hit(NamedTuple):
    """What a question shares with a test set.

    Attributes:
        kind: `EQUAL`, `PASSAGE` or `RETOLD`.
        set: The test set's name.
        at: The row there.
        question: The test question.
        passage: The shared words.
    """

    kind: str
    set: str
    at: str
    question: str
    passage: str


@dataclass
class Index:
    """Passages and whole questions of test sets, by hash; the questions themselves are kept to show and to confirm.

    Attributes:
        sets: Name → what identifies the set, as `Reading.record` says it.
    """

    sets: dict[str, dict[str, Any]] = field(default_factory=dict)
    _rows: list[tuple[str, str, str]] = field(default_factory=list)
    _equal: dict[int, int] = field(default_factory=dict)
    _plain: dict[int, int] = field(default_factory=dict)
    _masked: dict[int, int] = field(default_factory=dict)
    _known: set[str] = field(default_factory=set)

    def add(self, name: str, at: str, question: str) -> None:
        """Take one test question in."""
        row = len(self._rows)
        self._rows.append((name, at, question))
        found = words(question)
        self._known.update(found)
        self._equal.setdefault(hash(tuple(found)), row)
        for grams, text in ((self._plain, found), (self._masked, masked(found))):
            for start in range(len(text) - LENGTH + 1):
                grams.setdefault(hash(tuple(text[start : start + LENGTH])), row)

    def hit(self, question: str) -> Hit | None:
        """The test question that this one equals or shares a passage with; None without one."""
        found = words(question)
        row = self._equal.get(hash(tuple(found)))
        if row is not None and words(self._rows[row][2]) == found:
            return Hit(EQUAL, *self._rows[row], " ".join(found))
        known = [word in self._known for word in found]
        run = 0
        for end, there in enumerate(known, start=1):
            # a passage with a word that no test question has cannot be one of theirs
            run = run + 1 if there else 0
            if run >= LENGTH:
                gram = tuple(found[end - LENGTH : end])
                row = self._plain.get(hash(gram))
                if row is not None and _holds(words(self._rows[row][2]), gram):
                    return Hit(PASSAGE, *self._rows[row], " ".join(gram))
        return None

    def retold(self, question: str) -> Hit | None:
        """The test question that shares a passage with this one when numbers are masked."""
        found = masked(words(question))
        for start in range(len(found) - LENGTH + 1):
            gram = tuple(found[start : start + LENGTH])
            row = self._masked.get(hash(gram))
            if row is not None and _holds(masked(words(self._rows[row][2])), gram):
                return Hit(RETOLD, *self._rows[row], " ".join(gram))
        return None


def _holds(text: Sequence[str], gram: tuple[str, ...]) -> bool:
    """Whether the passage really stands there: a hash may be shared by chance."""
    return any(tuple(text[i : i + LENGTH]) == gram for i in range(len(text) - LENGTH + 1))


def index_of(sets: Iterable[str], domain: Domain, data_dir: str | Path | None = None) -> Index:
    """Names or files of test sets → their index.

    Raises:
        UserError: One cannot be found or read; a check that passes it over would be none.
    """
    index = Index()
    for name in sets:
        try:
            reading = read(name, domain, need_steps=False, skip_bad=True, data_dir=data_dir)
        except UserError as error:
            raise UserError(
                f"the test set '{name}' cannot be read, so training data cannot be held against it: {error}"
            ) from error
        for example in reading.examples:
            index.add(name, example.source, example.question)
        index.sets[name] = reading.record()
    if not index.sets:
        raise UserError("no test set is named to hold training data against.")
    return index


_FORBIDDEN = (
    (re.compile(r"mawps", re.I), "MAWPS contains MultiArith, on which models are tested"),
    (re.compile(r"gsm[-_ ]?symbolic", re.I), "GSM-Symbolic is made from templates of GSM8K's test questions"),
    (re.compile(r"short-dev"), "short-dev is for choosing between trained models"),
    (re.compile(r"gsm[-_ ]?plus", re.I), "GSM-Plus is made from GSM8K's test questions"),
)
TEST_SETS = ("gsm8k-aug", "gsm8k-test", "gsm-hard", "svamp", "multiarith")
"""Known sets that models are tested on."""
_THEIRS = {SOURCES[name].file for name in TEST_SETS} | {SOURCES[name].hub for name in TEST_SETS}
"""Their files and Hub addresses."""


def why_not_train(source: str) -> str | None:
    """Why nothing may be trained on a source, by its name, its file's or its Hub address; None where nothing is known against it."""
    if source in TEST_SETS or {Path(source).name, source.removeprefix("hub:")} & _THEIRS:
        return f"'{source}' is a test set"
    return next((f"'{source}': {why}" for pattern, why in _FORBIDDEN if pattern.search(source)), None)
