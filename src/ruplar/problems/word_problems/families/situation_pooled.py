"""Situation, lots that are pooled: of two people, days, boxes or sources; then some go, or all of it is parted or sold."""

from ruplar.problems.word_problems.parts import listing
from ruplar.problems.word_problems.short import count
from ruplar.problems.word_problems.situations.telling import DONE, OWNED, TIMES, Clause, Tale
from ruplar.problems.word_problems.situations.then import RESTS, then
from ruplar.problems.word_problems.story import Redraw, Story

STEPS = (2, 4)
GROUP = "situations"
_KEPT = tuple(f for f in OWNED if not f.place and not f.measure and f.holders)
_WORKED = tuple(f for f in DONE if f.gain and not f.measure and f.holders)


def build(story: Story) -> None:
    """Write one problem."""
    ends = story.pick((1, 1, 2) if story.goal > 2 else (1,))
    story.pick((_people, _people, _times, _boxes, _sources, _kinds))(story, story.goal - ends, ends)


def _counts(story: Story, lots: int) -> list[int]:
    values = [count(story, 3) for _ in range(lots)]
    if len(set(values)) < lots:
        raise Redraw
    return values


def _people(story: Story, adds: int, ends: int) -> None:
    """Two or three put together what they have."""
    tale = Tale(story, _KEPT)
    if adds > 2:
        raise Redraw
    tale.two_people()
    tale.keep = ""
    who, values = [tale.a, tale.b, tale.c][: adds + 1], _counts(story, adds + 1)
    told = [tale.has(n, tale.x, p) for n, p in zip(values, who, strict=True)]
    pool = story.pick(("They put all of them together", "They pooled them", f"Together they put them into one {story.pick(('pile', 'heap', 'box'))}"))  # fmt: skip
    told.append(Clause(pool))
    then(story, tale, told, story.add_up(values), ends, together=True)


def _times(story: Story, adds: int, ends: int) -> None:
    """Somebody gets some at one time and some at another."""
    tale = Tale(story, _WORKED)
    tale.timed, tale.keep = True, ""
    if adds > 2:
        raise Redraw
    verb = tale.verb("gain")
    if any(word in verb.past for word in ("morning", "vacation", "birthday", "Halloween", "wedding", "dinner")):
        raise Redraw
    values = _counts(story, adds + 1)
    told = [tale.did(verb, n, tale.x, when=when) for n, when in zip(values, story.pick(TIMES), strict=False)]
    then(story, tale, told, story.add_up(values), ends)


def _boxes(story: Story, adds: int, ends: int) -> None:
    """What one box has and what another has."""
    tale = Tale(story, _KEPT)
    tale.keep = ""
    if adds > 2:
        raise Redraw
    holder, values = story.pick(tale.frame.holders), _counts(story, adds + 1)
    if adds == 1:
        told = [Clause(f"has a big {holder.one} with {values[0]} {tale.x} and a small one with {values[1]} {tale.x}", tale.a)]  # fmt: skip
    else:
        told = [Clause(f"has three {holder.many} of {tale.x}", tale.a), Clause(f"There are {listing([str(n) for n in values])} {tale.x} {holder.put} them")]  # fmt: skip
    then(story, tale, told, story.add_up(values), ends)


def _sources(story: Story, adds: int, ends: int) -> None:
    """Some were there, more come in one way and in another."""
    tale = Tale(story, _KEPT)
    verbs = [tale.verb("gain") for _ in range(adds)]
    if adds > 2 or len({v.past for v in verbs}) < adds:
        raise Redraw
    values = _counts(story, adds + 1)
    told = [tale.has(values[0], tale.x)]
    told += [tale.did(verb, n, tale.x, more=story.chance(0.5)) for verb, n in zip(verbs, values[1:], strict=True)]
    then(story, tale, told, story.add_up(values), ends)


def _kinds(story: Story, adds: int, ends: int) -> None:
    """So many of one kind and so many of another, which are then all the same."""
    tale = Tale(story, tuple(f for f in _KEPT if f.kinds))
    tale.keep = ""
    if adds != 1 or not tale.by_kind:
        raise Redraw
    values = _counts(story, 2)
    told = [Clause(f"has {values[0]} {tale.x} and {values[1]} {tale.y}", tale.a)]
    tale.x = tale.things
    then(story, tale, told, story.add_up(values), ends, only=RESTS)
