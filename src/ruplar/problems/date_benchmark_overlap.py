"""Scenario of a date problem → whether the benchmark Date Understanding has it; such a problem is not generated for any split.

The package contains only hashes of the benchmark's 40 scenarios; a test computes them from its two files. Two
scenarios are the same when they differ only in how a date or a count is written (`11/12/2019`, `Nov 12, 2019`; `one day`,
`1 day`), in the names, in which of two opinions is right, in case, or in punctuation.
"""

from __future__ import annotations

import re

from ruplar.domains import _calendar
from ruplar.domains._date_questions import unjudged
from ruplar.fingerprints import digest
from ruplar.problems.date_scenarios import TEXTS

DATE_UNDERSTANDING: frozenset[str] = frozenset(
    {
        "050f347c0a48d873", "0c5f71e9d24431da", "124e94929a7d1ded", "25e0bf695b63f58e", "2793def8ab1bc3ac",
        "295be1196304970e", "316d85d60463ee23", "348eb97513a6fc45", "36c88f47d71d44be", "50c5564faff5228c",
        "56e145c0fc8f5824", "59b75b2f8cff5f7f", "608741a4ef33e061", "6b2efae8d65e9c8a", "74cad0fe0709a523",
        "7a378e72e31f06db", "7f135430783b271a", "81782d639edeb44a", "8904b8bd50751ed4", "8a3eef292fd1e567",
        "8bc1e16f86a2720e", "8c64dad6e1298ca5", "9612c483ee65b753", "9a1cdbdbba67c2ec", "a0ec3aaa8866ba27",
        "abe0ea9c6b789941", "b0b6e810d20e7fba", "b679e47361e196d4", "bfca634caaf08d34", "c057c9e25c3f3800",
        "d27e796e1d3c2a27", "df41cd33d83508ad", "e1b5f4eed4286fd6", "e1d60bdaeb2eed45", "e633ef23f1aa47f4",
        "e7c0d93094c9ded7", "ebdf0480a1ed5dba", "ed144ac75dd52713", "f2f8799f98abfa56", "f4d0093557d2963d",
    }
)  # fmt: skip
"""The hash of each scenario of Date Understanding, of its training and its test file, in normalized form."""

_DATE = re.compile(_calendar.DATE)
_COUNT = re.compile(rf"\b{_calendar.COUNT}(?= {_calendar.UNIT}\b)", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+")
_NAMES = frozenset((*TEXTS["women"], *TEXTS["men"]))
_PRONOUNS = {"she": "he", "her": "his"}


def in_benchmark(scenario: str) -> bool:
    """Whether a scenario is one of Date Understanding."""
    return hash_of(scenario) in DATE_UNDERSTANDING


def hash_of(scenario: str) -> str:
    """A scenario → the hash of its normalized form, 16 hexadecimal digits."""
    return digest(normalize(scenario)).hex()[:16]


def normalize(scenario: str) -> str:
    """A scenario → its words: `Tomorrow is Nov 12, 2019.` → `Tomorrow is 20191112`; names become `who0`, `who1` in order."""
    text = _COUNT.sub(lambda found: str(_calendar.count_of(found[0])), _DATE.sub(_digits, unjudged(scenario)))
    people: dict[str, str] = {}
    words = []
    for word in _WORD.findall(text):
        if word in _NAMES:
            word = people.setdefault(word, f"who{len(people)}")
        words.append(_PRONOUNS.get(word.lower(), word))
    return " ".join(words)


def _digits(found: re.Match[str]) -> str:
    day = _calendar.of_match(found)
    return found[0] if day is None else f"{day:%Y%m%d}"
