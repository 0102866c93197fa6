"""Situation, a whole and its parts: two or three lots make one, and one of them or all are asked."""

from ruplar.problems.word_problems.parts import listing
from ruplar.problems.word_problems.short import count
from ruplar.problems.word_problems.situations.telling import COUNTED, DONE, OWNED, Clause, Tale, idle
from ruplar.problems.word_problems.story import Redraw, Story

STEPS = (1, 2)
GROUP = "situations"
_KEPT = tuple(f for f in OWNED if not f.place)
_SORTED = tuple(f for f in COUNTED if f.gain)


def build(story: Story) -> None:
    """Write one problem."""
    story.pick((_lots, _lots, _rest, _people, _people_rest))(story)


def _lots(story: Story) -> None:
    """So many of one kind, so many of the other: all."""
    tale = Tale(story, COUNTED)
    values = [count(story) for _ in range(story.goal + 1)]
    items = [tale.x, tale.y, tale.z][: len(values)]
    if len(set(items)) < len(items) or f"other {tale.things}" in items:
        raise Redraw
    amounts = [tale.some(n, item) for n, item in zip(values, items, strict=True)]
    sorts = [tale.things] if tale.by_kind else [tale.x, tale.y]
    whole = listing([*sorts, tale.z][: len(sorts) + (len(values) > 2)])
    listed = listing(amounts)
    if tale.place:
        told = [Clause(f"There {story.pick(('are', 'were'))} {listed} {tale.place}")]
        now = " are" in told[0].text
        question = (
            f"How many {whole} {'are' if now else 'were'} there {story.pick(('in all', 'altogether', 'in total'))}?"
        )
    elif tale.frame.gain and story.chance(0.5):
        tale.keep = ""
        told = (
            [Clause(f"has {listed}", tale.a)] if story.chance(0.6) else [Clause(f"has {a}", tale.a) for a in amounts]
        )
        question = tale.ask_has(whole, "all")
    else:
        verb = tale.verb()
        told = [Clause(verb.past.replace("{x}", listed), tale.a)]
        question = tale.ask_did(verb, whole, total=True)
    tale.tell(told, question, idle(tale, *values))
    story.add_up(values)


def _rest(story: Story) -> None:
    """So many in all, so many of them of one kind: the others."""
    tale = Tale(story, _SORTED)
    values = [count(story) for _ in range(story.goal)]
    total = sum(values) + count(story)
    if tale.by_kind and story.goal > 1:
        raise Redraw
    kinds = [*tale.kinds, tale.z][: story.goal + 1]
    whole = tale.things if tale.by_kind else listing(kinds)
    said = [f"{n} of them {'were' if tale.place else 'are'} {kind}" for n, kind in zip(values, kinds, strict=False)]
    last = kinds[-1]
    told = [tale.has(total, whole, now=not tale.place), Clause(" and ".join(said))]
    are = "were" if tale.place else "are"
    told.append(Clause(story.pick((f"The rest {are} {last}", f"The others {are} {last}"))))
    question = story.pick(
        (f"How many of them {are} {last}?", f"How many {(tale.x, tale.y, tale.z)[story.goal]} {are} there?")
    )
    tale.tell(
        told[: 2 if "of them" in question and story.chance(0.3) else 3], question, idle(tale, *values, total), 0.2
    )
    for n in values:
        total = story.sub(total, n)


def _people(story: Story) -> None:
    """Two or three have, or did, so many each: all."""
    tale = Tale(story, DONE)
    tale.two_people()
    values = [count(story) for _ in range(story.goal + 1)]
    who = [tale.a, tale.b, tale.c][: len(values)]
    names = listing([p.name for p in who])
    ends = ("altogether", "in all", "in total", "together")
    if tale.frame.gain and story.chance(0.4):
        tale.keep = ""
        told = [tale.has(n, tale.x, p, now=True) for n, p in zip(values, who, strict=True)]
        question = f"{tale.many(tale.x)} do {story.pick(('they', names))} have {story.pick(ends)}?"
    else:
        verb = tale.verb()
        if tale.b.name in verb.past or tale.a.his in verb.past.split():
            raise Redraw
        told = [tale.did(verb, n, tale.x, p) for n, p in zip(values, who, strict=True)]
        question = f"{tale.many(tale.x)} did {story.pick(('they', names))} {verb.base} {story.pick(ends)}?"
    tale.tell(told, question, idle(tale, *values) if len(who) == 2 else None, 0.25)
    story.add_up(values)


def _people_rest(story: Story) -> None:
    """Two or three have so many together, and so many of it is the others': the rest."""
    tale = Tale(story, _KEPT)
    tale.two_people()
    tale.keep = ""
    values = [count(story) for _ in range(story.goal)]
    total = sum(values) + count(story)
    who = [tale.a, tale.b, tale.c][: story.goal + 1]
    names = listing([p.name for p in who])
    told = [Clause(f"{names} have {tale.some(total, tale.x)} {story.pick(('altogether', 'together', 'in all'))}")]
    told += [tale.has(n, tale.x, p, now=True) for n, p in zip(values, who, strict=False)]
    tale.tell(told, f"{tale.many(tale.x)} does {who[-1].name} have?")
    for n in values:
        total = story.sub(total, n)
