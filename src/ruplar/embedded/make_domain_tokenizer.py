r"""Build the tokenizer and the config of a domain's model: `python -m ruplar.embedded.make_domain_tokenizer dates OUT`.

A symbol of a domain should be one token, the same one in every position. The tokenizer of the word problems splits `Jul` and
`terpus` into several tokens, so each domain has a small tokenizer of its own, built from the text of its generator, and a
backbone trained from scratch (`ruplar train dates-cot`):

- dates: months, units, years (1880 to 2099) and other words of steps are one token each, without a space;
- logic: names and concepts are one token each, without a space; `Every `, ` is a ` and ` or ` are tokens with their spaces.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path

from ruplar.domains._calendar import MONTHS
from ruplar.embedded.make_tokenizer import MARKS, TokenizerPlan, write
from ruplar.problems import date_problems, logic_problems
from ruplar.problems.date_scenarios import EARLIEST, FULL_MONTHS, LATEST

_SEED, _COUNT = 1, 3000
_OPEN = r" (?=\\boxed\{)|\\boxed\{| ?<<|>>"
_CLOSE = r"|\s+(?!\S)|\s"
_UNITS = ("hour", "day", "week", "month", "year")
_ORDINALS = (
    *("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh"),
    *("twelfth", "last"),
)
_WORDS = (*FULL_MONTHS, *MONTHS, *_UNITS, *(f"{unit}s" for unit in _UNITS), *_ORDINALS, "quarter", "Christmas", "Eve")
_BARE = "|".join(sorted(dict.fromkeys(_WORDS), key=len, reverse=True))

DATES_PATTERN = (
    _OPEN + rf"|(?:{_BARE})(?!\p{{L}})"  # words of steps, never with a space
    rf"|'(?:s|t|re|ve|m|ll|d)(?!\p{{L}})| ?(?!(?:{_BARE})(?!\p{{L}}))\p{{L}}+"  # other words, with a leading space
    r"|\p{N}{4}(?!\p{N})|\p{N}{1,3}"  # years as a whole, other digits in groups of three
    r"|, (?=\p{N})|[^\s\p{L}\p{N}]" + _CLOSE
)
LOGIC_PATTERN = (
    _OPEN + r"| ?(?:Every|Is) (?=\p{L})| is an? (?=\p{L})| or (?:an? )?(?=\p{L})"  # the form of facts and questions
    r"|\p{L}+|\p{N}{1,3}|[^\s\p{L}\p{N}]" + _CLOSE
)


def _texts(problems) -> Iterable[str]:
    return ("\n".join((e.question, e.chain, e.answer)) for e in problems.generate(_COUNT, _SEED))


_NUMBERS = (*(f"{n:02d}" for n in range(100)), *map(str, range(100, 400)), *map(str, range(EARLIEST, LATEST + 1)))
PLANS = {
    "dates": TokenizerPlan(
        DATES_PATTERN,
        lambda: _texts(date_problems),
        tuple(dict.fromkeys((*_NUMBERS, *MARKS, *_WORDS))),
        1216,
    ),
    "logic": TokenizerPlan(
        LOGIC_PATTERN,
        lambda: _texts(logic_problems),
        MARKS,
        384,
    ),
}
"""Domain → the specification of its tokenizer."""

SHAPE = Path(__file__).parent / "backbone" / "config.json"
"""The embedded model's config, shared by the models of the domains except for the vocabulary size."""


def write_backbone(folder: Path, name: str) -> None:
    """Write the tokenizer of a domain, and a config.json with its vocabulary size; no weights."""
    write(folder, PLANS[name])
    shape = json.loads(SHAPE.read_text(encoding="utf-8")) | {"vocab_size": PLANS[name].vocabulary}
    (folder / "config.json").write_text(json.dumps(shape, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_backbone(Path(sys.argv[2]), sys.argv[1])
