"""Drills: bare arithmetic in words and signs; helps a small model to compute each step in one go."""

from ruplar.problems.word_problems.story import LARGEST, PERCENTS, Story

STEPS = (1, 3)

_ASK = ("What is {x}?", "Compute {x}.", "Find {x}.")


def build(story: Story) -> None:
    """Write one problem."""
    value = story.between(2, 600)
    if story.goal == 1 and story.chance(0.2):
        p = story.pick(PERCENTS)
        value = 20 * story.between(1, 49) if p % 10 else 10 * story.between(1, 99)
        story.say(story.pick(_ASK), x=f"{p}% of {value}")
        story.percent(value, p)
        return
    # left to right, so a product or quotient can only come first, or after a bracket
    text = str(value)
    for i in range(story.goal):
        kind = story.pick(("+", "-", "*", "/"))
        if i and kind in "*/":
            text = f"({text})"
        if kind == "+":
            n = story.between(2, min(600, LARGEST - value))
            text, value = f"{text} + {n}", story.add(value, n)
        elif kind == "-":
            n = story.between(2, min(600, value - 1))
            text, value = f"{text} - {n}", story.sub(value, n)
        elif kind == "*":
            k = story.factor_for(value)
            text, value = f"{text} * {k}", story.mul(value, k)
        else:
            k = story.divisor_of(value)
            text, value = f"{text} / {k}", story.div(value, k)
    story.say(story.pick(_ASK), x=text)
