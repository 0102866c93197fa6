"""Comparing: each person has more, fewer or times as many as another; who has how many, and how many in all."""

from ruplar.problems.word_problems.running import compare
from ruplar.problems.word_problems.story import Redraw, Story
from ruplar.problems.word_problems.words import FRUITS, TOYS

STEPS = (1, 6)

_THINGS = (*TOYS, *FRUITS, "books", "cookies", "flowers", "toys")
_MORE = ("{n} more {items} than", "{n} fewer {items} than", "{t} as many {items} as")
_FIRST = ("{a} has {n} {items}.", "{a} owns {n} {items}.", "{a} found {n} {items}.")
_PLANS = {
    1: ((1, "ask"),),
    2: ((2, "ask"), (1, "total"), (1, "gap")),
    3: ((2, "gap"), (1, "share"), (3, "ask"), (1, "sell")),
    4: ((2, "total"), (3, "gap")),
    5: ((2, "share"), (2, "sell")),
    6: ((3, "total"),),
}
"""Goal → (how many people are compared with another, what is then asked)."""


def build(story: Story) -> None:
    """Write one problem."""
    others, then = story.pick(_PLANS[story.goal])
    people = [str(story.words[slot]) for slot in "abc"] + [story.person().name]
    if people[3] in people[:3]:
        raise Redraw
    story.words["items"] = story.pick(_THINGS)
    values = [story.amount(most=200)]
    story.say(story.pick(_FIRST), n=values[0])
    for i in range(1, others + 1):
        # when all are added up, the third may be compared with the first, so that steps do not only follow one another
        at = 0 if i == 2 and then in ("total", "share", "sell") and story.chance(0.4) else i - 1
        rel, value = compare(story, values[at], _MORE)
        story.say("{x} has {rel} {y}.", x=people[i], rel=rel, y=people[at])
        values.append(value)
    _ask(story, then, people[others], values)
    story.distract()


def _ask(story: Story, then: str, last: str, values: list[int]) -> None:
    if then == "ask":
        story.say("How many {items} does {x} have?", x=last)
    elif then == "gap":
        high, low = max(values[-1], values[0]), min(values[-1], values[0])
        # a gap that was told is no question
        if len(values) == 2 and not story.steps[0].startswith(f"{values[0]}*") and "/" not in story.steps[0]:
            raise Redraw
        story.say("How many {w} {items} does {x} have than {a}?", w="more" if high == values[-1] else "fewer", x=last)
        story.sub(high, low)
    else:
        total = story.add_up(values)
        if then == "total":
            ask = ("How many {items} do they have together?", "How many {items} do they have in total?")
            story.say(story.pick(ask if len(values) > 2 else (*ask, "How many {items} do both have in total?")))
        elif then == "share":
            k = story.divisor_of(total)
            story.say(
                "They put all the {items} into {k} boxes equally. How many {items} are in each box?", k=story.spell(k)
            )
            story.div(total, k)
        else:
            n = story.some(min(99, total // 2))
            story.say("Together they sell {n} {items}. How many {items} do they have left in total?", n=n)
            story.sub(total, n)
