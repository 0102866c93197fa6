"""Situation, a change: something is there, comes and goes; how many there are in the end."""

from ruplar.problems.word_problems.short import count
from ruplar.problems.word_problems.situations.telling import HELD, OWNED, Clause, Tale, idle
from ruplar.problems.word_problems.story import Redraw, Story

STEPS = (1, 3)
GROUP = "situations"
_IN_LOTS = tuple(f for f in OWNED if f in HELD and not f.place)


def build(story: Story) -> None:
    """Write one problem."""
    lots = story.goal > 1 and story.chance(0.3)
    tale = Tale(story, _IN_LOTS if lots else OWNED)
    if lots:
        tale.about = "holders"
        told, value = _lots(story, tale)
    else:
        value = count(story)
        told = [tale.has(value, tale.x)]
    used, kind = [value], ""
    while story.left:
        kind = story.pick([k for k in ("gain", "lose", "lose") if k != kind] or ["lose"])
        n = count(story, 2, 99 if kind == "gain" else max(2, value - 1))
        item = tale.x if lots else _named(story, tale, kind)
        told.append(tale.did(tale.verb(kind), n, item, more=kind == "gain" and item == tale.x and story.chance(0.6)))
        value = story.add(value, n) if kind == "gain" else story.sub(value, n)
        used.append(n)
    tale.tell(told, tale.ask_has(tale.x, "left" if kind == "lose" and story.chance(0.8) else "now"), idle(tale, *used))


def _lots(story: Story, tale: Tale) -> tuple[list[Clause], int]:
    """So many boxes of so many."""
    k, m = story.between(2, 12), story.between(2, 20)
    holder = story.pick(tale.frame.holders)
    text = story.pick((
        f"had {k} {holder.many} with {m} {tale.x} {holder.put} each {holder.one}",
        f"had {k} {holder.many} of {tale.x} with {m} {holder.put} each",
        f"had {m} {tale.x} {holder.put} each of {k} {holder.many}",
    ))  # fmt: skip
    return [Clause(text, tale.a)], story.mul(k, m)


def _named(story: Story, tale: Tale, kind: str) -> str:
    """How an event names the things: in full, or shorter since they have been named."""
    if tale.frame.money or story.chance(0.55):
        return tale.x
    if tale.frame.measure:
        raise Redraw
    return "of them" if kind == "lose" else "more"
