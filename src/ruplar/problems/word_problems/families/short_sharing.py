"""Short, sharing: how many each gets, or how many groups there are, perhaps after some came or went."""

from ruplar.problems.word_problems.short import apart, begin, count, lots, tell
from ruplar.problems.word_problems.story import LARGEST, Redraw, Story

STEPS = (1, 2)
GROUP = "short"

_EACH = (
    ("{a} has {t} {things} and shares them equally among {k} friends.", "How many {things} does each friend get?"),
    (
        "{t} {things} are put {put} {k} {many}, the same number {put} each.",
        "How many {things} are there {put} each {one}?",
    ),
    ("The {worker} made {t} {things} in {k} days, the same number every day.", "How many {things} were made a day?"),
    (
        "{k} children picked {t} {things} together and each picked as many as the others.",
        "How many {things} did each child pick?",
    ),
    ("{a} paid ${t} for {k} tickets to the {place}.", "How many dollars did one ticket cost?"),
)
_GROUPS = (
    ("{a} has {t} {things}.", "{He} puts {k} {put} each {one}.", "How many {many} does {he} need?"),
    ("{t} {things} are sorted into groups of {k}.", "How many groups are there?"),
    ("If {k} {things} fit {put} one {one}, how many {many} are needed for {t} {things}?"),
    ("{a} reads {k} pages a day.", "How many days does a book of {t} pages last?"),
    ("A van takes {k} people.", "How many vans do {t} people need to get to the {place}?"),
)
_AFTER_GAIN = (
    (
        "{a} had {p} {things} and {b} gave {him} {q} more.",
        "{He} shared them all equally among {k} people.",
        "How many {things} did each get?",
    ),
    (
        "There are {p} boys and {q} girls on a trip to the {place}.",
        "They walk in groups of {k}.",
        "How many groups are there?",
    ),
    (
        "{a} has {p} {kind} {things} and {q} {other} {things}.",
        "If {he} packs {k} {things} {put} each {one}, how many {many} does {he} fill?",
    ),
)
_AFTER_LOSS = (
    ("{a} had {p} {things} and gave {q} to {b}.", "{He} put the rest {put} {k} {many} equally.", "How many {things} are there {put} each {one}?"),
    ("A {worker} has {p} {things}, but {q} of them are broken.", "The good ones are sold in sets of {k}.", "How many sets can be sold?"),
    ("{a} had ${p} and spent ${q} on lunch.", "A toy costs ${k}.", "How many toys can {he} buy with the money that is left?"),
)  # fmt: skip
_IDLE = ("The {place} has {x} windows.", "{c} has {x} stamps.", "It is {x} degrees outside.", "{b} is {x} years old.")


def build(story: Story) -> None:
    """Write one problem."""
    begin(story)
    groups, size = lots(story)
    total = groups * size
    idle = story.pick(_IDLE)
    x = apart(story, groups, size, total)
    if story.goal == 1:
        lines = story.pick(story.pick((_EACH, _GROUPS)))
        lines = (lines,) if isinstance(lines, str) else lines
        tell(story, *lines, idle=idle if len(lines) > 1 else "", k=groups, t=total, x=x)
        story.div(total, groups)
    elif story.chance(0.5):
        p = story.between(2, total - 2)
        tell(story, *story.pick(_AFTER_GAIN), idle=idle, share=0.15, p=p, q=total - p, k=groups, x=x)
        story.div(story.add(p, total - p), groups)
    else:
        q = count(story)
        if total + q > LARGEST:
            raise Redraw
        tell(story, *story.pick(_AFTER_LOSS), idle=idle, share=0.15, p=total + q, q=q, k=groups, x=x)
        story.div(story.sub(total + q, q), groups)
