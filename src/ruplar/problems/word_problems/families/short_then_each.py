"""Short, first together or apart, then times: some join or leave, and each of the rest has, eats or pays the same."""

from ruplar.problems.word_problems.short import apart, begin, tell
from ruplar.problems.word_problems.story import Story

STEPS = (2, 2)
GROUP = "short"

_JOIN = (
    (
        "{p} players were in a game when {q} more joined.",
        "Each player has {k} lives.",
        "How many lives do they have in total?",
    ),
    (
        "A {worker} packed {p} small and {q} large {many}.",
        "Each holds {k} {things}.",
        "How many {things} were packed?",
    ),
    (
        "{a} worked {p} hours on {day} and {q} hours on {later}.",
        "{He} earns ${k} an hour.",
        "How many dollars did {he} earn?",
    ),
    (
        "{a} has {p} {many} of {things} and buys {q} more.",
        "With {k} {things} {put} each {one}, how many {things} does {he} have now?",
    ),
    ("{p} adults and {q} children went to the {place}.", "Every ticket cost ${k}.", "How many dollars did they pay?"),
)
_LEAVE = (
    ("{t} players were in a game, but {q} of them left.", "Each of the others has {k} lives.", "How many lives do the others have altogether?"),
    ("A {worker} had {t} {many} and {q} of them stayed empty.", "The others hold {k} {things} each.", "How many {things} are there?"),
    ("{a} has {t} tasks and has done {q}.", "Each of the rest takes {k} minutes.", "How many minutes of work are left?"),
    ("{a} had {t} {things} to sell at ${k} each, but kept {q}.", "How many dollars did {he} get?"),
)  # fmt: skip
_IDLE = ("It was {x} degrees at the {place}.", "{c} is {x} years old.")


def build(story: Story) -> None:
    """Write one problem."""
    begin(story)
    p, q, k = story.between(2, 20), story.between(2, 15), story.between(2, 12)
    x = apart(story, p, q, k, p + q)
    if story.chance(0.5):
        tell(story, *story.pick(_JOIN), idle=story.pick(_IDLE), share=0.2, p=p, q=q, k=k, x=x)
        story.mul(story.add(p, q), k)
    else:
        tell(story, *story.pick(_LEAVE), idle=story.pick(_IDLE), share=0.2, t=p + q, q=q, k=k, x=x)
        story.mul(story.sub(p + q, q), k)
