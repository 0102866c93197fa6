"""Short, altogether: two or three amounts are put together, beside one that does not belong."""

from ruplar.problems.word_problems.short import ANIMALS, apart, begin, count, tell
from ruplar.problems.word_problems.story import Story

STEPS = (1, 2)
GROUP = "short"

_ONE = (
    ("{a} has {n} {things} and {b} has {m}.", "How many {things} do {a} and {b} have altogether?"),
    ("{n} {kind} {things} and {m} {other} {things} are {put} the {one}.", "How many {things} is that in all?"),
    ("{a} found {n} {things} on {day} and {m} on {later}.", "How many {things} did {he} find in total?"),
    ("There are {n} {animals} in one field and {m} in another.", "How many {animals} are there in both fields?"),
    ("{a} had {n} {things}.", "Then {b} gave {him} {m} more.", "How many {things} does {a} have now?"),
    ("{n} boys and {m} girls came to the {place}.", "How many children came?"),
    ("A {worker} sold {n} {things} before lunch and {m} after lunch.", "How many {things} were sold that day?"),
    ("{a} paid ${n} for a hat and ${m} for a scarf.", "How many dollars did {he} spend?"),
)
_TWO = (
    ("{a} has {n} {things}, {b} has {m} and {c} has {l}.", "How many {things} do the three have altogether?"),
    ("{a} picked {n} {things} on {day}, {m} on {later} and {l} the next day.", "How many {things} did {he} pick in all?"),
    ("A {worker} counted {n} {kind}, {m} {other} and {l} broken {things}.", "How many {things} were there in total?"),
    ("{a} drove {n} miles to the {place}, {m} miles to a lake and {l} miles back.", "How many miles did {he} drive?"),
)  # fmt: skip
_IDLE = (
    "{c} lives {x} miles away.",
    "Each of the {many} cost ${x}.",
    "Last year there were {x} more.",
    "{c} is {x} years old.",
)


def build(story: Story) -> None:
    """Write one problem."""
    begin(story)
    story.words["animals"] = story.pick(ANIMALS)
    n, m, rest = count(story), count(story), count(story)
    if story.goal == 1:
        tell(story, *story.pick(_ONE), idle=story.pick(_IDLE), n=n, m=m, x=apart(story, n, m))
        story.add(n, m)
        return
    tell(
        story,
        *story.pick(_TWO),
        idle="The day had {x} minutes of rain.",
        share=0.2,
        n=n,
        m=m,
        l=rest,
        x=apart(story, n, m, rest),
    )
    story.add(story.add(n, m), rest)
