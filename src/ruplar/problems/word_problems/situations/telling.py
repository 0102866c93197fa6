"""Frame and random numbers → clauses and questions, and the text they make: how a situation is told.

A schema (`families/situation_*.py`) says what is the case and what is asked, as clauses and one question; how they are put is
drawn here: who is named and who is `he`, which clauses share a sentence, whether the last one is told as an `if`, whether the
question comes first. So a dozen schemas and some forty frames make a great many wordings.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ruplar.problems.word_problems.short import DAYS
from ruplar.problems.word_problems.situations import at_home, out_and_about, places
from ruplar.problems.word_problems.situations.frames import Frame, Verb
from ruplar.problems.word_problems.situations.people import PERSONS
from ruplar.problems.word_problems.story import LARGEST, Redraw, Story
from ruplar.problems.word_problems.words import Person

FRAMES: tuple[Frame, ...] = at_home.FRAMES + out_and_about.FRAMES + places.FRAMES
OWNED = tuple(f for f in FRAMES if f.gain and f.lose)
"""Frames in which things come and go."""
HELD = tuple(f for f in FRAMES if f.holders)
PRICED = tuple(f for f in FRAMES if f.priced)
DONE = tuple(f for f in FRAMES if f.acts and not f.place)
"""Frames in which somebody does something."""
COUNTED = tuple(f for f in FRAMES if f.kinds)
"""Frames whose things come in kinds."""

TIMES = (
    *tuple((f"on {a}", f"on {b}", f"on {c}") for a, b, c in zip(DAYS, DAYS[1:], DAYS[2:], strict=False)),
    ("in the morning", "in the afternoon", "in the evening"),
    ("in the first week", "in the second week", "in the third week"),
    ("the day before yesterday", "yesterday", "today"),
    ("two months ago", "last month", "this month"),
    ("in May", "in June", "in July"),
    ("in January", "in February", "in March"),
    ("two years ago", "last year", "this year"),
    ("before lunch", "after lunch", "at night"),
    ("last summer", "in the winter", "this summer"),
    ("on the first day", "on the second day", "on the third day"),
)  # fmt: skip
"""Three times each at which something is done, one after the other."""
_LEADS = ("Last week", "One day", "During the summer", "Yesterday", "Over the weekend", "This morning", "On {day}", "In {month}", "A while ago")  # fmt: skip
_TIMED = re.compile(
    r"\b(?:on|in the|last|yesterday|today|now|lunch|night|birthday|vacation|later|after"
    r"|has|have|is|are|lives|wants|needs|puts|holds?|fits?|shares?|costs?|can|earns|gets)\b",
    re.IGNORECASE,
)
"""Where a clause has one of these, a time or a verb in the present, the tale is not opened with a time."""
_STATE = re.compile(
    r"(?:also |now |still |already )?(?:has|had|is|lives|wants|wanted|needs|can|earns|gets|ended up|did so)\b"
)
"""How a clause begins that tells no event of its own: `then` does not go before it."""
_BESIDE = re.compile(r" than | as (?:many|much)\b")
"""What sets one beside another, which is no further event either."""
_BACK = re.compile(
    r"\b(?:them|these|they|that|everyone|rest|others|it costs|did so|same number|\d+ (?:in|on)|more(?!.* than ))\b"
    r"|\b(?:one|each)\?",
    re.IGNORECASE,
)
"""Words that need what was said just before."""
_WIDE = frozenset((
    *("people", "passengers", "students", "tourists", "guests", "visitors", "kids", "fans", "teenagers", "players"),
    *("workers", "members", "volunteers", "employees", "children", "adults", "soldiers", "scouts", "campers", "dancers"),
    *("singers", "actors", "swimmers", "musicians", "customers", "clients", "birds", "fish", "boats"),
    *("ships", "books", "trees", "bushes", "candies", "tickets", "photos", "pictures", "toys"),
))  # fmt: skip
"""Things that others of their frame may be as well: they are told by kind only, never beside those."""
_OPENERS = ("There", "They", "One", "Together", "Now", "After", "In", "The", "Each", "Every", "Today", "A", "All")
"""Words that a clause without a subject may begin with; within a sentence they are small. All else is a name."""
_NUMBERS = re.compile(r"\d+")
_MONTHS = ("January", "March", "April", "June", "August", "October", "December")


@dataclass(frozen=True)
class Clause:
    """Something that is the case.

    Attributes:
        text: What is said of the subject, or all of it when there is none.
        subject: Who; None where the text names it.
    """

    text: str
    subject: Person | None = None


class Tale:
    """The words of one situation.

    Args:
        story: The problem in the making; its random numbers are the only ones.
        frames: Frames to draw from.

    Attributes:
        frame: The one drawn.
        a: Who it is about; a name, or `the farmer`.
        b: Somebody else.
        c: A third.
        x: The things it is about, in the plural: `red apples`.
        y: Other things beside them: `green apples`, `pears`.
        z: A third lot.
        things: What x and y are together: `apples`; `apples and pears`.
        kinds: What tells them apart: `red` and `green`; the things themselves where they are of two sorts.
        by_kind: Whether x and y are of one sort; z is of another then, or is `other apples`.
        about: `holders` or `prices` where the tale is about these, so that idle clauses say nothing of them.
        timed: Whether it needs no `last week` at the beginning.
    """

    def __init__(self, story: Story, frames: Sequence[Frame] = FRAMES):
        self.story, self.frame = story, story.pick(frames)
        self.a, self.b, self.c = story.rng.sample(PERSONS, 3)
        if self.frame.workers and story.chance(0.2):
            he = story.pick(PERSONS)
            self.a = Person(f"the {story.pick(self.frame.workers)}", he.he, he.him, he.his)
        self.place = story.pick(self.frame.place) if self.frame.place else ""
        self.keep = self._fill(story.pick(self.frame.keeps)) if self.frame.keeps and story.chance(0.5) else ""
        things = self.frame.things
        sorts = [thing for thing in things if thing not in _WIDE]
        if self.frame.kinds and (len(sorts) < 3 or story.chance(0.55)):
            self.things = story.pick(things)
            kinds = list(story.pick(self.frame.kinds))
            story.rng.shuffle(kinds)
            self.x, self.y = (f"{kind} {self.things}" for kind in kinds)
            others = [thing for thing in sorts if thing != self.things and self.things not in _WIDE]
            self.z = story.pick(others) if others else f"other {self.things}"
            self.kinds = tuple(kinds)
            self.by_kind = True
        else:
            drawn = story.rng.sample(sorts, min(3, len(sorts)))
            self.x, self.y, self.z = (drawn * 3)[:3]
            self.things = f"{self.x} and {self.y}"
            self.by_kind = False
            self.kinds = (self.x, self.y)
        self.about = ""
        self.timed = not story.chance(0.15)
        self._two, self._opening = False, ""

    # --- words ---
    def _fill(self, text: str) -> str:
        return text.replace("{b}", self.b.name).replace("{his}", self.a.his)

    def some(self, n: int | None, item: str, more: bool = False) -> str:
        """`12 apples`, `some apples`, `12 more apples`, `$12`."""
        if self.frame.money and item == "dollars":
            if n is None:
                return "some more money" if more else "some money"
            return f"${n} more" if more else f"${n}"
        number = "some" if n is None else str(n)
        return f"{number} more {item}" if more else f"{number} {item}"

    def many(self, item: str) -> str:
        """`How many apples`; `How much money` where it is dollars."""
        if self.frame.money and item == "dollars":
            return self.story.pick(("How much money", "How much money", "How many dollars"))
        return f"How many {item}"

    def verb(self, kind: str = "acts") -> Verb:
        """Something of this kind that may be done, its slots filled."""
        options: tuple[Verb, ...] = getattr(self.frame, kind)
        if not options:
            raise Redraw
        found = self.story.pick(options)
        return Verb(self._fill(found.past), self._fill(found.base))

    # --- clauses ---
    def has(
        self, n: int | None, item: str, who: Person | None = None, now: bool = False, more: bool = False
    ) -> Clause:
        """That somebody has, or had, so many; or that so many are, or were, in a place."""
        who = who or self.a
        amount = self.some(n, item, more)
        if self.place:
            verb = self.story.pick(("There are", "There are now")) if now else "There were"
            return Clause(f"{verb} {amount} {self.place}")
        keep = f" {self.keep}" if self.keep and who is self.a else ""
        return Clause(f"{'has' if now else 'had'} {amount}{keep}", who)

    def did(self, verb: Verb, n: int | None, item: str, who: Person | None = None, more: bool = False, when: str = "") -> Clause:  # fmt: skip
        """That somebody did it with so many."""
        text = verb.past.replace("{x}", self.some(n, item, more)) + (f" {when}" if when else "")
        if self.place:
            return Clause(text)
        return Clause(text, who or self.a)

    # --- questions ---
    def ask_has(self, item: str, how: str, who: Person | None = None) -> str:
        """How many there are `now`, `left`, `in all`, or were `at first`."""
        who = who or self.a
        pick, many, name = self.story.pick, self.many(item), self._again(who)
        if self.place:
            return pick({
                "now": (f"{many} are {self.place} now?", f"{many} are there {self.place} now?"),
                "left": (f"{many} are left {self.place}?", f"{many} are still {self.place}?", f"{many} are {self.place} now?"),
                "first": (f"{many} were {self.place} at first?", f"{many} were there {self.place} in the beginning?", f"{many} were {self.place} to begin with?"),
                "all": (f"{many} are {self.place} in all?", f"{many} are there altogether?", f"{many} are there in total {self.place}?"),
            }[how])  # fmt: skip
        return pick({
            "now": (f"{many} does {name} have now?", f"{many} does {name} now have?", f"{many} does {name} have in the end?", f"{many} does {name} have?"),
            "left": (f"{many} does {name} have left?", f"{many} are left?" if many != "How much money" else "How much money is left?", f"{many} does {name} still have?", f"{many} did {name} have left?", f"{many} remain?" if many != "How much money" else "How much money remains?"),
            "first": (f"{many} did {name} have at first?", f"{many} did {name} have to start with?", f"{many} did {name} have in the beginning?", f"{many} did {name} start with?"),
            "all": (f"{many} does {name} have in all?", f"{many} does {name} have altogether?", f"{many} does {name} have in total?"),
        }[how])  # fmt: skip

    def ask_did(self, verb: Verb, item: str, who: Person | None = None, when: str = "", total: bool = False) -> str:
        """How many it was done with."""
        tail = f" {when}" if when else ""
        tail += f" {self.story.pick(('in all', 'altogether', 'in total'))}" if total else ""
        if self.place:
            return f"How many {item} {_past(verb)}{tail}?"
        return f"{self.many(item)} did {self._again(who or self.a)} {verb.base}{tail}?"

    def _again(self, who: Person) -> str:
        """A person as a question names them: by name mostly."""
        return who.he if who is self.a and self.story.chance(0.3) and not self._two else who.name

    def two_people(self) -> None:
        """Name everybody from now on: `he` would not tell who is meant."""
        self._two = True

    # --- the text ---
    def tell(self, clauses: Sequence[Clause], question: str, idle: Clause | None = None, share: float = 0.35) -> None:
        """Say the clauses and the question, now and then with an idle clause among them."""
        story, told = self.story, list(clauses)
        if idle is not None and story.chance(share):
            first = 0 if idle.subject else 1
            at = [i for i in range(first, len(told) + 1) if i == len(told) or not _BACK.search(told[i].text)]
            told.insert(story.pick(at), idle)
            question = question.replace(f" {self.a.he} ", f" {self.a.name} ")
        if not self.timed and not any(_TIMED.search(clause.text) for clause in told):
            self._opening = story.pick(_LEADS).format(day=story.pick(DAYS), month=story.pick(_MONTHS)) + ", "
        way = story.rng.random()
        if way < 0.12 and len(told) > 1 and told[-1] is not idle:
            story.text.extend(self._sentences(told[:-1]))
            story.text.append(f"If {self._whole(told[-1], told[-2].subject)}, {_lower(question)}")
        elif way < 0.2 and len(told) <= 2 and idle not in told and not _BACK.search(question):
            said = [
                self._whole(c, before.subject if before else None)
                for before, c in zip([None, *told], told, strict=False)
            ]
            question = question.replace(f" {self.a.he} ", f" {self.a.name} ")
            story.text.append(f"{question[:-1]} if {' and '.join(said)}?")
        else:
            story.text.extend(self._sentences(told))
            story.text.append(question)
        story.text[:] = [_capital(text) for text in story.text]
        if any(int(n) > LARGEST for text in story.text for n in _NUMBERS.findall(text)):
            raise Redraw

    def _sentences(self, told: Sequence[Clause]) -> list[str]:
        """Clauses → sentences; two of one subject may share one."""
        found: list[str] = []
        before: Clause | None = None
        for clause in told:
            same = before is not None and clause.subject is not None and clause.subject is before.subject
            beside = _BESIDE.search(clause.text) is not None
            event = not beside and not _STATE.match(clause.text)
            apart = beside or (found and (" and " in found[-1] or _BESIDE.search(found[-1])))
            if found and same and not apart and self.story.chance(0.3):
                joint = self.story.pick((" and ", " and ", " and then ", ", then ")) if event else " and "
                found[-1] = f"{found[-1][:-1]}{joint}{clause.text}."
            else:
                lead = ""
                if same and event and self.story.chance(0.15):
                    lead = self.story.pick(("Then ", "Later ", "After that, "))
                found.append(f"{lead}{self._whole(clause, before.subject if before else None)}.")
            before = clause
        if found and self._opening:
            found[0] = self._opening + found[0]
        return found

    def _whole(self, clause: Clause, last: Person | None) -> str:
        """A clause with its subject: `he` where the one before was of the same person."""
        if clause.subject is None:
            return _lower(clause.text) if clause.text.split(" ", 1)[0] in _OPENERS else clause.text
        who = clause.subject
        use_he = last is who and not self._two and self.story.chance(0.7)
        return f"{who.he if use_he else who.name} {clause.text}"


def idle(tale: Tale, *used: int) -> Clause:
    """A clause with a number that is not needed, is none of those that are, and says nothing of what the tale is about."""
    story = tale.story
    x = story.between(2, 60)
    if x in used:
        raise Redraw
    apart = not tale.place and not tale.frame.measure and tale.z not in (tale.x, tale.y, f"other {tale.things}")
    own = tale.z if apart and tale.frame.gain else "cousins"
    options = [Clause(f"{said} {x} {what}", tale.c) for said, what in (("is", "years old"), ("has", own), ("lives", "miles away"))]  # fmt: skip
    if tale.frame.holders and tale.about != "holders":
        holder = story.pick(tale.frame.holders)
        options.append(Clause(f"had {x} empty {holder.many}", tale.c))
        if apart:
            options.append(Clause(f"Each {holder.one} can hold {x} {tale.z}"))
    if tale.frame.priced and tale.about != "prices":
        options += [Clause(f"The {tale.things} cost ${x} each"), Clause(f"had ${x}", tale.c)]
    if apart:
        verb = tale.verb()
        if tale.b.name not in verb.past and tale.a.his not in verb.past.split():
            options.append(tale.did(verb, x, tale.z, tale.c))
    return story.pick(options)


def _past(verb: Verb) -> str:
    """`{x} flew away` → `flew away`."""
    return verb.past.replace("{x} ", "")


def _lower(text: str) -> str:
    return text[0].lower() + text[1:]


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
