"""Short, prices: what several cost, the change, which of two costs more, what one costs."""

from ruplar.problems.word_problems.short import apart, begin, lots, tell
from ruplar.problems.word_problems.story import Story

STEPS = (1, 2)
GROUP = "short"

_GOODS = (
    "notebooks",
    "tickets",
    "lamps",
    "mugs",
    "scarves",
    "plants",
    "plates",
    "games",
    "shirts",
    "ropes",
    "umbrellas",
    "brushes",
)
_COST = (
    ("{a} bought {k} {goods} for ${m} each.", "How many dollars did {he} pay?"),
    ("One of the {goods} costs ${m}.", "How much do {k} of them cost?"),
    ("A {worker} sells {goods} for ${m} each and sold {k} on {day}.", "How many dollars is that?"),
)
_CHANGE = (
    ("{a} bought {k} {goods} at ${m} each and paid with ${t}.", "How many dollars did {he} get back?"),
    ("{a} had ${t}.", "{He} bought {k} {goods} that cost ${m} each.", "How much money does {he} have left?"),
)
_PLUS = (
    ("{a} bought {k} {goods} at ${m} each and a bag for ${n}.", "How many dollars did {he} spend altogether?"),
    ("Sending {goods} home costs ${n}.", "{a} ordered {k} of them at ${m} each.", "How much did {he} pay in all?"),
)
_GAP = (
    ("A set of {goods} costs ${t} at one shop and ${n} at another.", "How much cheaper is the second shop?"),
    ("{a} has ${n}.", "A box of {goods} costs ${t}.", "How many more dollars does {he} need?"),
)  # fmt: skip
_IDLE = ("{c} has ${x}.", "The shop has {x} workers.", "Last week {b} bought {x} pens.")


def build(story: Story) -> None:
    """Write one problem."""
    begin(story)
    story.words["goods"] = story.pick(_GOODS)
    k, m = lots(story)
    idle = story.pick(_IDLE)
    if story.goal == 1:
        if story.chance(0.3):
            t = story.between(12, 240)
            n = story.between(3, t - 2)
            tell(story, *story.pick(_GAP), idle=idle, t=t, n=n, x=apart(story, t, n))
            story.sub(t, n)
        else:
            tell(story, *story.pick(_COST), idle=idle, k=k, m=m, x=apart(story, k, m))
            story.mul(k, m)
    elif story.chance(0.5):
        t = k * m + story.between(2, 60)
        tell(story, *story.pick(_CHANGE), idle=idle, share=0.2, k=k, m=m, t=t, x=apart(story, k, m, t))
        story.sub(t, story.mul(k, m))
    else:
        n = story.between(2, 60)
        tell(story, *story.pick(_PLUS), idle=idle, share=0.2, k=k, m=m, n=n, x=apart(story, k, m, n))
        story.add(story.mul(k, m), n)
