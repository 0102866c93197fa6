"""Situation, something is missing: how many came, went or were there before, from what is there now."""

from ruplar.problems.word_problems.short import count
from ruplar.problems.word_problems.situations.telling import OWNED, Clause, Tale, idle
from ruplar.problems.word_problems.story import Redraw, Story

STEPS = (1, 2)
GROUP = "situations"


def build(story: Story) -> None:
    """Write one problem."""
    tale = Tale(story, OWNED)
    first, unknown = story.chance(0.45), story.pick(("gain", "lose"))
    kinds = [unknown] if story.goal == 1 else [story.pick(("gain", "lose")), unknown]
    values = [count(story)]
    amounts = []
    for kind in kinds:
        n = count(story, 2, 99 if kind == "gain" else max(2, values[-1] - 1))
        amounts.append(n)
        values.append(values[-1] + n if kind == "gain" else values[-1] - n)
    if min(values) < 2 or len({*values, *amounts}) < len(values) + len(amounts):
        raise Redraw
    verbs = [tale.verb(kind) for kind in kinds]
    if len(set(verbs)) < len(verbs):  # the question would not tell which of the two
        raise Redraw
    if first:
        told = [tale.has(None, tale.x)] if story.chance(0.5) else []
        told += [tale.did(v, n, tale.x) for v, n in zip(verbs, amounts, strict=True)]
        question = tale.ask_has(tale.x, "first")
        value = values[-1]
        for kind, n in zip(reversed(kinds), reversed(amounts), strict=True):
            value = story.sub(value, n) if kind == "gain" else story.add(value, n)
    else:
        told = [tale.has(values[0], tale.x)]
        told += [tale.did(v, n, tale.x) for v, n in zip(verbs[:-1], amounts, strict=False)]
        told.append(tale.did(verbs[-1], None, tale.x, more=unknown == "gain" and story.chance(0.5)))
        question = tale.ask_did(verbs[-1], tale.x)
        value = values[0]
        for kind, n in zip(kinds[:-1], amounts, strict=False):
            value = story.add(value, n) if kind == "gain" else story.sub(value, n)
        _ = story.sub(values[-1], value) if unknown == "gain" else story.sub(value, values[-1])
    told.append(_now(story, tale, values[-1], kinds[-1]))
    tale.tell(told, question, idle(tale, *values, *amounts), 0.25)


def _now(story: Story, tale: Tale, n: int, kind: str) -> Clause:
    """What is there in the end."""
    amount = tale.some(n, tale.x)
    if tale.place:
        return Clause(story.pick((f"Now there are {amount} {tale.place}", f"After that there were {amount} {tale.place}", f"In the end {amount} were {tale.place}")))  # fmt: skip
    left = (f"has {amount} left", f"still has {amount}", f"had {amount} left") if kind == "lose" else ()
    return Clause(story.pick((f"now has {amount}", f"has {amount} now", f"ended up with {amount}", *left)), tale.a)
