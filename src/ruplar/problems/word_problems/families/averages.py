"""Averages: several values are added up and divided evenly."""

from ruplar.problems.word_problems.parts import listing
from ruplar.problems.word_problems.story import Redraw, Story
from ruplar.problems.word_problems.words import DIGIT_WORDS

STEPS = (2, 5)

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday")
_THINGS = (
    ("sells", "cakes", "sell"),
    ("reads", "pages", "read"),
    ("drives", "miles", "drive"),
    ("catches", "fish", "catch"),
    ("plants", "flowers", "plant"),
    ("writes", "letters", "write"),
)
_AVERAGE = (
    "What is the average a day over the {count} days?",
    "How many {items} does {he} {do} a day on average over these {count} days?",
)
_TESTS = "{a} gets {list} points in {count} tests. What is {his} average result?"


def build(story: Story) -> None:
    """Write one problem."""
    # a list of c values takes c-1 sums and a division; what is left of the goal comes after or before
    extra = story.pick([e for e in (0, 1) if 2 <= story.goal - e <= 4])
    count = story.goal - extra
    values = [story.between(5, 90) for _ in range(count)]
    values[-1] += -sum(values) % count
    spelled = DIGIT_WORDS[count]
    if extra == 0 and story.chance(0.4):
        story.say(_TESTS, list=listing([str(v) for v in values]), count=spelled)
        story.div(story.add_up(values), count)
    else:
        does, items, do = story.pick(_THINGS)
        lines = [f"{v} {items} on {day}" for v, day in zip(values, _DAYS, strict=False)]
        story.say("{a} {does} {list}.", does=does, list=listing(lines))
        average = story.div(story.add_up(values), count)
        _ask(story, extra, average, {"count": spelled, "items": items, "do": do, "does": does})
    story.distract()


def _ask(story: Story, extra: int, average: int, slots: dict[str, str]) -> None:
    if not extra:
        story.say(story.pick(_AVERAGE), **slots)
    elif story.chance(0.5):
        k = story.between(2, 10)
        if average * k > 999:
            raise Redraw
        story.say(
            "{He} goes on with the average of these {count} days. How many {items} does {he} {do} in the next {k} days?",
            k=k,
            **slots,
        )
        story.mul(average, k)
    else:
        n = story.some(60)
        story.say(
            "{b} {does} {n} more {items} a day than {a}'s average over the {count} days. How many {items} does {b} {do} a day?",
            n=n,
            **slots,
        )
        story.add(average, n)
