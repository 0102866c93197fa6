"""Bakery: trays are baked, sold, dropped and packed."""

from ruplar.problems.word_problems.running import Theme, tell
from ruplar.problems.word_problems.story import Story
from ruplar.problems.word_problems.words import PASTRIES

STEPS = (1, 6)

THEME = Theme(
    choices={"items": PASTRIES},
    plain=(
        "A baker makes {n} {items}.",
        "{a} bakes {n} {items} for a party.",
        "A bakery has {n} {items} in the morning.",
    ),
    product=("A baker fills {k} trays with {m} {items} each.", "A baker makes {m} {items} an hour for {k} hours."),
    kinds=("A baker makes {n} sweet {items} and {m} plain {items}.",),
    parts=("A baker fills {k} large trays with {m} {items} each and {j} small trays with {l} {items} each.",),
    gain=("Then {n} more {items} are baked.", "Another baker brings {n} {items}."),
    lose=(
        "Then {n} of the {items} burn.",
        "A customer buys {n} {items}.",
        "The children eat {n} {items}.",
        "Then {n} {items} are sold.",
    ),
    gain_lots=("Then {k} more trays of {m} {items} each are baked.", "Each of {k} helpers bakes {m} more {items}."),
    lose_lots=(
        "Then {k} customers buy {m} {items} each.",
        "Then {k} boxes of {m} {items} each are sold.",
        "Then {k} children eat {m} {items} each.",
    ),
    percent=("Then {p}% of the {items} burn.", "A hotel buys {p}% of the {items}."),
    half=("A school buys half of the {items}.", "Then half of the {items} are given to a school."),
    times=("For a party the number of {items} is then {timed}.",),
    ask=("How many {items} are there now?", "How many {items} are there in the end?"),
    ask_left=("How many {items} are left?", "How many {items} are left over?"),
    ask_all=("How many {items} are there in total?",),
    share=(
        "All the {items} are put on {k} plates equally. How many {items} are on each plate?",
        "All the {items} go to {k} tables in equal parts. How many {items} does each table get?",
    ),
    fill=(
        "All the {items} are packed into boxes of {k}. How many boxes are filled?",
        "All the {items} go to guests who get {k} each. How many guests are there?",
    ),
    worth=(
        "All the {items} are sold at ${k} each. How many dollars is that?",
        "Each of the {items} needs {k} spoons of sugar. How many spoons of sugar is that in total?",
    ),
    lacks=("A party needs {n} {items}. How many {items} are missing?",),
    versus=(
        (
            "Another bakery has {rel} there are here now.",
            "How many {items} does the other bakery have?",
            "How many {items} do both have together?",
        ),
    ),
    portion=(("{p}% of the {items} have nuts.", "How many {items} have nuts?", "How many {items} have no nuts?"),),
    idle=(
        "The oven is {x} years old.",
        "It is {x} degrees outside.",
        "The bakery has {x} windows.",
        "A cup of tea costs ${x}.",
    ),
)


def build(story: Story) -> None:
    """Write one problem."""
    tell(story, THEME)
