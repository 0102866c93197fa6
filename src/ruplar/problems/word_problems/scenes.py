"""Frame and random numbers → the sentences of a situation problem.

A schema (a family of the group `situations`) provides clauses (its statements) and one question. The wording is drawn
here: whether a person is named or `he`, which clauses share a sentence, whether the last clause becomes an `if`, whether the
question comes first. So a dozen schemas and about forty frames (`frames/*.yaml`) give a great many wordings.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ruplar.problems.data_files import check_fields, frozen, load
from ruplar.problems.word_problems.story import LARGEST, Redraw, Story
from ruplar.problems.word_problems.words import FOLDER, FRAMES, WORDS, Frame, Holder, Person, Verb, frames_with, people


def read_scene(value: object, where: str) -> dict[str, Any]:
    """The `scene` field of a template → the arguments of `Scene`."""
    given = check_fields(value, where, ("frames", "about", "timed", "keep", "two_people"), ("frames",))
    return {**given, "frames": frames_with(given["frames"], f"{where}.frames")}


_TEXTS: dict[str, Any] = frozen(load(FOLDER / "scene_words.yaml"))
PERSONS = people(_TEXTS["women"], _TEXTS["men"])
"""Names of people in situations: many more than in the other problems, so that no name hints at a kind of problem."""
TIMES: tuple[tuple[str, ...], ...] = _TEXTS["times"]
"""Three times at which something is done, one after the other."""
_BROAD = frozenset(_TEXTS["broad"])
_TIMED = re.compile(
    r"\b(?:on|in the|last|yesterday|today|now|lunch|night|birthday|vacation|later|after"
    r"|has|have|is|are|lives|wants|needs|puts|holds?|fits?|shares?|costs?|can|earns|gets)\b",
    re.IGNORECASE,
)
"""Where a clause has one of these, a time or a verb in the present tense, no time is put before the first sentence."""
_STATE = re.compile(
    r"(?:also |now |still |already )?(?:has|had|is|lives|wants|wanted|needs|can|earns|gets|ended up|did so)\b"
)
"""The beginning of a clause that is not an event: `then` is not put before it."""
_COMPARES = re.compile(r" than | as (?:many|much)\b")
"""A comparison, which is not an event either."""
_REFERS = re.compile(
    r"\b(?:them|these|they|that|everyone|rest|others|it costs|did so|same number|\d+ (?:in|on)|more(?!.* than ))\b"
    r"|\b(?:one|each)\?",
    re.IGNORECASE,
)
"""Words that refer to the sentence just before."""
_OPENERS = ("There", "They", "One", "Together", "Now", "After", "In", "The", "Each", "Every", "Today", "A", "All")
"""Words that a clause without a subject may begin with; within a sentence they are lower case. All else is a name."""
_NUMBERS = re.compile(r"\d+")
_SUBJECTS = {"{a} ": "a", "{b} ": "b", "{c} ": "c", "{d} ": "d"}


@dataclass(frozen=True)
class Clause:
    """One statement of a problem."""

    text: str
    subject: Person | None = None

    def __str__(self) -> str:
        return self.text


class Scene:
    """The words of one situation problem: people a, b and c, things x, y and z, and what distinguishes them.

    `about` is `holders` or `prices` where the problem is about these, so that distractors do not mention them. `timed` says
    whether the problem needs no `last week` at the beginning (None: it is drawn), `keep` whether to say, sometimes, where the
    owner keeps the things, `two_people` whether `he` would be ambiguous.

    Attributes:
        x, y: The things it is about, in the plural: `red apples` and `green apples`, or `apples` and `pears`.
        things: x and y together: `apples`; `apples and pears`.
        kinds: What distinguishes x and y: `red` and `green`; the things themselves where they are different things.
    """

    def __init__(
        self,
        story: Story,
        frames: Sequence[Frame] = FRAMES,
        *,
        about: str = "",
        timed: bool | None = None,
        keep: bool = True,
        two_people: bool = False,
    ):
        self.story, self.frame, self.about = story, story.pick(frames), about
        self.a, self.b, self.c = story.rng.sample(PERSONS, 3)
        if self.frame.workers and story.chance(0.2):
            he = story.pick(PERSONS)
            self.a = Person(f"the {story.pick(self.frame.workers)}", he.he, he.him, he.his)
        self.place = story.pick(self.frame.place) if self.frame.place else ""
        self.keep = self._fill(story.pick(self.frame.keeps)) if self.frame.keeps and story.chance(0.5) else ""
        things = self.frame.things
        sorts = [thing for thing in things if thing not in _BROAD]
        if self.frame.kinds and (len(sorts) < 3 or story.chance(0.55)):
            self.things = story.pick(things)
            kinds = list(story.pick(self.frame.kinds))
            story.rng.shuffle(kinds)
            self.x, self.y = (f"{kind} {self.things}" for kind in kinds)
            others = [thing for thing in sorts if thing != self.things and self.things not in _BROAD]
            self.z = story.pick(others) if others else f"other {self.things}"
            self.kinds = tuple(kinds)
            self.by_kind = True
        else:
            drawn = story.rng.sample(sorts, min(3, len(sorts)))
            self.x, self.y, self.z = (drawn * 3)[:3]
            self.things = f"{self.x} and {self.y}"
            self.by_kind = False
            self.kinds = (self.x, self.y)
        no_lead = not story.chance(0.15)
        self.timed = no_lead if timed is None else timed
        self.keep = self.keep if keep else ""
        self.d = self.c
        self.two_people, self._opening = two_people, ""

    # --- words ---
    def _fill(self, text: str) -> str:
        return text.replace("{b}", self.b.name).replace("{his}", self.a.his)

    def quantity(self, n: int | None, item: str, more: bool = False) -> str:
        """`12 apples`, `some apples`, `12 more apples`, `$12`."""
        if self.frame.money and item == "dollars":
            if n is None:
                return "some more money" if more else "some money"
            return f"${n} more" if more else f"${n}"
        number = "some" if n is None else str(n)
        return f"{number} more {item}" if more else f"{number} {item}"

    def how_many(self, item: str) -> str:
        """`How many apples`; `How much money` where it is dollars."""
        if self.frame.money and item == "dollars":
            return self.story.pick(("How much money", "How much money", "How many dollars"))
        return f"How many {item}"

    def verb(self, kind: str = "acts") -> Verb:
        """An action of this kind, with its placeholders filled in."""
        options: tuple[Verb, ...] = getattr(self.frame, kind)
        if not options:
            raise Redraw
        found = self.story.pick(options)
        return Verb(self._fill(found.past), self._fill(found.base))

    def past(self, verb: Verb, what: str) -> str:
        """`gave {x} away` → `gave 12 apples away`."""
        return verb.past.replace("{x}", what)

    def owns(self) -> Verb:
        """The verb `has`."""
        return Verb("has {x}", "have")

    def name_everybody(self) -> None:
        """Use no pronouns from now on: `he` would be ambiguous."""
        self.two_people = True

    def fourth_person(self) -> str:
        """The name of a person `d`, perhaps one of the others."""
        self.d = self.story.pick(PERSONS)
        return self.d.name

    def holder(self) -> Holder:
        """One of the frame's holders."""
        return self.story.pick(self.frame.holders)

    def values(self) -> dict[str, Any]:
        """Name → value: what the texts and statements of a template may use."""
        return {
            **{"scene": self, "frame": self.frame, "keep": self.keep, "place": self.place, "his": self.a.his},
            **{"x": self.x, "y": self.y, "z": self.z, "things": self.things, "kinds": self.kinds},
            **{"a": self.a.name, "b": self.b.name, "c": self.c.name, "by_kind": self.by_kind, "times": TIMES},
        }

    # --- clauses ---
    def clause(self, template: str | Clause, words: Mapping[str, Any]) -> Clause:
        """A text of a template → its clause; `{a} had {n} {x}` has the subject a."""
        if isinstance(template, Clause):
            return template
        drawn = words.get(template[1:-1])  # "{name}" of a clause that a statement made
        if isinstance(drawn, Clause):
            return drawn
        subject = _SUBJECTS.get(template[:4])
        if subject is None:
            return Clause(template.format_map(words))
        return Clause(template[4:].format_map(words), getattr(self, subject))

    def has(
        self, n: int | None, item: str, who: Person | None = None, now: bool = False, more: bool = False
    ) -> Clause:
        """State that a person has or had a number of things, or that a number of things are or were in a place."""
        who = who or self.a
        amount = self.quantity(n, item, more)
        if self.place:
            verb = self.story.pick(("There are", "There are now")) if now else "There were"
            return Clause(f"{verb} {amount} {self.place}")
        keep = f" {self.keep}" if self.keep and who is self.a else ""
        return Clause(f"{'has' if now else 'had'} {amount}{keep}", who)

    def did(self, verb: Verb, n: int | None, item: str, who: Person | None = None, more: bool = False, when: str = "") -> Clause:  # fmt: skip
        """State that a person did this with a number of things."""
        text = verb.past.replace("{x}", self.quantity(n, item, more)) + (f" {when}" if when else "")
        if self.place:
            return Clause(text)
        return Clause(text, who or self.a)

    def distractor(self, *used: int) -> Clause:
        """A clause with an unneeded number, which is none of those used, about something the problem is not about."""
        story, frame = self.story, self.frame
        x = story.between(2, 60)
        if x in used:
            raise Redraw
        apart = not self.place and not frame.measure and self.z not in (self.x, self.y, f"other {self.things}")
        own = self.z if apart and frame.gain else "cousins"
        said = (f"is {x} years old", f"has {x} {own}", f"lives {x} miles away")
        options = [Clause(text, self.c) for text in said]
        if frame.holders and self.about != "holders":
            holder = self.holder()
            options.append(Clause(f"had {x} empty {holder.many}", self.c))
            if apart:
                options.append(Clause(f"Each {holder.one} can hold {x} {self.z}"))
        if frame.priced and self.about != "prices":
            options += [Clause(f"The {self.things} cost ${x} each"), Clause(f"had ${x}", self.c)]
        if apart:
            verb = self.verb()
            if self.b.name not in verb.past and self.a.his not in verb.past.split():
                options.append(self.did(verb, x, self.z, self.c))
        return story.pick(options)

    # --- questions ---
    def ask_has(self, item: str, how: str, who: Person | None = None) -> str:
        """Ask how many there are `now`, `left`, `in all`, or were `at first`."""
        who = who or self.a
        words = {"many": self.how_many(item), "name": self._name(who), "place": self.place}
        verbs = ("is", "remains") if words["many"] == "How much money" else ("are", "remain")
        words["are"], words["remain"] = verbs
        return self.story.pick(_TEXTS["ask_place" if self.place else "ask_has"][how]).format_map(words)

    def ask_did(self, verb: Verb, item: str, who: Person | None = None, when: str = "", total: bool = False) -> str:
        """Ask with how many it was done."""
        tail = f" {when}" if when else ""
        tail += f" {self.story.pick(('in all', 'altogether', 'in total'))}" if total else ""
        if self.place:
            past = verb.past.replace("{x} ", "")  # `{x} flew away` → `flew away`
            return f"How many {item} {past}{tail}?"
        return f"{self.how_many(item)} did {self._name(who or self.a)} {verb.base}{tail}?"

    def _name(self, who: Person) -> str:
        """A person in a question: mostly by name."""
        return who.he if who is self.a and self.story.chance(0.3) and not self.two_people else who.name

    # --- the text ---
    def write(
        self, clauses: Sequence[Clause], question: str, distractor: Clause | None = None, share: float = 0.35
    ) -> None:
        """Write the clauses and the question; with probability `share`, add a distractor."""
        story, clauses = self.story, list(clauses)
        if distractor is not None and story.chance(share):
            first = 0 if distractor.subject else 1
            last = len(clauses)
            at = [i for i in range(first, last + 1) if i == last or not _REFERS.search(clauses[i].text)]
            clauses.insert(story.pick(at), distractor)
            question = question.replace(f" {self.a.he} ", f" {self.a.name} ")
        if not self.timed and not any(_TIMED.search(clause.text) for clause in clauses):
            lead, day, month = (story.pick(some) for some in (_TEXTS["leads"], WORDS["days"], _TEXTS["months"]))
            self._opening = lead.format(day=day, month=month) + ", "
        way = story.rng.random()
        if way < 0.12 and len(clauses) > 1 and clauses[-1] is not distractor:
            story.text.extend(self._sentences(clauses[:-1]))
            story.text.append(f"If {self._with_subject(clauses[-1], clauses[-2].subject)}, {_lower(question)}")
        elif way < 0.2 and len(clauses) <= 2 and distractor not in clauses and not _REFERS.search(question):
            said = [
                self._with_subject(c, before.subject if before else None)
                for before, c in zip([None, *clauses], clauses, strict=False)
            ]
            question = question.replace(f" {self.a.he} ", f" {self.a.name} ")
            story.text.append(f"{question[:-1]} if {' and '.join(said)}?")
        else:
            story.text.extend(self._sentences(clauses))
            story.text.append(question)
        story.text[:] = [text[0].upper() + text[1:] for text in story.text]
        if any(int(n) > LARGEST for text in story.text for n in _NUMBERS.findall(text)):
            raise Redraw

    def _sentences(self, clauses: Sequence[Clause]) -> list[str]:
        """Clauses → sentences; two clauses with the same subject may share one."""
        found: list[str] = []
        before: Clause | None = None
        for clause in clauses:
            same = before is not None and clause.subject is not None and clause.subject is before.subject
            compares = _COMPARES.search(clause.text) is not None
            event = not compares and not _STATE.match(clause.text)
            apart = compares or (found and (" and " in found[-1] or _COMPARES.search(found[-1])))
            if found and same and not apart and self.story.chance(0.3):
                joint = self.story.pick((" and ", " and ", " and then ", ", then ")) if event else " and "
                found[-1] = f"{found[-1][:-1]}{joint}{clause.text}."
            else:
                lead = ""
                if same and event and self.story.chance(0.15):
                    lead = self.story.pick(("Then ", "Later ", "After that, "))
                found.append(f"{lead}{self._with_subject(clause, before.subject if before else None)}.")
            before = clause
        if found and self._opening:
            found[0] = self._opening + found[0]
        return found

    def _with_subject(self, clause: Clause, last: Person | None) -> str:
        """A clause with its subject; sometimes `he` where the clause before has the same subject."""
        if clause.subject is None:
            return _lower(clause.text) if clause.text.split(" ", 1)[0] in _OPENERS else clause.text
        who = clause.subject
        use_he = last is who and not self.two_people and self.story.chance(0.7)
        return f"{who.he if use_he else who.name} {clause.text}"


def _lower(text: str) -> str:
    return text[0].lower() + text[1:]


_WRITERS = {"values", "clause", "distractor", "write"}
SCENE_FUNCTIONS = {name for name in vars(Scene) if not name.startswith("_")} - _WRITERS
"""What the texts and statements of a template may use once there is a scene."""
