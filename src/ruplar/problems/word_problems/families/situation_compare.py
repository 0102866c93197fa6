"""Situation, a comparison: how many more or fewer, how many the other has, or both; with the words for it either way round."""

from ruplar.problems.word_problems.short import count
from ruplar.problems.word_problems.situations.telling import COUNTED, DONE, Clause, Tale, idle
from ruplar.problems.word_problems.story import Redraw, Story

STEPS = (1, 3)
GROUP = "situations"


def build(story: Story) -> None:
    """Write one problem."""
    if story.goal == 1:
        story.pick((_difference, _kinds, _other, _turned, _times))(story)
    else:
        story.pick((_both, _both, _times_both))(story) if story.goal == 2 else _three(story)


def _start(story: Story) -> tuple[Tale, str, str]:
    """A tale of two people, and how its clauses begin: (`had`, `have`) or (`picked`, `pick`)."""
    tale = Tale(story, DONE)
    tale.two_people()
    tale.keep = ""
    if tale.frame.gain and story.chance(0.5):
        return tale, "has {x}", "does {who} have"
    verb = tale.verb()
    if tale.b.name in verb.past or tale.a.his in verb.past.split():
        raise Redraw
    return tale, verb.past, f"did {{who}} {verb.base}"


def _rel(tale: Tale, n: int, word: str, item: str) -> str:
    """`12 more apples`, `$12 less`, `12 fewer apples`."""
    if tale.frame.money:
        return f"${n} {'more' if word == 'more' else 'less'}"
    return f"{n} {word} {item}"


def _difference(story: Story) -> None:
    tale, past, ask = _start(story)
    n, m = count(story), count(story)
    told = [Clause(past.replace("{x}", tale.some(v, tale.x)), p) for v, p in ((n, tale.a), (m, tale.b))]
    more, less = (tale.a, tale.b) if n > m else (tale.b, tale.a)
    if story.chance(0.6):
        thing = "more money" if tale.frame.money else f"more {tale.x}"
        question = (
            f"How {'much' if tale.frame.money else 'many'} {thing} {ask.format(who=more.name)} than {less.name}?"
        )
    else:
        thing = "less money" if tale.frame.money else f"fewer {tale.x}"
        question = (
            f"How {'much' if tale.frame.money else 'many'} {thing} {ask.format(who=less.name)} than {more.name}?"
        )
    tale.tell(told, question, idle(tale, n, m))
    story.sub(max(n, m), min(n, m))


def _kinds(story: Story) -> None:
    tale = Tale(story, COUNTED)
    n, m = count(story), count(story)
    listed = f"{tale.some(n, tale.x)} and {tale.some(m, tale.y)}"
    more, less = (tale.x, tale.y) if n > m else (tale.y, tale.x)
    word = story.pick(("more", "more", "fewer"))
    first, second = (more, less) if word == "more" else (less, more)
    if tale.place:
        told = [Clause(f"There are {listed} {tale.place}")]
        question = f"How many {word} {first} than {second} are {story.pick(('there', tale.place))}?"
    elif tale.frame.gain and story.chance(0.5):
        told = [Clause(f"has {listed}", tale.a)]
        question = f"How many {word} {first} than {second} does {tale.a.name} have?"
    else:
        verb = tale.verb()
        told = [Clause(verb.past.replace("{x}", listed), tale.a)]
        question = f"How many {word} {first} than {second} did {tale.a.name} {verb.base}?"
    tale.tell(told, question, idle(tale, n, m))
    story.sub(max(n, m), min(n, m))


def _told(story: Story, tale: Tale, past: str, n: int, d: int, word: str) -> list[Clause]:
    """What the first has, and what the other has beside it."""
    first = Clause(past.replace("{x}", tale.some(n, tale.x)), tale.a)
    second = Clause(f"{past.replace('{x}', _rel(tale, d, word, tale.x))} than {tale.a.name}", tale.b)
    return [second, first] if story.chance(0.25) else [first, second]


def _other(story: Story) -> None:
    tale, past, ask = _start(story)
    n, d, word = count(story), count(story, 2, 60), story.pick(("more", "fewer"))
    tale.tell(
        _told(story, tale, past, n, d, word),
        f"{tale.many(tale.x)} {ask.format(who=tale.b.name)}?",
        idle(tale, n, d),
        0.25,
    )
    _ = story.add(n, d) if word == "more" else story.sub(n, d)


def _turned(story: Story) -> None:
    """The one that is known is told beside the one that is asked."""
    tale, past, ask = _start(story)
    n, d, word = count(story), count(story, 2, 60), story.pick(("more", "fewer"))
    rel = _rel(tale, d, word, tale.x)
    if story.chance(0.5) or not past.startswith("has"):  # told anew, what was done would be done twice
        less = "less" if tale.frame.money else "fewer"
        told = [Clause(f"{past.replace('{x}', tale.some(n, tale.x))}, which is {f'${d}' if tale.frame.money else d} {'more' if word == 'more' else less} than {tale.b.name}", tale.a)]  # fmt: skip
    else:
        told = [Clause(past.replace("{x}", tale.some(n, tale.x)), tale.a), Clause(f"{past.replace('{x}', rel)} than {tale.b.name}", tale.a)]  # fmt: skip
    tale.tell(told, f"{tale.many(tale.x)} {ask.format(who=tale.b.name)}?", idle(tale, n, d), 0.2)
    _ = story.sub(n, d) if word == "more" else story.add(n, d)


def _many_times(tale: Tale, k: int) -> str:
    times = "twice" if k == 2 else f"{k} times"
    return f"{times} as much money" if tale.frame.money else f"{times} as many {tale.x}"


def _times(story: Story) -> None:
    tale, past, ask = _start(story)
    n, k = count(story, 2, 60), story.between(2, 9)
    turned = story.chance(0.4)
    known, asked = (tale.b, tale.a) if turned else (tale.a, tale.b)
    value = n * k if turned else n
    first = past.replace("{x}", tale.some(value, tale.x))
    told = [Clause(first, known), Clause(f"{past.replace('{x}', _many_times(tale, k))} as {tale.a.name}", tale.b)]
    if turned and not past.startswith("has"):
        times = _many_times(tale, k).removesuffix(f" {tale.x}").removesuffix(" money")
        told = [Clause(f"{first}, which is {times} as {tale.a.name}", known)]
    tale.tell(told, f"{tale.many(tale.x)} {ask.format(who=asked.name)}?", idle(tale, value, k), 0.2)
    _ = story.div(value, k) if turned else story.mul(n, k)


def _times_both(story: Story) -> None:
    tale, past, ask = _start(story)
    n, k = count(story, 2, 60), story.between(2, 9)
    told = [Clause(past.replace("{x}", tale.some(n, tale.x)), tale.a), Clause(f"{past.replace('{x}', _many_times(tale, k))} as {tale.a.name}", tale.b)]  # fmt: skip
    value = story.mul(n, k)
    if story.chance(0.5):
        tale.tell(told, _together(story, tale, ask), None)
        story.add(n, value)
    else:
        thing = "much more money" if tale.frame.money else f"many more {tale.x}"
        tale.tell(told, f"How {thing} {ask.format(who=tale.b.name)} than {tale.a.name}?", None)
        story.sub(value, n)


def _together(story: Story, tale: Tale, ask: str) -> str:
    who = story.pick(("they", f"{tale.a.name} and {tale.b.name}"))
    asked = ask.format(who=who).replace("does ", "do ", 1) if ask.startswith("does") else ask.format(who=who)
    return f"{tale.many(tale.x)} {asked} {story.pick(('altogether', 'in all', 'in total', 'together'))}?"


def _both(story: Story) -> None:
    tale, past, ask = _start(story)
    n, d, word = count(story), count(story, 2, 60), story.pick(("more", "fewer"))
    tale.tell(_told(story, tale, past, n, d, word), _together(story, tale, ask), idle(tale, n, d), 0.2)
    story.add(n, story.add(n, d) if word == "more" else story.sub(n, d))


def _three(story: Story) -> None:
    tale, past, ask = _start(story)
    n, d, e = count(story), count(story, 2, 60), count(story, 2, 40)
    words = story.pick(("more", "fewer")), story.pick(("more", "fewer"))
    told = [Clause(past.replace("{x}", tale.some(n, tale.x)), tale.a)]
    told.append(Clause(f"{past.replace('{x}', _rel(tale, d, words[0], tale.x))} than {tale.a.name}", tale.b))
    told.append(Clause(f"{past.replace('{x}', _rel(tale, e, words[1], tale.x))} than {tale.b.name}", tale.c))
    second = story.add(n, d) if words[0] == "more" else story.sub(n, d)
    third = story.add(second, e) if words[1] == "more" else story.sub(second, e)
    pair = ask.format(who=f"{tale.a.name} and {tale.c.name}")
    pair = pair.replace("does ", "do ", 1) if ask.startswith("does") else pair
    tale.tell(told, f"{tale.many(tale.x)} {pair} {story.pick(('altogether', 'in all', 'together'))}?")
    story.add(n, third)
