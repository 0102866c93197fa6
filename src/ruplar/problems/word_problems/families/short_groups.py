"""Short, equal groups: so many in each of so many, perhaps with some more or some less."""

from ruplar.problems.word_problems.short import apart, begin, count, lots, tell
from ruplar.problems.word_problems.story import Story

STEPS = (1, 2)
GROUP = "short"

_ALL = (
    ("{a} has {k} {many} with {m} {things} {put} each.", "How many {things} does {a} have?"),
    ("There are {m} {things} {put} each {one}.", "How many {things} are there {put} {k} {many}?"),
    ("Each of {k} friends brings {m} {things}.", "How many {things} do they bring altogether?"),
    ("A {worker} makes {m} {things} a day.", "How many {things} are made in {k} days?"),
    ("{a} buys {k} packs of {things}.", "Every pack has {m}.", "How many {things} is that in total?"),
    ("{k} children went to the {place}, and each was given {m} {things}.", "How many {things} were given out?"),
    ("{a} needs {m} {things} for one lantern.", "How many {things} does {he} need for {k} lanterns?"),
)
_MORE = (
    ("{a} has {k} {many} of {m} {things} and {n} loose {things}.", "How many {things} does {he} have in all?"),
    (
        "{a} filled {k} {many} with {m} {things} each and had {n} {things} left over.",
        "How many {things} were there altogether?",
    ),
    ("Each of {k} friends gave {a} {m} {things}.", "{He} already had {n}.", "How many {things} does {a} have now?"),
)
_LESS = (
    ("{a} bought {k} {many} with {m} {things} in each and gave {n} {things} to {b}.", "How many {things} does {a} have left?"),
    ("The {worker} made {m} {things} a day for {k} days.", "{n} of them were bad.", "How many good {things} are there?"),
    ("There were {k} {many} of {m} {things}.", "{a} used {n} {things} on {day}.", "How many {things} remain?"),
)  # fmt: skip
_IDLE = (
    "The {place} is {x} years old.",
    "{c} has {x} pets.",
    "The trip took {x} minutes.",
    "{a} paid ${x} for lunch.",
)


def build(story: Story) -> None:
    """Write one problem."""
    begin(story)
    groups, size = lots(story)
    idle = story.pick(_IDLE)
    if story.goal == 1:
        tell(
            story,
            *story.pick(_ALL),
            idle=idle,
            k=groups,
            m=size,
            x=apart(story, groups, size),
        )
        story.mul(groups, size)
        return
    if story.chance(0.5):
        n = count(story)
        tell(story, *story.pick(_MORE), idle=idle, share=0.2, k=groups, m=size, n=n, x=apart(story, groups, size, n))
        story.add(story.mul(groups, size), n)
    else:
        n = story.between(2, groups * size - 1)
        tell(story, *story.pick(_LESS), idle=idle, share=0.2, k=groups, m=size, n=n, x=apart(story, groups, size, n))
        story.sub(story.mul(groups, size), n)
