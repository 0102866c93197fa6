"""Collecting: a child's collection grows, shrinks and is shared."""

from ruplar.problems.word_problems.running import Theme, tell
from ruplar.problems.word_problems.story import Story
from ruplar.problems.word_problems.words import DISTRACTORS, TOYS

STEPS = (1, 6)

THEME = Theme(
    choices={"items": TOYS},
    plain=(
        "{a} has {n} {items}.",
        "There are {n} {items} in {a}'s collection.",
        "{a} starts the summer with {n} {items}.",
        "{a} owns {n} {items}.",
    ),
    product=(
        "{a} has {k} boxes with {m} {items} in each.",
        "{a} owns {k} bags of {m} {items} each.",
        "{a} keeps {items} in {k} boxes, {m} in each box.",
    ),
    kinds=(
        "{a} has {n} red {items} and {m} blue {items}.",
        "{a} has {n} old {items} and {m} small {items}.",
    ),
    parts=(
        "{a} has {k} boxes of {m} {items} and {j} bags of {l} {items}.",
        "{a} buys {k} bags with {m} {items} each and {j} boxes with {l} {items} each.",
    ),
    gain=(
        "{He} finds {n} more {items}.",
        "{b} gives {him} {n} {items}.",
        "{He} buys {n} more {items} at the market.",
        "Then {he} wins {n} {items} in a game.",
        "{His} mother brings {him} {n} more {items}.",
    ),
    lose=(
        "{He} gives {n} {items} to {b}.",
        "{He} loses {n} of the {items}.",
        "Then {he} trades away {n} {items}.",
        "{He} sells {n} of the {items}.",
    ),
    gain_lots=(
        "{He} buys {k} more bags with {m} {items} in each.",
        "{b} brings {him} {k} boxes of {m} {items}.",
        "Each of {his} {k} friends gives {him} {m} {items}.",
    ),
    lose_lots=(
        "{He} gives {m} {items} to each of {k} friends.",
        "{He} sells {k} bags of {m} {items} each.",
        "For {k} days {he} loses {m} {items} a day.",
    ),
    percent=(
        "{He} gives {p}% of the {items} to {b}.",
        "{He} loses {p}% of the {items}.",
        "Then {he} sells {p}% of the {items}.",
    ),
    half=("{He} gives half of the {items} to {b}.", "Then {he} loses half of the {items}."),
    times=("The number of {items} then {times}.", "A month later {he} has {timed} the collection."),
    ask=("How many {items} does {a} have now?", "How many {items} does {he} have in the end?"),
    ask_left=("How many {items} does {a} have left?", "How many {items} are left?"),
    ask_all=("How many {items} does {a} have in total?", "How many {items} is that altogether?"),
    share=(
        "{He} shares all the {items} equally among {k} friends. How many {items} does each friend get?",
        "{He} puts all the {items} into {k} equal piles. How many {items} are in each pile?",
    ),
    fill=(
        "{He} packs all the {items} into bags of {k}. How many bags does {he} fill?",
        "{He} puts all the {items} into boxes that hold {k} each. How many boxes does {he} need?",
    ),
    worth=(
        "{He} sells all the {items} for ${k} each. How many dollars does {he} get?",
        "Each of the {items} is worth ${k}. How many dollars is the whole collection worth?",
    ),
    versus=(
        ("{b} has {rel} {a} has now.", "How many {items} does {b} have?", "How many {items} do they have together?"),
        (
            "{His} sister has {rel} {a} has now.",
            "How many {items} does {his} sister have?",
            "How many {items} do both have in total?",
        ),
    ),
    portion=(
        ("{p}% of the {items} are green.", "How many {items} are green?", "How many {items} are not green?"),
        ("Of all the {items}, {p}% are new.", "How many {items} are new?", "How many {items} are not new?"),
    ),
    idle=(*DISTRACTORS, "{b} has {x} pens.", "{a} also has {x} dolls.", "The box costs ${x}."),
)


def build(story: Story) -> None:
    """Write one problem."""
    tell(story, THEME)
