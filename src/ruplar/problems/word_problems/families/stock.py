"""Stock: a shop's goods are delivered, sold and broken."""

from ruplar.problems.word_problems.running import Theme, tell
from ruplar.problems.word_problems.story import Story
from ruplar.problems.word_problems.words import GOODS

STEPS = (1, 6)

THEME = Theme(
    choices={"items": GOODS, "shop": ("shop", "store", "warehouse")},
    plain=(
        "A {shop} has {n} {items}.",
        "There are {n} {items} in a {shop}.",
        "A {shop} opens with {n} {items} in stock.",
    ),
    product=(
        "A {shop} has {k} shelves with {m} {items} on each.",
        "A {shop} gets {k} crates of {m} {items} each.",
    ),
    kinds=(
        "A {shop} has {n} white {items} and {m} black {items}.",
        "A {shop} has {n} large {items} and {m} small {items}.",
    ),
    parts=("A {shop} has {k} shelves with {m} {items} each and {j} crates with {l} {items} each.",),
    gain=(
        "A truck brings {n} more {items}.",
        "The {shop} orders {n} more {items}.",
        "Then {n} {items} are delivered.",
    ),
    lose=(
        "The {shop} sells {n} {items}.",
        "A customer buys {n} of the {items}.",
        "Then {n} of the {items} break.",
        "The {shop} sends back {n} {items}.",
    ),
    gain_lots=("A truck brings {k} crates of {m} {items} each.", "Each of {k} trucks delivers {m} {items}."),
    lose_lots=(
        "Then {k} customers buy {m} {items} each.",
        "The {shop} sells {m} {items} a day for {k} days.",
        "The {shop} sends back {k} crates of {m} {items} each.",
    ),
    percent=(
        "Then {p}% of the {items} are sold.",
        "The {shop} throws away {p}% of the {items}.",
        "A fire burns {p}% of the {items}.",
    ),
    half=("Then half of the {items} are sold.", "The {shop} sells half of the {items}."),
    times=("A big order then {times} the stock.",),
    ask=("How many {items} does the {shop} have now?", "How many {items} are in the {shop} in the end?"),
    ask_left=("How many {items} are left in the {shop}?", "How many {items} does the {shop} have left?"),
    ask_all=("How many {items} does the {shop} have in total?",),
    share=(
        "All the {items} are put on {k} shelves equally. How many {items} are on each shelf?",
        "All the {items} are sent to {k} towns in equal parts. How many {items} does each town get?",
    ),
    fill=("All the {items} are packed into crates of {k}. How many crates are filled?",),
    worth=(
        "All the {items} are sold for ${k} each. How many dollars does the {shop} earn?",
        "All the {items} weigh {k} pounds each. How many pounds do the {items} weigh together?",
    ),
    versus=(
        (
            "A second {shop} has {rel} this one now.",
            "How many {items} does the second {shop} have?",
            "How many {items} do both have together?",
        ),
    ),
    portion=(
        ("{p}% of all the {items} are blue.", "How many {items} are blue?", "How many {items} are not blue?"),
        ("{p}% of the {items} are on sale.", "How many {items} are on sale?", "How many {items} are not on sale?"),
    ),
    idle=(
        "The {shop} is {x} years old.",
        "The {shop} has {x} workers.",
        "The {shop} opens {x} minutes late.",
        "There are {x} ladders in the {shop}.",
        "It is {x} degrees outside.",
    ),
)


def build(story: Story) -> None:
    """Write one problem."""
    tell(story, THEME)
