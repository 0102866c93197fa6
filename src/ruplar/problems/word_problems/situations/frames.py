"""Lines of text → frames: who may do what with which things, and where; the vocabulary of the situations.

A frame is what a situation can be told about: things, pairs of kinds they come in, what brings more of them and what takes
some away, what holds them. The files beside this one hold nothing but frames; one more frame is one more entry there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ruplar.problems.word_problems.short import Holder


class Verb(NamedTuple):
    """What somebody did with things.

    Attributes:
        past: The predicate with the things as `{x}`: `gave {x} to {b}`.
        base: The same as a question ends: `give to {b}`.
    """

    past: str
    base: str


@dataclass(frozen=True)
class Frame:
    """What a situation can be told about.

    Attributes:
        things: What is counted, in the plural.
        kinds: Pairs of words that tell one lot of the things from another.
        gain: What brings more of them.
        lose: What takes some of them away.
        do: What is done with them besides, so many a day.
        holders: What they are kept in.
        keeps: Where their owner has them: `in {his} pocket`; empty where nobody owns them.
        workers: Who has them instead of a person with a name: `farmer`.
        place: Where they are when nobody owns them: `on the bus`. The things are the subject of every verb then.
        priced: Whether they can be bought one by one.
        money: Whether the things are dollars.
        measure: Whether they are no things but units (miles, hours), which are in no holders and of no kinds.
    """

    things: tuple[str, ...]
    kinds: tuple[tuple[str, str], ...] = ()
    gain: tuple[Verb, ...] = ()
    lose: tuple[Verb, ...] = ()
    do: tuple[Verb, ...] = ()
    holders: tuple[Holder, ...] = ()
    keeps: tuple[str, ...] = ()
    workers: tuple[str, ...] = ()
    place: tuple[str, ...] = ()
    priced: bool = False
    money: bool = False
    measure: bool = False

    @property
    def acts(self) -> tuple[Verb, ...]:
        """All that may be done."""
        return self.gain + self.lose + self.do


def frame(
    things: str,
    kinds: str = "",
    *,
    gain: str = "",
    lose: str = "",
    do: str = "",
    holders: str = "",
    keeps: str = "",
    workers: str = "",
    place: str = "",
    priced: bool = False,
    money: bool = False,
    measure: bool = False,
) -> Frame:
    """A frame from lists that are written with commas.

    Args:
        things: `apples, pears`.
        kinds: `red/green, ripe/unripe`.
        gain: `picked {x} from a tree|pick from the tree, found {x}|find`.
        lose: Likewise.
        do: Likewise.
        holders: `basket/baskets/in`.
        keeps: `in {his} kitchen`.
        workers: `farmer, gardener`.
        place: `on the bus, at the stop`.
        priced: As in `Frame`, and so are the others.
        money: See there.
        measure: See there.
    """
    return Frame(
        things=_listed(things),
        kinds=tuple((a, b) for a, _, b in (pair.partition("/") for pair in _listed(kinds))),
        gain=_verbs(gain),
        lose=_verbs(lose),
        do=_verbs(do),
        holders=tuple(Holder(*one.split("/")) for one in _listed(holders)),
        keeps=_listed(keeps),
        workers=_listed(workers),
        place=_listed(place),
        priced=priced,
        money=money,
        measure=measure,
    )


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _verbs(text: str) -> tuple[Verb, ...]:
    return tuple(Verb(past, base) for past, _, base in (verb.partition("|") for verb in _listed(text)))
