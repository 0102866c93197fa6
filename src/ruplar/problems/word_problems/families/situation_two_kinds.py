"""Situation, two kinds and what happens to them: four numbers, of which the question needs two, or all."""

from ruplar.problems.word_problems.short import count
from ruplar.problems.word_problems.situations.frames import Verb
from ruplar.problems.word_problems.situations.telling import COUNTED, OWNED, Clause, Tale
from ruplar.problems.word_problems.story import Redraw, Story

STEPS = (1, 3)
GROUP = "situations"
_FRAMES = tuple(f for f in OWNED if f in COUNTED)


def build(story: Story) -> None:
    """Write one problem."""
    tale = Tale(story, _FRAMES)
    if tale.x == tale.y:
        raise Redraw
    kind = story.pick(("gain", "lose", "lose"))
    n, m = count(story), count(story)
    p, q = (count(story, 2, 60 if kind == "gain" else max(2, v - 1)) for v in (n, m))
    if len({n, m, p, q}) < 4 or (kind == "lose" and (p >= n or q >= m)):
        raise Redraw
    verb = tale.verb(kind)
    pairs = [[(n, tale.x), (m, tale.y)], [(p, tale.x), (q, tale.y)]]
    for pair in pairs:
        story.rng.shuffle(pair)
    one = story.goal == 2
    if one:
        pairs[1] = [(p, tale.x)]
    told = [_had(story, tale, pairs[0]), _event(story, tale, verb, pairs[1])]
    tale.tell(told, _ask(story, tale, verb, kind, n, m, p, q))


def _listed(tale: Tale, pair: list[tuple[int, str]]) -> str:
    return " and ".join(tale.some(n, item) for n, item in pair)


def _had(story: Story, tale: Tale, pair: list[tuple[int, str]]) -> Clause:
    if tale.place:
        return Clause(f"There were {_listed(tale, pair)} {tale.place}")
    keep = f" {tale.keep}" if tale.keep and story.chance(0.7) else ""
    return Clause(f"had {_listed(tale, pair)}{keep}", tale.a)


def _event(story: Story, tale: Tale, verb: Verb, pair: list[tuple[int, str]]) -> Clause:
    return Clause(verb.past.replace("{x}", _listed(tale, pair)), None if tale.place else tale.a)


def _ask(story: Story, tale: Tale, verb: Verb, kind: str, n: int, m: int, p: int, q: int) -> str:
    """The question, its steps taken."""
    take = story.add if kind == "gain" else story.sub
    end = "now" if kind == "gain" else "left"
    if story.goal == 3:
        story.add(take(n, p), take(m, q))
        return tale.ask_has(tale.things, end)
    if story.goal == 2:
        take(story.add(n, m), p)
        return tale.ask_has(tale.things, end)
    way = story.between(0, 5)
    if way <= 1:
        take(n, p)
        return tale.ask_has(tale.x, end)
    if way == 2:
        take(m, q)
        return tale.ask_has(tale.y, end)
    if way == 3:
        story.add(p, q)
        return tale.ask_did(verb, tale.things, total=True)
    if way == 4:
        (more, less), (high, low) = ((tale.x, tale.y), (p, q)) if p > q else ((tale.y, tale.x), (q, p))
        story.sub(high, low)
        if tale.place:
            return f"How many more {more} than {less} {verb.past.replace('{x} ', '')}?"
        return f"How many more {more} than {less} did {tale.a.name} {verb.base}?"
    (more, less), (high, low) = ((tale.x, tale.y), (n, m)) if n > m else ((tale.y, tale.x), (m, n))
    story.sub(high, low)
    if tale.place:
        return f"How many more {more} than {less} were {tale.place} at first?"
    return f"How many more {more} than {less} did {tale.a.name} have at first?"
