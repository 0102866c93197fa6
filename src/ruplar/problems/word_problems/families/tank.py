"""Tank: water flows into and out of a tank, a pool or a barrel."""

from ruplar.problems.word_problems.running import Theme, tell
from ruplar.problems.word_problems.story import Story

STEPS = (1, 6)

THEME = Theme(
    choices={"tank": ("tank", "pool", "barrel"), "use": ("garden", "kitchen", "animals", "fields")},
    more=("{n} more liters than", "{n} fewer liters than", "{t} as much water as"),
    plain=(
        "{a} has a {tank} with {n} liters of water.",
        "There are {n} liters of water in a {tank}.",
        "A {tank} starts with {n} liters of water.",
    ),
    product=(
        "A pipe fills an empty {tank} at {m} liters a minute for {k} minutes.",
        "{a} pours {k} buckets of {m} liters each into an empty {tank}.",
    ),
    kinds=("{a} pours {n} liters of hot water and {m} liters of cold water into an empty {tank}.",),
    parts=("{a} pours {k} buckets of {m} liters each and {j} cans of {l} liters each into an empty {tank}.",),
    gain=("Rain adds {n} liters.", "{b} pours in {n} more liters.", "Then {n} liters flow in."),
    lose=("Then {n} liters leak out.", "{b} takes out {n} liters for the {use}.", "The sun dries up {n} liters."),
    gain_lots=("A pipe adds {m} liters a minute for {k} minutes.", "{b} pours in {k} buckets of {m} liters each."),
    lose_lots=("The {tank} leaks {m} liters an hour for {k} hours.", "{b} takes out {k} buckets of {m} liters each."),
    percent=("Then {p}% of the water leaks out.", "{b} uses {p}% of the water for the {use}."),
    half=("Half of the water is used for the {use}.", "Then half of the water leaks out."),
    times=("After a storm the amount of water {times}.",),
    ask=("How many liters of water are in the {tank} now?", "How many liters does the {tank} hold in the end?"),
    ask_left=("How many liters are left in the {tank}?", "How many liters of water are left?"),
    ask_all=("How many liters of water are in the {tank} in total?",),
    share=("All the water is poured equally into {k} cans. How many liters are in each can?",),
    fill=(
        "All the water is put into bottles of {k} liters. How many bottles are filled?",
        "A pump then empties the {tank} at {k} liters a minute. How many minutes does it take?",
    ),
    worth=("Each liter of the water costs ${k}. How many dollars is the water worth?",),
    lacks=(
        "A full {tank} holds {n} liters. How many more liters fit in?",
        "The {tank} has room for {n} liters in total. How many liters are missing?",
    ),
    versus=(
        (
            "A second {tank} holds {rel} this one now.",
            "How many liters does the second {tank} hold?",
            "How many liters do both hold together?",
        ),
    ),
    portion=(("{p}% of the water is clean.", "How many liters are clean?", "How many liters are not clean?"),),
    idle=(
        "The {tank} is {x} years old.",
        "It is {x} degrees outside.",
        "The {tank} is {x} feet wide.",
        "{a} has {x} empty cups.",
    ),
)


def build(story: Story) -> None:
    """Write one problem."""
    tell(story, THEME)
