"""Situation, two or three times: so many on one day, so many on another; some of them together, or how many more."""

from ruplar.problems.word_problems.short import count
from ruplar.problems.word_problems.situations.telling import DONE, TIMES, Clause, Tale, idle
from ruplar.problems.word_problems.story import Redraw, Story

STEPS = (1, 2)
GROUP = "situations"


def build(story: Story) -> None:
    """Write one problem."""
    tale = Tale(story, DONE)
    tale.timed = True
    verb = tale.verb()
    if any(
        word in verb.past
        for word in ("morning", "lunch", "week", "breakfast", "dinner", "birthday", "Halloween", "vacation")
    ):
        raise Redraw
    if tale.x in ("hours", "days"):  # there are not that many in a day
        raise Redraw
    times = list(story.pick(TIMES))
    values = [count(story) for _ in range(3)]
    if len(set(values)) < 3:
        raise Redraw
    third = story.goal == 2 or story.chance(0.5)
    told = [tale.did(verb, n, tale.x, when=when) for n, when in zip(values[: 2 + third], times, strict=False)]
    short = not tale.frame.money and story.chance(0.5)
    if short:  # the things are named once
        told[1:] = [
            Clause(verb.past.replace("{x}", str(n)) + f" {when}", tale.a)
            for n, when in zip(values[1 : 2 + third], times[1:], strict=False)
        ]
    n, m, rest = values
    other = None if short else idle(tale, *values)
    way = story.rng.random()
    if story.goal == 2:
        if way < 0.6:
            tale.tell(told, tale.ask_did(verb, tale.x, total=True), other, 0.3)
            story.add_up(values)
        else:
            first = "How much more money" if tale.frame.money else f"How many more {tale.x}"
            tale.tell(
                told, f"{first} did {tale.a.name} {verb.base} {times[0]} and {times[1]} together than {times[2]}?"
            )
            story.sub(story.add(n, m), rest)
    elif way < 0.45:
        when = f"{times[0]} and {times[1]}" if third else ""
        tale.tell(told, tale.ask_did(verb, tale.x, when=when, total=not third), other, 0.3)
        story.add(n, m)
    else:
        (high, low), (late, early) = ((n, m), (times[0], times[1])) if n > m else ((m, n), (times[1], times[0]))
        word = story.pick(("more", "more", "fewer"))
        one, rival = (late, early) if word == "more" else (early, late)
        first = (
            f"How much {'more' if word == 'more' else 'less'} money"
            if tale.frame.money
            else f"How many {word} {tale.x}"
        )
        tale.tell(told, f"{first} did {tale.a.name} {verb.base} {one} than {rival}?", other, 0.3)
        story.sub(high, low)
