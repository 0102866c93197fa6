"""Short, before and after: what was there first is asked, from what came, went and is there now."""

from ruplar.problems.word_problems.short import apart, begin, count, tell
from ruplar.problems.word_problems.story import Story

STEPS = (1, 2)
GROUP = "short"

_GONE = (
    ("{a} gave {n} {things} to {b} and still has {r}.", "How many {things} did {a} have before?"),
    ("After {n} people left the {place}, {r} were still there.", "How many people were there at first?"),
    ("{a} spent ${n} and now has ${r}.", "How many dollars did {he} have at the start?"),
    (
        "A {worker} sold {n} {things} on {day} and had {r} left in the evening.",
        "How many {things} were there in the morning?",
    ),
    ("{a} cut {n} inches off a rope, which left {r} inches.", "How long was the rope before?"),
)
_BOTH = (
    (
        "{a} gave {n} {things} to {b} and got {m} from {c}.",
        "Now {he} has {t}.",
        "How many {things} did {a} have at first?",
    ),
    (
        "{n} people got off a bus and {m} got on.",
        "Then there were {t} people on it.",
        "How many people were on the bus before?",
    ),
    (
        "A {worker} sold {n} {things} and bought {m} new ones.",
        "At the end of {day} there were {t}.",
        "How many {things} were there at the start?",
    ),
)
_TWICE = (
    ("{a} gave {n} {things} to {b} and {m} to {c}.", "{He} has {r} left.", "How many {things} did {a} have at first?"),
    ("{n} people left the {place} at noon and {m} in the evening.", "{r} people stayed.", "How many people were there in the beginning?"),
    ("{a} paid ${n} for a coat and ${m} for shoes and has ${r} left.", "How many dollars did {he} have before?"),
)  # fmt: skip
_IDLE = ("{c} has {x} hats.", "There are {x} trees near the {place}.", "{b} is {x} years old.")


def build(story: Story) -> None:
    """Write one problem."""
    begin(story)
    n, rest, m = count(story), count(story), count(story)
    idle = story.pick(_IDLE)
    x = apart(story, n, rest, m)
    if story.goal == 1:
        tell(story, *story.pick(_GONE), idle=idle, n=n, r=rest, x=x)
        story.add(rest, n)
    elif story.chance(0.5):
        tell(story, *story.pick(_BOTH), idle=idle, share=0.15, n=n, m=m, t=rest + m, x=x)
        story.add(story.sub(rest + m, m), n)
    else:
        tell(story, *story.pick(_TWICE), idle=idle, share=0.15, n=n, m=m, r=rest, x=x)
        story.add(story.add(rest, m), n)
