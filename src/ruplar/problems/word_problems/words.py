"""Vocabulary of the word problems: the word lists of `words.yaml`, and frames: things, and what people do with them.

The frames are in `frames/*.yaml`. To add a frame, add an entry; `Frame` documents its fields.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

from ruplar.errors import UserError
from ruplar.problems.data_files import check_fields, frozen, load

FOLDER = Path(__file__).parent


class Person(NamedTuple):
    """A name and the pronouns that go with it."""

    name: str
    he: str
    him: str
    his: str


class Holder(NamedTuple):
    """Something that holds things: its singular, its plural, and the preposition before it."""

    one: str
    many: str
    put: str


def people(women: Iterable[str], men: Iterable[str]) -> tuple[Person, ...]:
    """Names → persons with their pronouns, the women first."""
    return (*(Person(n, "she", "her", "her") for n in women), *(Person(n, "he", "him", "his") for n in men))


WORDS: dict[str, Any] = frozen(load(FOLDER / "words.yaml"))
"""List name → words. Templates draw from these with `pick(name)`."""

PEOPLE = people(WORDS["women"], WORDS["men"])
"""The names are few on purpose: each is one token of the embedded tokenizer, and a tiny model sees it often."""

DISTRACTORS: tuple[str, ...] = WORDS["distractors"]
"""Sentences with a number that has nothing to do with the question; `{a}` is the main person."""

DIGIT_WORDS: tuple[str, ...] = WORDS["digits"]

HOLDERS = tuple(Holder(*one) for one in WORDS["holders"])


def listing(items: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


class Verb(NamedTuple):
    """An action on things."""

    past: str
    base: str


@dataclass(frozen=True)
class Frame:
    """A subject of situations: things, and what people do with them."""

    things: tuple[str, ...]  # what is counted, in the plural
    kinds: tuple[tuple[str, ...], ...] = ()  # pairs of words that distinguish some of the things from others
    gain: tuple[Verb, ...] = ()
    lose: tuple[Verb, ...] = ()
    do: tuple[Verb, ...] = ()  # what else is done with them, so many per day
    holders: tuple[Holder, ...] = ()
    keeps: tuple[str, ...] = ()  # where their owner has them: `in {his} pocket`; empty where nobody owns them
    workers: tuple[str, ...] = ()  # who has them instead of a person with a name: `farmer`
    # where they are when nobody owns them: `on the bus`. The things are then the subject of every verb.
    place: tuple[str, ...] = ()
    priced: bool = False  # whether they can be bought one by one
    money: bool = False
    measure: bool = False  # whether they are units (miles, hours), which have no holders and no kinds

    @property
    def acts(self) -> tuple[Verb, ...]:
        return self.gain + self.lose + self.do


def read_frame(value: object, where: str) -> Frame:
    """One entry of a frame file → the frame; verbs are `past | base`, kinds `red/green`, holders `box/boxes/in`."""
    given: dict[str, Any] = dict(check_fields(value, where, [f.name for f in fields(Frame)], ("things",)))
    for name in ("gain", "lose", "do"):
        given[name] = [Verb(*verb.split(" | ")) for verb in given.get(name, ())]
    given["kinds"] = [tuple(pair.split("/")) for pair in given.get("kinds", ())]
    given["holders"] = [Holder(*holder.split("/")) for holder in given.get("holders", ())]
    found: dict[str, Any] = {name: tuple(some) if isinstance(some, list) else some for name, some in given.items()}
    return Frame(**found)


FRAMES = tuple(
    read_frame(value, f"{path.name}: frames[{number}]")
    for path in sorted(FOLDER.glob("frames/*.yaml"))
    for number, value in enumerate(load(path)["frames"])
)


def frames_with(condition: str, where: str = "frames") -> tuple[Frame, ...]:
    """Frames whose fields fulfil a condition: `gain and not place`."""
    names = (*(f.name for f in fields(Frame)), "acts")
    code = compile(condition, where, "eval")
    found = tuple(f for f in FRAMES if eval(code, {"__builtins__": {}}, {n: getattr(f, n) for n in names}))  # noqa: S307
    if not found:
        raise UserError(f"{where}: no frame fulfils {condition!r}.")
    return found
