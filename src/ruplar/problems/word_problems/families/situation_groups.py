"""Situation, equal groups: all of them, how many in each, how many groups; then more, fewer or other groups."""

from ruplar.problems.word_problems.short import count, lots
from ruplar.problems.word_problems.situations.telling import HELD, Clause, Tale, idle
from ruplar.problems.word_problems.story import Redraw, Story

STEPS = (1, 3)
GROUP = "situations"
_CREW = ("friends", "children", "students", "people", "kids", "neighbors", "classmates", "cousins", "workers", "teams", "families")  # fmt: skip


def build(story: Story) -> None:
    """Write one problem."""
    tale = Tale(story, HELD)
    tale.about = "holders"
    way = {1: (_all, _all, _each, _shared, _groups), 2: (_and_loose, _less, _of_two, _groups_of_sum, _fewer_groups), 3: (_two_sizes,)}  # fmt: skip
    story.pick(way[story.goal])(story, tale)


def _box(story: Story, tale: Tale) -> tuple[str, str, str]:
    return story.pick(tale.frame.holders)


def _all(story: Story, tale: Tale) -> None:
    (k, m), (one, many, put) = lots(story), _box(story, tale)
    x, a = tale.x, tale.a
    told = story.pick((
        [Clause(f"has {k} {many} of {x}", a), Clause(f"Each {one} has {m} {x}")],
        [Clause(f"There are {m} {x} {put} each {one}"), Clause(f"has {k} {many}", a)],
        [Clause(f"has {k} {many} with {m} {x} {put} each {one}", a)],
        [Clause(f"put {m} {x} {put} each of {k} {many}", a)],
        [Clause(f"filled {k} {many} with {m} {x} each", a)] if put == "in" else [Clause(f"needs {k} {many} of {m} {x} each", a)],
        [Clause(f"There are {k} {many} and {m} {x} {put} each of them")],
    ))  # fmt: skip
    question = story.pick((f"How many {x} are there in all?", f"How many {x} are there altogether?", f"How many {x} does {a.name} have?", f"How many {x} is that in total?"))  # fmt: skip
    if told[0].text.startswith("needs"):
        question = f"How many {x} does {a.name} need?"
    elif told[-1].subject is None and len(told) == 1:
        question = story.pick((f"How many {x} are there in all?", f"How many {x} are there altogether?"))
    tale.tell(told, question, idle(tale, k, m), 0.3)
    story.mul(k, m)


def _each(story: Story, tale: Tale) -> None:
    (k, m), (one, many, put) = lots(story), _box(story, tale)
    x, a = tale.x, tale.a
    told = story.pick((
        [Clause(f"had {k * m} {x}", a), Clause(f"put them {put} {k} {many} with the same number {put} each", a)],
        [Clause(f"divided {k * m} {x} equally among {k} {many}", a)],
        [Clause(f"has {k} {many} with {k * m} {x} in total", a), Clause(f"Every {one} has the same number of {x}")],
        [Clause(f"There are {k * m} {x} {put} {k} {many}"), Clause(f"There are as many {put} one {one} as {put} another")],
    ))  # fmt: skip
    question = story.pick((f"How many {x} are {put} each {one}?", f"How many {x} does each {one} have?", f"How many {x} go {put} every {one}?"))  # fmt: skip
    tale.tell(told, question, idle(tale, k, k * m), 0.3)
    story.div(k * m, k)


def _shared(story: Story, tale: Tale) -> None:
    k, m = lots(story)
    crew, x, a = story.pick(_CREW), tale.x, tale.a
    told = story.pick((
        [Clause(f"shared {k * m} {x} equally among {k} {crew}", a)],
        [Clause(f"has {k * m} {x}", a), Clause(f"wants to give {k} {crew} the same number of {x}", a)],
        [Clause(f"{k} {crew} share {k * m} {x} equally")],
        [Clause(f"gave {k} {crew} {k * m} {x} in total", a), Clause(f"All {crew} got the same number")],
    ))  # fmt: skip
    question = story.pick((f"How many {x} does each of them get?", f"How many {x} does everyone get?", f"How many {x} are there for each?"))  # fmt: skip
    tale.tell(told, question, idle(tale, k, k * m), 0.3)
    story.div(k * m, k)


def _groups(story: Story, tale: Tale) -> None:
    (k, m), (one, many, put) = lots(story), _box(story, tale)
    x, a = tale.x, tale.a
    told = story.pick((
        [Clause(f"has {k * m} {x}", a), Clause(f"puts {m} {put} each {one}", a)],
        [Clause(f"Each {one} holds {m} {x}"), Clause(f"has {k * m} {x}", a)],
        [Clause(f"packed {k * m} {x} {put} {many} of {m} each", a)],
        [Clause(f"There are {k * m} {x}"), Clause(f"{m} {x} fit {put} one {one}")],
    ))  # fmt: skip
    question = f"How many {many} are needed for all the {x}?"
    if told[0].subject is a:
        question = story.pick((f"How many {many} are there?" if len(told) == 1 else question, f"How many {many} did {a.name} use?" if len(told) == 1 else f"How many {many} does {a.name} need?"))  # fmt: skip
    elif put == "in" and story.chance(0.5):
        question = f"How many {many} can be filled?"
    tale.tell(told, question, idle(tale, m, k * m), 0.3)
    story.div(k * m, m)


def _and_loose(story: Story, tale: Tale) -> None:
    """So many groups and some besides."""
    (k, m), (one, many, put), n = lots(story), _box(story, tale), count(story)
    x, a = tale.x, tale.a
    told = [Clause(f"had {k} {many} with {m} {x} {put} each", a)]
    told.append(story.pick((Clause(f"also had {n} {x} that were {put} no {one}", a), Clause(f"bought {n} more {x}", a), Clause(f"{tale.b.name} brought {n} more {x}"))))  # fmt: skip
    tale.tell(told, story.pick((f"How many {x} are there in all?", f"How many {x} are there altogether?")))
    story.add(story.mul(k, m), n)


def _less(story: Story, tale: Tale) -> None:
    """So many groups and some of it gone."""
    (k, m), (_, many, put), n = lots(story), _box(story, tale), count(story)
    told = [Clause(f"had {k} {many} of {tale.x} with {m} {put} each", tale.a)]
    told.append(tale.did(tale.verb("lose"), n, tale.x))
    tale.tell(told, tale.ask_has(tale.x, "left"), None)
    story.sub(story.mul(k, m), n)


def _of_two(story: Story, tale: Tale) -> None:
    """Two lots put together, then into groups."""
    (k, m), (one, many, put) = lots(story), _box(story, tale)
    total = k * m
    n = story.between(1, total - 1)
    if n < 2 or total - n < 2 or tale.x == tale.y:
        raise Redraw
    told = [Clause(f"has {n} {tale.x} and {total - n} {tale.y}", tale.a)]
    if story.chance(0.5):
        told.append(Clause(story.pick((f"puts them {put} {many} of {m}", f"puts {m} {put} each {one}")), tale.a))
        question = story.pick((f"How many {many} are there?", f"How many {many} does {tale.a.name} need?"))
        tale.tell(told, question, idle(tale, n, total - n, m), 0.2)
        story.div(story.add(n, total - n), m)
    else:
        told.append(Clause(f"puts the same number {put} each of {k} {many}", tale.a))
        tale.tell(told, f"How many {tale.things} are {put} each {one}?", idle(tale, n, total - n, k), 0.2)
        story.div(story.add(n, total - n), k)


def _groups_of_sum(story: Story, tale: Tale) -> None:
    """Some are gone, the rest goes into groups."""
    (k, m), (one, many, put), n = lots(story), _box(story, tale), count(story)
    total = k * m + n
    told = [Clause(f"had {total} {tale.x}", tale.a)]
    told.append(tale.did(tale.verb("lose"), n, story.pick((tale.x, "of them"))))
    if story.chance(0.5):
        told.append(Clause(f"put the rest {put} {many} of {m} each", tale.a))
        tale.tell(told, story.pick((f"How many {many} were there?", f"How many {many} did {tale.a.name} fill?" if put == "in" else f"How many {many} did {tale.a.name} use?")))  # fmt: skip
        story.div(story.sub(total, n), m)
    else:
        told.append(Clause(f"put the rest equally {put} {k} {many}", tale.a))
        tale.tell(told, f"How many {tale.x} were {put} each {one}?")
        story.div(story.sub(total, n), k)


def _fewer_groups(story: Story, tale: Tale) -> None:
    """Some groups more, or fewer: then all."""
    (k, m), (_, many, put), j = lots(story), _box(story, tale), story.between(2, 9)
    tell, more = tale.tell, story.chance(0.4)
    first = Clause(f"had {k} {many} with {m} {tale.x} {put} each", tale.a)
    if more:
        tell(
            [first, Clause(f"bought {j} more {many} like these", tale.a)],
            f"How many {tale.x} does {tale.a.name} have now?",
        )
        story.mul(story.add(k, j), m)
    else:
        tell([first, Clause(story.pick((f"gave {j} of the {many} to {tale.b.name}", f"sold {j} {many}")), tale.a)], f"How many {tale.x} does {tale.a.name} have left?")  # fmt: skip
        story.mul(story.sub(k, j), m)


def _two_sizes(story: Story, tale: Tale) -> None:
    """Groups of one size and of another: all, or how many more."""
    (k, m), (j, other), (_, many, put) = lots(story), lots(story), _box(story, tale)
    if len({k, m, j, other}) < 4 or tale.x == tale.y:
        raise Redraw
    told = [Clause(f"has {k} {many} of {tale.x} and {j} {many} of {tale.y}", tale.a)]
    told.append(
        Clause(f"There are {m} {tale.x} {put} each of the first and {other} {tale.y} {put} each of the others")
    )
    first, second = story.mul(k, m), story.mul(j, other)
    if first > second and story.chance(0.4):
        tale.tell(told, f"How many more {tale.x} than {tale.y} does {tale.a.name} have?")
        story.sub(first, second)
    else:
        tale.tell(told, f"How many {tale.things} does {tale.a.name} have in all?")
        story.add(first, second)
