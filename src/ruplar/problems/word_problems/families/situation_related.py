"""Situation, relations: each lot is told by another (twice as many, half as many, 5 fewer); one, two or all of them are asked."""

from ruplar.problems.word_problems.parts import listing
from ruplar.problems.word_problems.short import count
from ruplar.problems.word_problems.situations.people import PERSONS
from ruplar.problems.word_problems.situations.telling import COUNTED, DONE, TIMES, Clause, Tale
from ruplar.problems.word_problems.story import Redraw, Story

STEPS = (2, 4)
GROUP = "situations"
CONSTANTS = {"third": (3,), "quarter": (4,), "triple": (3,), "double": (2,)}
_PARTS = {2: "half", 3: "a third", 4: "a quarter"}
_TOTALS = ("altogether", "in all", "in total", "together")


def build(story: Story) -> None:
    """Write one problem."""
    # (lots told by another, how it is asked): the chain takes a step a lot and the question none, one or as many again
    ways = {2: ((2, "last"), (1, "all"), (1, "apart")), 3: ((2, "pair"), (2, "apart"), (3, "last")), 4: ((2, "all"), (3, "pair"), (3, "apart"))}  # fmt: skip
    lots, asked = story.pick(ways[story.goal])
    story.pick((_people, _people, _times, _kinds))(story, lots, asked)


def _relations(story: Story, lots: int, asked: str) -> tuple[list[int], list[str]]:
    """The first lot and each of the others by the one before: their sizes, and `twice as many {x} as`."""
    values, said = [count(story, 4, 80)], []
    for _ in range(lots):
        value = values[-1]
        way = story.rng.random()
        if way < 0.35:
            k = story.between(2, 5)
            said.append(f"{'twice' if k == 2 else f'{k} times'} as many {{x}} as")
            values.append(story.mul(value, k))
        elif way < 0.6:
            k = story.pick([k for k in _PARTS if value % k == 0 and value > k] or [0])
            if not k:
                raise Redraw
            said.append(f"{_PARTS[k]} as many {{x}} as")
            values.append(story.div(value, k))
        else:
            n = count(story, 2, 40)
            more = story.chance(0.55)
            said.append(f"{n} {'more' if more else 'fewer'} {{x}} than")
            values.append(story.add(value, n) if more else story.sub(value, n))
    if len(set(values)) < len(values) or min(values) < 2 or (asked == "apart" and _told_by_itself(said)):
        raise Redraw
    return values, said


def _told_by_itself(said: list[str]) -> bool:
    """Whether the distance of the first and the last is told, or nearly so: `5 more than`, and no `times`."""
    return not any(" as" in rel for rel in said)


def _ask(story: Story, values: list[int], asked: str, names: list[str], ask: str, x: str) -> str:
    """The question with its steps; `ask` has `{who}`: `does {who} have`."""

    def of(who: str) -> str:
        asking = ask.format(who=who)
        return asking.replace("does ", "do ", 1) if " and " in who and asking.startswith("does ") else asking

    if asked == "last":
        return f"How many {x} {of(names[-1])}?"
    if asked == "pair":
        story.add(values[-2], values[-1])
        return f"How many {x} {of(f'{names[-2]} and {names[-1]}')} {story.pick(_TOTALS)}?"
    if asked == "all":
        story.add_up(values)
        return f"How many {x} {of(listing(names))} {story.pick(_TOTALS)}?"
    high, low = (0, -1) if values[0] > values[-1] else (-1, 0)
    story.sub(values[high], values[low])
    return f"How many more {x} {of(names[high])} than {names[low]}?"


def _people(story: Story, lots: int, asked: str) -> None:
    """Each beside the one named before."""
    tale = Tale(story, tuple(f for f in DONE if not f.measure))
    tale.two_people()
    tale.keep = ""
    who = [tale.a, tale.b, tale.c, story.pick(PERSONS)][: lots + 1]
    if len({p.name for p in who}) < len(who):
        raise Redraw
    past, ask = "has {x}", "does {who} have"
    if not tale.frame.gain or story.chance(0.5):
        verb = tale.verb()
        past, ask = verb.past, f"did {{who}} {verb.base}"
        if tale.b.name in past or tale.a.his in past.split():
            raise Redraw
    values, said = _relations(story, lots, asked)
    told = [Clause(past.replace("{x}", f"{values[0]} {tale.x}"), who[0])]
    told += [
        Clause(
            f"{past.replace('{x}', rel.rsplit(' ', 1)[0].format(x=tale.x))} {rel.rsplit(' ', 1)[1]} {before.name}", p
        )
        for rel, p, before in zip(said, who[1:], who, strict=False)
    ]
    if len(told) > 2 and story.chance(0.25):
        told = told[1:] + told[:1]
    question = _ask(story, values, asked, [p.name for p in who], ask, tale.x)
    if asked == "all" and story.chance(0.4):
        question = question.replace(listing([p.name for p in who]), "they")
    tale.tell(told, question)


def _times(story: Story, lots: int, asked: str) -> None:
    """Each time beside the one before."""
    tale = Tale(story, tuple(f for f in DONE if not f.measure))
    tale.timed, tale.keep = True, ""
    times, verb = story.pick(TIMES), tale.verb()
    if lots > 2 or any(w in verb.past for w in ("morning", "lunch", "dinner", "birthday", "Halloween", "vacation")):
        raise Redraw
    values, said = _relations(story, lots, asked)
    names = list(times[: lots + 1])
    told = [tale.did(verb, values[0], tale.x, when=names[0])]
    told += [
        Clause(f"{verb.past.replace('{x}', rel.rsplit(' ', 1)[0].format(x=tale.x))} {when} {rel.rsplit(' ', 1)[1]} {before}", tale.a)
        for rel, when, before in zip(said, names[1:], names, strict=False)
    ]  # fmt: skip
    tale.tell(told, _ask(story, values, asked, names, f"did {tale.a.name} {verb.base} {{who}}", tale.x))


def _kinds(story: Story, lots: int, asked: str) -> None:
    """Things of three sorts, each beside the one before."""
    tale = Tale(story, tuple(f for f in COUNTED if f.gain and not f.place))
    items = [tale.x, tale.y, tale.z][: lots + 1]
    if lots > 2 or len(set(items)) < len(items) or asked == "pair":
        raise Redraw
    values, said = _relations(story, lots, asked)
    told = [tale.has(values[0], items[0], now=True)]
    told += [
        Clause(f"has {rel.format(x=item)} {before}", tale.a) for rel, item, before in zip(said, items[1:], items, strict=False)
    ]  # fmt: skip
    name = tale.a.name
    if asked == "last":
        question = f"How many {items[-1]} does {name} have?"
    elif asked == "all":
        story.add_up(values)
        question = f"How many {listing(items)} does {name} have {story.pick(_TOTALS)}?"
    else:
        high, low = (0, -1) if values[0] > values[-1] else (-1, 0)
        story.sub(values[high], values[low])
        question = f"How many more {items[high]} than {items[low]} does {name} have?"
    tale.tell(told, question)
