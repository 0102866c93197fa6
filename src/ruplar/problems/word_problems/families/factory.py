"""Factory: machines make parts, some fail, the rest are packed."""

from ruplar.problems.word_problems.running import Theme, tell
from ruplar.problems.word_problems.story import Story

STEPS = (1, 6)

THEME = Theme(
    choices={"items": ("toys", "lights", "bottles", "shoes", "pens", "tools", "wheels")},
    plain=(
        "A factory makes {n} {items} in a day.",
        "A machine makes {n} {items}.",
        "A factory has {n} {items} ready.",
    ),
    product=(
        "A factory has {k} machines, and each makes {m} {items} a day.",
        "A machine makes {m} {items} an hour and runs for {k} hours.",
        "In a factory {k} workers make {m} {items} each.",
    ),
    kinds=(
        "A factory makes {n} {items} on Monday and {m} {items} on Tuesday.",
        "One machine makes {n} {items}, another makes {m} {items}.",
    ),
    parts=(
        "A factory has {k} old machines that make {m} {items} each and {j} new machines that make {l} {items} each.",
        "A machine makes {m} {items} an hour for {k} hours and then {l} {items} an hour for {j} hours.",
    ),
    gain=("The night workers make {n} more {items}.", "Then {n} {items} are added."),
    lose=(
        "A test finds {n} broken {items}, which are thrown away.",
        "Then {n} {items} are sold.",
        "Then {n} of the {items} are lost.",
    ),
    gain_lots=(
        "Then {k} more machines make {m} {items} each.",
        "A new machine adds {m} {items} an hour for {k} hours.",
    ),
    lose_lots=("Then {k} trucks take away {m} {items} each.", "Then {k} boxes of {m} {items} each are sold."),
    percent=(
        "A test finds that {p}% of the {items} are broken, and these are thrown away.",
        "Then {p}% of the {items} are sold.",
    ),
    half=("Then half of the {items} are sold.", "Half of the {items} are sent to another town."),
    times=("With better machines the number of {items} then {times}.",),
    ask=("How many {items} are there now?", "How many {items} does the factory have in the end?"),
    ask_left=("How many {items} are left?", "How many {items} does the factory have left?"),
    ask_all=("How many {items} are made in total?", "How many {items} is that altogether?"),
    share=(
        "All the {items} are sent to {k} shops in equal parts. How many {items} does each shop get?",
        "All the {items} are loaded on {k} trucks equally. How many {items} are on each truck?",
    ),
    fill=("All the {items} are packed into boxes of {k}. How many boxes are filled?",),
    worth=(
        "All the {items} are sold for ${k} each. How many dollars does the factory get?",
        "All the {items} weigh {k} pounds each. How many pounds is that together?",
    ),
    lacks=("The plan asks for {n} {items}. How many {items} are missing?",),
    versus=(
        (
            "Another factory has {rel} this one has now.",
            "How many {items} does the other factory have?",
            "How many {items} do both have together?",
        ),
    ),
    portion=(
        ("{p}% of the {items} are red.", "How many {items} are red?", "How many {items} are not red?"),
        (
            "{p}% of all the {items} go to the coast.",
            "How many {items} go to the coast?",
            "How many {items} go elsewhere?",
        ),
    ),
    idle=(
        "The factory is {x} years old.",
        "The boss has {x} phones.",
        "Each worker rests {x} minutes.",
        "It is {x} degrees outside.",
    ),
)


def build(story: Story) -> None:
    """Write one problem."""
    tell(story, THEME)
