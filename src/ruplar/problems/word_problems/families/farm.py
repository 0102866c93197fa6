"""Farm: animals are born, bought, sold and moved between barns."""

from ruplar.problems.word_problems.running import Theme, tell
from ruplar.problems.word_problems.story import Story
from ruplar.problems.word_problems.words import ANIMALS

STEPS = (1, 6)

THEME = Theme(
    choices={"items": ANIMALS},
    plain=("A farmer has {n} {items}.", "There are {n} {items} on a farm.", "{a}'s farm has {n} {items}."),
    product=("A farm has {k} barns with {m} {items} in each.", "A farmer keeps {m} {items} in each of {k} fields."),
    kinds=(
        "A farmer has {n} white {items} and {m} brown {items}.",
        "A farm has {n} old {items} and {m} young {items}.",
    ),
    parts=("A farm has {k} barns with {m} {items} each and {j} fields with {l} {items} each.",),
    gain=(
        "In spring {n} {items} are born.",
        "The farmer buys {n} more {items}.",
        "A neighbor gives the farmer {n} {items}.",
    ),
    lose=(
        "The farmer sells {n} {items}.",
        "Then {n} of the {items} run away.",
        "In winter {n} {items} get lost.",
        "A neighbor buys {n} of the {items}.",
    ),
    gain_lots=("The farmer buys {k} groups of {m} {items}.", "Each of {k} neighbors brings {m} {items} to the farm."),
    lose_lots=(
        "The farmer sells {m} {items} to each of {k} neighbors.",
        "Then {k} trucks take away {m} {items} each.",
    ),
    percent=("The farmer sells {p}% of the {items}.", "Then {p}% of the {items} get sick and leave the farm."),
    half=("The farmer sells half of the {items}.", "Then half of the {items} move to another farm."),
    times=("A year later the number of {items} {times}.",),
    ask=("How many {items} are on the farm now?", "How many {items} does the farmer have in the end?"),
    ask_left=("How many {items} are left on the farm?", "How many {items} does the farmer have left?"),
    ask_all=("How many {items} are there in total?",),
    share=(
        "All the {items} are put into {k} barns equally. How many {items} are in each barn?",
        "The farmer moves all the {items} into {k} equal groups. How many {items} are in each group?",
    ),
    fill=("All the {items} go into barns of {k} each. How many barns are full?",),
    worth=(
        "Each of the {items} eats {k} pounds of food a day. How many pounds do all the {items} eat a day?",
        "All the {items} are sold for ${k} each. How many dollars does the farmer get?",
    ),
    versus=(
        (
            "Another farm has {rel} this farm has now.",
            "How many {items} are on the other farm?",
            "How many {items} are on both farms together?",
        ),
    ),
    portion=(
        ("{p}% of the {items} are brown.", "How many {items} are brown?", "How many {items} are not brown?"),
        ("{p}% of the {items} are asleep.", "How many {items} are asleep?", "How many {items} are awake?"),
    ),
    idle=(
        "The farm is {x} years old.",
        "The farm has {x} trees.",
        "The farmer has {x} hats.",
        "It is {x} degrees outside.",
    ),
)


def build(story: Story) -> None:
    """Write one problem."""
    tell(story, THEME)
