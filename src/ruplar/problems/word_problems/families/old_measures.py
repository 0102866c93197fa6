"""Old measures: yards, feet, inches, gallons, pints, pounds and ounces; held out, for its units are never explained."""

from ruplar.problems.word_problems.story import LARGEST, Story

STEPS = (1, 4)
HELD_OUT = True
CONSTANTS = {"yards": (3,), "feet": (12,), "gallons": (8,), "pounds": (16,)}

_UNITS = (
    ("yards", "feet", 3, ("rope", "wire", "cloth")),
    ("feet", "inches", 12, ("ribbon", "string", "rope")),
    ("gallons", "pints", 8, ("milk", "cider", "oil")),
    ("pounds", "ounces", 16, ("cheese", "butter", "wool")),
)
_OPEN = ("{a} has {n} {big} of {stuff}.", "{a}'s shop gets {n} {big} of {stuff}.", "{a} buys {n} {big} of {stuff}.")
_LESS = ("{b} takes away {n} {small}.", "Then {n} {small} are used.", "A neighbor buys {n} {small}.")
_MORE = ("{b} adds {n} {small}.", "Then {n} more {small} are added.")


def build(story: Story) -> None:
    """Write one problem."""
    big, small, size, stuffs = story.pick(_UNITS)
    count = story.between(2, 12 if size > 12 else 50)
    story.words.update(big=big, small=small, stuff=story.pick(stuffs))
    story.say(story.pick(_OPEN), n=count)
    value = story.mul(count, size)
    closing = story.left > 0 and story.chance(0.4)
    while story.left > closing:
        if story.chance(0.65):
            n = story.some(value * 2 // 3)
            story.say(story.line(_LESS), n=n)
            value = story.sub(value, n)
        else:
            n = story.some(min(60, LARGEST - value))
            story.say(story.line(_MORE), n=n)
            value = story.add(value, n)
    if closing:
        k = story.divisor_of(value)
        story.say("All of the {stuff} is then split into {k} equal parts. How many {small} is each part?", k=k)
        story.div(value, k)
    elif story.goal == 1:
        story.say(story.pick(("How many {small} of {stuff} is that?", "How many {small} is that?")))
    else:
        story.say(story.pick(("How many {small} of {stuff} are there now?", "How many {small} are there in the end?")))
