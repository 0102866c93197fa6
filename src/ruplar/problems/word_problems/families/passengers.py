"""Passengers: people get on and off a bus, a train or a boat."""

from ruplar.problems.word_problems.running import Theme, tell
from ruplar.problems.word_problems.story import Story

STEPS = (1, 6)

THEME = Theme(
    choices={
        "bus": ("bus", "train", "boat"),
        "place": ("market", "school", "park"),
        "other": ("museum", "harbor", "bridge"),
        "third": ("beach", "castle"),
    },
    more=("{n} more passengers than", "{n} fewer passengers than", "{t} as many passengers as"),
    plain=(
        "A {bus} leaves with {n} passengers.",
        "There are {n} people on a {bus}.",
        "A {bus} is carrying {n} people.",
    ),
    product=(
        "A {bus} carries {k} groups of {m} people.",
        "There are {k} teams of {m} people on a {bus}.",
    ),
    kinds=("There are {n} adults and {m} children on a {bus}.", "A {bus} carries {n} tourists and {m} workers."),
    parts=("A {bus} carries {k} teams of {m} people and {j} groups of {l} tourists.",),
    gain=(
        "At the next stop {n} more people get on.",
        "At the {place} {n} people get on.",
        "Then {n} new passengers get on.",
    ),
    lose=(
        "At the next stop {n} passengers get off.",
        "At the {other} {n} people get off.",
        "Then {n} passengers leave the {bus}.",
    ),
    gain_lots=("At the next stop {k} groups of {m} people get on.", "Then {k} teams of {m} people get on."),
    lose_lots=(
        "At the {other} {k} groups of {m} people get off.",
        "At each of the next {k} stops {m} people get off.",
    ),
    percent=("At the {third} {p}% of the passengers get off.", "Then {p}% of the passengers leave the {bus}."),
    half=("At the {third} half of the passengers get off.", "Then half of the people leave the {bus}."),
    ask=("How many passengers are on the {bus} now?", "How many people are on the {bus} in the end?"),
    ask_left=("How many passengers are left on the {bus}?", "How many people are still on the {bus}?"),
    ask_all=("How many people are on the {bus} in total?",),
    share=(
        "The passengers sit in {k} equal rows. How many passengers are in each row?",
        "All passengers on board form {k} equal groups. How many people are in each group?",
    ),
    fill=("All passengers on board form groups of {k}. How many groups are there?",),
    worth=(
        "Everyone still on board pays ${k}. How many dollars is that in total?",
        "A ticket for each passenger on board costs ${k}. How many dollars do the tickets cost together?",
    ),
    versus=(
        (
            "A second {bus} has {rel} this one now.",
            "How many passengers are on the second {bus}?",
            "How many passengers are on both together?",
        ),
    ),
    portion=(
        (
            "{p}% of the passengers on board are asleep.",
            "How many passengers are asleep?",
            "How many passengers are awake?",
        ),
        (
            "{p}% of the people on board are children.",
            "How many children are on board?",
            "How many people on board are not children?",
        ),
    ),
    idle=(
        "The driver has worked for {x} years.",
        "The {bus} is {x} minutes late.",
        "It is {x} degrees outside.",
        "The whole ride takes {x} minutes.",
    ),
)


def build(story: Story) -> None:
    """Write one problem."""
    tell(story, THEME)
