"""Short, what is left: some are eaten, lost, sold or leave; other things beside them stay and do not matter."""

from ruplar.problems.word_problems.short import ANIMALS, apart, begin, count, tell
from ruplar.problems.word_problems.story import Story

STEPS = (1, 2)
GROUP = "short"

_ONE = (
    ("{a} had {t} {things}.", "{He} gave {n} of them to {b}.", "How many {things} does {a} have left?"),
    ("There were {t} {animals} in a field.", "{n} of them ran away.", "How many {animals} stayed?"),
    ("A {worker} had {t} {things} and sold {n} of them on {day}.", "How many {things} were left?"),
    (
        "{t} people were at the {place}.",
        "By evening {n} people had gone home.",
        "How many people were still at the {place}?",
    ),
    ("{a} picked {t} {things}, but {n} of them were bad and were thrown away.", "How many good {things} were there?"),
    ("{a} had ${t}.", "{He} spent ${n} at the {place}.", "How many dollars does {he} have now?"),
)
_KINDS = (
    (
        "{a} has {t} {kind} {things} and {x} {other} {things}.",
        "{He} loses {n} of the {kind} {things}.",
        "How many {kind} {things} are left?",
    ),
    (
        "There are {x} {other} {things} and {t} {kind} {things} {put} the {one}.",
        "{b} takes {n} {kind} {things}.",
        "How many {kind} {things} remain?",
    ),
    (
        "{a} had {t} {things} and {b} had {x}.",
        "{a} used up {n} of hers and {b} used none.",
        "How many {things} does {a} have now?",
    ),
)
_TWO = (
    ("{a} had {t} {things}.", "{He} gave {n} to {b} and {m} to {c}.", "How many {things} does {he} have left?"),
    (
        "{t} {animals} were on a farm.",
        "{n} were sold on {day} and {m} on {later}.",
        "How many {animals} are left on the farm?",
    ),
    ("{a} had ${t}.", "{He} bought a book for ${n} and a cap for ${m}.", "How many dollars are left?"),
)
_BACK = (
    ("{a} had {t} {things}.", "{He} lost {n}, but found {m} others.", "How many {things} does {he} have now?"),
    ("There were {t} people on a bus.", "At a stop {n} got off and {m} got on.", "How many people are on the bus now?"),
    ("The library had {t} comics.", "On {day} {n} were taken out and {m} were brought back.", "How many comics are there now?"),
)  # fmt: skip
_IDLE = ("{c} has {x} cousins.", "The {place} opened {x} years ago.", "{b} has ${x}.")


def build(story: Story) -> None:
    """Write one problem."""
    begin(story)
    story.words["animals"] = story.pick(ANIMALS)
    total = count(story, 6)
    n = story.between(2, total - 2)
    idle = story.pick(_IDLE)
    if story.goal == 1:
        x = apart(story, total, n)
        if story.chance(0.45):
            lines = tuple(line.replace(" of hers", "") for line in story.pick(_KINDS))
            tell(story, *lines, t=total, n=n, x=x)
        else:
            tell(story, *story.pick(_ONE), idle=idle, t=total, n=n, x=x)
        story.sub(total, n)
        return
    if story.chance(0.5):
        m = count(story)
        tell(story, *story.pick(_TWO), idle=idle, share=0.2, t=total + m, n=n, m=m, x=apart(story, total, n, m))
        story.sub(story.sub(total + m, n), m)
    else:
        m = count(story)
        tell(story, *story.pick(_BACK), idle=idle, share=0.2, t=total, n=n, m=m, x=apart(story, total, n, m))
        story.add(story.sub(total, n), m)
