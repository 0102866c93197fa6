"""Short, told by comparison: one has so many more, fewer or times as many as another; how many that is, or both."""

from ruplar.problems.word_problems.short import apart, begin, count, tell
from ruplar.problems.word_problems.story import Redraw, Story

STEPS = (1, 2)
GROUP = "short"

_MORE = (
    ("{a} has {n} {things}.", "{b} has {d} more {things} than {a}."),
    ("There are {n} {kind} {things} in a shop.", "There are {d} more {other} {things} than {kind} ones."),
    ("{a} ran {n} laps, and {b} ran {d} laps more than {a}."),
)
_FEWER = (
    ("{a} has {n} {things}.", "{b} has {d} fewer {things} than {a}."),
    ("There are {n} {kind} {things} in a shop.", "There are {d} fewer {other} {things} than {kind} ones."),
    ("{a} ran {n} laps, and {b} ran {d} laps fewer than {a}."),
)
_TIMES = (
    ("{a} has {n} {things}.", "{b} has {d} times as many {things} as {a}."),
    ("There are {n} {kind} {things} in a shop.", "There are {d} times as many {other} {things}."),
    ("{a} ran {n} laps, and {b} ran {d} times as many laps as {a}."),
)
_ASK = (
    ("How many {things} does {b} have?", "How many {things} do {a} and {b} have altogether?"),
    ("How many {other} {things} are there?", "How many {kind} and {other} {things} are there together?"),
    ("How many laps did {b} run?", "How many laps did the two run in all?"),
)
_TURNED = (
    "{a} has {h} {things}, which is {d} more than {b} has. How many {things} does {b} have?",
    "{a} has {h} {things}. That is {d} {things} more than {b}. How many {things} does {b} have?",
    "{a} sold {h} {things} on {day}, {d} more than on {later}. How many {things} were sold on {later}?",
    "There are {h} chairs at the {place}, {d} more than there are guests. How many guests are there?",
)  # fmt: skip


def build(story: Story) -> None:
    """Write one problem."""
    begin(story)
    n, d = count(story), count(story, 2, 60)
    if story.goal == 1 and story.chance(0.3):
        tell(story, story.pick(_TURNED), h=n + d, d=d)
        story.sub(n + d, d)
        return
    way = story.pick((_MORE, _FEWER, _TIMES))
    if way is _TIMES:
        d = story.between(2, 9)
    elif way is _FEWER and d >= n:
        raise Redraw
    at = story.between(0, 2)
    lines = way[at] if isinstance(way[at], tuple) else (way[at],)
    ask = _ASK[at][story.goal - 1]
    tell(story, *lines, ask, idle="{c} has {x} pencils.", share=0.3, n=n, d=d, x=apart(story, n, d))
    value = {_MORE: story.add, _FEWER: story.sub, _TIMES: story.mul}[way](n, d)
    if story.goal == 2:
        story.add(n, value)
