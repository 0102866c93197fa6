"""Situation, so many a day: all of them, how many a day, how many days; two who work together, or what is left to do."""

from ruplar.problems.word_problems.short import count, lots
from ruplar.problems.word_problems.situations.frames import Verb
from ruplar.problems.word_problems.situations.telling import DONE, Clause, Tale, idle
from ruplar.problems.word_problems.story import Redraw, Story

STEPS = (1, 2)
GROUP = "situations"
_UNITS = (("day", "days"), ("hour", "hours"), ("week", "weeks"), ("month", "months"), ("afternoon", "afternoons"), ("morning", "mornings"))  # fmt: skip
_MISHAPS = ("lost", "broke", "wasted", "spilled", "threw")
"""What nobody sets out to do, nor does day after day."""


def build(story: Story) -> None:
    """Write one problem."""
    tale = Tale(story, DONE)
    tale.timed = True
    if tale.frame.measure and tale.x in ("hours", "minutes", "days"):
        raise Redraw
    verb = tale.verb()
    if len(verb.past.split()) > 2 or tale.b.name in verb.past or verb.past.split()[0] in _MISHAPS:
        raise Redraw
    ways = {1: (_all, _each, _times), 2: (_two, _more, _left, _and)}
    story.pick(ways[story.goal])(story, tale, verb, story.pick(_UNITS))


def _all(story: Story, tale: Tale, verb: Verb, unit: tuple[str, str]) -> None:
    (k, m), (one, many) = lots(story), unit
    text = verb.past.replace("{x}", tale.some(m, tale.x))
    told = story.pick(([Clause(f"{text} {story.pick(('every', 'each'))} {one} for {k} {many}", tale.a)], [Clause(f"{text} every {one}", tale.a), Clause(f"did so for {k} {many}", tale.a)]))  # fmt: skip
    tale.tell(told, tale.ask_did(verb, tale.x, total=story.chance(0.7)), idle(tale, k, m), 0.25)
    story.mul(k, m)


def _each(story: Story, tale: Tale, verb: Verb, unit: tuple[str, str]) -> None:
    (k, m), (one, many) = lots(story), unit
    text = verb.past.replace("{x}", tale.some(k * m, tale.x))
    told = [Clause(story.pick((f"{text} in {k} {many}, the same number every {one}", f"{text} over {k} {many}, equally many each {one}")), tale.a)]  # fmt: skip
    question = f"{tale.many(tale.x)} did {tale.a.name} {verb.base} {story.pick(('each', 'every', 'per'))} {one}?"
    tale.tell(told, question, idle(tale, k, k * m), 0.25)
    story.div(k * m, k)


def _times(story: Story, tale: Tale, verb: Verb, unit: tuple[str, str]) -> None:
    (k, m), (one, many) = lots(story), unit
    told = [Clause(f"{verb.past.replace('{x}', tale.some(m, tale.x))} {story.pick(('every', 'each'))} {one}", tale.a)]
    question = f"How many {many} did it take {tale.a.name} to {verb.base} {tale.some(k * m, tale.x)}?"
    if not verb.past.endswith("{x}"):
        raise Redraw
    tale.tell(told, question, idle(tale, m, k * m), 0.25)
    story.div(k * m, m)


def _two(story: Story, tale: Tale, verb: Verb, unit: tuple[str, str]) -> None:
    """Two do it side by side: together, or how many more."""
    (k, m), (one, many), n = lots(story), unit, story.between(2, 20)
    if m == n or tale.a.his in verb.past.split():
        raise Redraw
    tale.two_people()
    told = [
        Clause(f"{verb.past.replace('{x}', tale.some(v, tale.x))} each {one}", p)
        for v, p in ((m, tale.a), (n, tale.b))
    ]
    if m < n or story.chance(0.5):
        question = f"{tale.many(tale.x)} did they {verb.base} together in {k} {many}?"
        tale.tell(told, question)
        story.mul(story.add(m, n), k)
    else:
        first = "How much more money" if tale.frame.money else f"How many more {tale.x}"
        tale.tell(told, f"{first} did {tale.a.name} {verb.base} than {tale.b.name} in {k} {many}?")
        story.mul(story.sub(m, n), k)


def _more(story: Story, tale: Tale, verb: Verb, unit: tuple[str, str]) -> None:
    """Some days at one rate, and some besides."""
    (k, m), (one, many), n = lots(story), unit, count(story)
    told = [Clause(f"{verb.past.replace('{x}', tale.some(m, tale.x))} each {one} for {k} {many}", tale.a)]
    told.append(tale.did(verb, n, tale.x, more=True, when="after that"))
    tale.tell(told, tale.ask_did(verb, tale.x, total=True))
    story.add(story.mul(k, m), n)


def _left(story: Story, tale: Tale, verb: Verb, unit: tuple[str, str]) -> None:
    """So many are to be done: how many are left after some days."""
    (k, m), (one, many), rest = lots(story), unit, count(story)
    if not verb.past.endswith("{x}"):
        raise Redraw
    told = [Clause(f"wanted to {verb.base} {tale.some(k * m + rest, tale.x)}", tale.a)]
    told.append(Clause(f"{verb.past.replace('{x}', tale.some(m, tale.x))} each {one} for {k} {many}", tale.a))
    left = "How much more money does" if tale.frame.money else f"How many more {tale.x} does"
    tale.tell(told, f"{left} {tale.a.name} have to {verb.base}?")
    story.sub(k * m + rest, story.mul(k, m))


def _and(story: Story, tale: Tale, verb: Verb, unit: tuple[str, str]) -> None:
    """Some were done at once, the rest at so many a day: how many days."""
    (k, m), (one, many), n = lots(story), unit, count(story)
    if not verb.past.endswith("{x}"):
        raise Redraw
    told = [Clause(f"had to {verb.base} {tale.some(k * m + n, tale.x)}", tale.a)]
    told += [tale.did(verb, n, tale.x, when="at once"), Clause(f"{verb.past.replace('{x}', tale.some(m, tale.x))} each {one} after that", tale.a)]  # fmt: skip
    tale.tell(told, f"How many {many} did it take {tale.a.name} to finish?")
    story.div(story.sub(k * m + n, n), m)
