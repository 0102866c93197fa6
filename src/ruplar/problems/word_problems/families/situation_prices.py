"""Situation, prices: what things cost one by one and together, what is left, how many there are for the money."""

from ruplar.problems.word_problems.short import count, lots
from ruplar.problems.word_problems.situations.telling import PRICED, Clause, Tale, idle
from ruplar.problems.word_problems.story import Redraw, Story

STEPS = (1, 3)
GROUP = "situations"
_PACKS = ("box", "bag", "basket", "crate", "carton", "tray", "jar", "tin", "packet", "pack", "case", "bunch", "bucket", "set", "booklet")  # fmt: skip
"""Holders that things are sold in."""


def build(story: Story) -> None:
    """Write one problem."""
    tale = Tale(story, PRICED)
    tale.about = "prices"
    ways = {1: (_cost, _unit, _afford, _change, _dearer, _discount), 2: (_cost_and, _left, _cheaper, _afford_rest, _sets), 3: (_two_goods, _two_goods_left)}  # fmt: skip
    story.pick(ways[story.goal])(story, tale)


def _cost(story: Story, tale: Tale) -> None:
    (k, m), x, a = lots(story), tale.x, tale.a
    told = story.pick((
        [Clause(f"bought {k} {x} for ${m} each", a)],
        [Clause(f"The {x} cost ${m} each"), Clause(f"bought {k} of them", a)],
        [Clause(f"sold {k} {x} at ${m} each", a)],
        [Clause(f"wants to buy {k} {x} that cost ${m} each", a)],
    ))  # fmt: skip
    question = story.pick((f"How much did {a.name} {'get' if 'sold' in told[0].text else 'spend'}?", "How much money is that in all?", "How many dollars is that?"))  # fmt: skip
    if "wants" in told[0].text:
        question = story.pick((f"How much money does {a.name} need?", "How much will they cost in all?"))
    tale.tell(told, question, idle(tale, k, m), 0.25)
    story.mul(k, m)


def _unit(story: Story, tale: Tale) -> None:
    (k, m), x, a = lots(story), tale.x, tale.a
    told = story.pick(([Clause(f"paid ${k * m} for {k} {x}", a)], [Clause(f"spent ${k * m} on {k} {x} that all cost the same", a)], [Clause(f"sold {k} {x} for ${k * m} in total", a)]))  # fmt: skip
    tale.tell(told, story.pick(("How much was each of them?", "What was the price of one?", f"How much did each of the {x} cost?")), idle(tale, k, k * m), 0.25)  # fmt: skip
    story.div(k * m, k)


def _afford(story: Story, tale: Tale) -> None:
    (k, m), x, a = lots(story), tale.x, tale.a
    told = story.pick(([Clause(f"has ${k * m}", a), Clause(f"The {x} cost ${m} each")], [Clause(f"The {x} cost ${m} each"), Clause(f"spent ${k * m} on {x}", a)]))  # fmt: skip
    question = f"How many {x} can {a.name} buy?" if "has" in told[0].text else f"How many {x} did {a.name} buy?"
    tale.tell(told, question, idle(tale, m, k * m), 0.25)
    story.div(k * m, m)


def _change(story: Story, tale: Tale) -> None:
    n = count(story)
    rest, x, a = count(story, 2, 60), tale.x, tale.a
    told = [Clause(f"had ${n + rest}", a), Clause(story.pick((f"spent ${n} on {x}", f"bought some {x} for ${n}")), a)]
    tale.tell(told, story.pick((f"How much money does {a.name} have left?", "How much money is left?", f"How many dollars does {a.name} still have?")), idle(tale, n, n + rest), 0.3)  # fmt: skip
    story.sub(n + rest, n)


def _dearer(story: Story, tale: Tale) -> None:
    n, m = count(story), count(story)
    if tale.x == tale.y or n <= m:
        raise Redraw
    told = [Clause(f"spent ${n} on {tale.x} and ${m} on {tale.y}", tale.a)]
    if story.chance(0.5):
        tale.tell(told, f"How much more did {tale.a.name} spend on {tale.x} than on {tale.y}?", idle(tale, n, m), 0.25)
        story.sub(n, m)
    else:
        tale.tell(told, f"How much did {tale.a.name} spend in all?", idle(tale, n, m), 0.25)
        story.add(n, m)


def _discount(story: Story, tale: Tale) -> None:
    m, d = count(story), count(story, 2, 40)
    box = story.pick(tale.frame.holders) if tale.frame.holders else None
    if box is None or box.one not in _PACKS or d >= m:
        raise Redraw
    up = story.chance(0.3)
    told = [Clause(f"One {box.one} of {tale.x} costs ${m}"), Clause(f"Today {'it costs' if up else 'there is a discount of'} ${d} {'more' if up else ''}".rstrip())]  # fmt: skip
    tale.tell(
        told,
        story.pick((f"How much does one {box.one} cost today?", f"How much is one {box.one} now?")),
        idle(tale, m, d),
        0.2,
    )
    _ = story.add(m, d) if up else story.sub(m, d)


def _cost_and(story: Story, tale: Tale) -> None:
    (k, m), n = lots(story), count(story)
    if tale.x == tale.y:
        raise Redraw
    told = [Clause(f"bought {k} {tale.x} for ${m} each", tale.a), Clause(f"also spent ${n} on {tale.y}", tale.a)]
    tale.tell(told, story.pick((f"How much did {tale.a.name} spend in all?", "How much money is that altogether?")))
    story.add(story.mul(k, m), n)


def _left(story: Story, tale: Tale) -> None:
    (k, m), rest = lots(story), count(story)
    told = [Clause(f"had ${k * m + rest}", tale.a), Clause(f"bought {k} {tale.x} for ${m} each", tale.a)]
    tale.tell(told, story.pick((f"How much money does {tale.a.name} have left?", "How many dollars are left?")))
    story.sub(k * m + rest, story.mul(k, m))


def _cheaper(story: Story, tale: Tale) -> None:
    (k, m), d = lots(story), story.between(2, 9)
    told = [Clause(f"The {tale.x} cost ${m + d} each"), Clause(f"has a coupon for ${d} off each of them", tale.a)]
    tale.tell(told, f"How much does {tale.a.name} pay for {k} {tale.x}?")
    story.mul(story.sub(m + d, d), k)


def _afford_rest(story: Story, tale: Tale) -> None:
    (k, m), n = lots(story), count(story)
    if tale.x == tale.y:
        raise Redraw
    told = [Clause(f"had ${k * m + n}", tale.a), Clause(f"spent ${n} on {tale.y}", tale.a)]
    tale.tell(told, f"How many {tale.x} at ${m} each can {tale.a.name} buy with the rest?")
    story.div(story.sub(k * m + n, n), m)


def _sets(story: Story, tale: Tale) -> None:
    (k, m), n = lots(story), story.between(2, 20)
    if tale.x == tale.y or m == n:
        raise Redraw
    told = [Clause(f"bought {k} {tale.x} and {k} {tale.y}", tale.a), Clause(f"The {tale.x} cost ${m} each and the {tale.y} ${n} each")]  # fmt: skip
    if story.chance(0.6) or m < n:
        tale.tell(told, f"How much did {tale.a.name} spend?")
        story.mul(k, story.add(m, n))
    else:
        tale.tell(told, f"How much more did the {tale.x} cost than the {tale.y}?")
        story.mul(k, story.sub(m, n))


def _goods(story: Story, tale: Tale) -> tuple[int, int, int, int]:
    (k, m), (j, n) = lots(story), lots(story)
    if len({k, m, j, n}) < 4 or tale.x == tale.y:
        raise Redraw
    return k, m, j, n


def _two_goods(story: Story, tale: Tale) -> None:
    k, m, j, n = _goods(story, tale)
    told = [Clause(f"bought {k} {tale.x} for ${m} each and {j} {tale.y} for ${n} each", tale.a)]
    tale.tell(told, story.pick((f"How much did {tale.a.name} spend in all?", "How much did everything cost?")))
    story.add(story.mul(k, m), story.mul(j, n))


def _two_goods_left(story: Story, tale: Tale) -> None:
    k, m, _, n = _goods(story, tale)
    rest = count(story)
    told = [Clause(f"had ${k * m + n + rest}", tale.a), Clause(f"bought {k} {tale.x} for ${m} each", tale.a), Clause(f"also paid ${n} for {tale.y}", tale.a)]  # fmt: skip
    tale.tell(told, f"How much money does {tale.a.name} have left?")
    story.sub(story.sub(k * m + n + rest, story.mul(k, m)), n)
