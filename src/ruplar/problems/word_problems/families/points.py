"""Points: a player's points go up and down in a game."""

from ruplar.problems.word_problems.running import Theme, tell
from ruplar.problems.word_problems.story import Story
from ruplar.problems.word_problems.words import DISTRACTORS

STEPS = (1, 6)

THEME = Theme(
    choices={"prize": ("stars", "gems", "keys", "crowns")},
    more=("{n} more points than", "{n} fewer points than", "{t} as many points as"),
    plain=(
        "{a} starts a game with {n} points.",
        "{a} has {n} points in a game.",
        "In the first round {a} scores {n} points.",
    ),
    product=("{a} collects {k} {prize} worth {m} points each.", "{a} scores {m} points in each of {k} rounds."),
    kinds=(
        "{a} scores {n} points in the first round and {m} in the second.",
        "{a} scores {n} points on Monday and {m} on Tuesday.",
    ),
    parts=("{a} hits {k} targets worth {m} points each and {j} targets worth {l} points each.",),
    gain=("{He} wins {n} points in the next round.", "A bonus adds {n} points.", "Then {he} scores {n} more points."),
    lose=(
        "{He} loses {n} points for a mistake.",
        "A trap costs {him} {n} points.",
        "Then {b} takes {n} points from {him}.",
    ),
    gain_lots=(
        "{He} collects {k} {prize} worth {m} points each.",
        "Then {he} wins {k} rounds and gets {m} points for each.",
    ),
    lose_lots=("{He} makes {k} mistakes and loses {m} points for each.", "Each of {k} traps costs {him} {m} points."),
    percent=("{He} then loses {p}% of the points.", "A monster takes {p}% of {his} points."),
    half=("A trap takes half of {his} points.", "Then {he} loses half of the points."),
    times=("A magic card {times} {his} points.", "In the bonus round {he} {times} {his} points."),
    ask=("How many points does {a} have now?", "What is {his} point total in the end?"),
    ask_left=("How many points does {a} have left?", "What is {his} point total now?"),
    ask_all=("How many points does {a} have in total?", "What is {his} point total?"),
    share=("{He} shares all the points equally among {k} players. How many points does each player get?",),
    fill=(
        "{He} trades all the points for lives at {k} points each. How many lives does {he} get?",
        "Each level takes {k} points. How many levels can {he} buy with all the points?",
    ),
    worth=("Each point is worth ${k}. How many dollars are all the points worth?",),
    lacks=(
        "The record is {n} points. How many more points does {he} need to reach it?",
        "{He} needs {n} points to win. How many points are missing?",
    ),
    versus=(
        ("{b} has {rel} {a} has now.", "How many points does {b} have?", "How many points do they have together?"),
        ("{b} scores {rel} {a} has now.", "What is {b}'s point total?", "How many points is that for both together?"),
    ),
    portion=(
        (
            "{p}% of all the points are bonus points.",
            "How many bonus points are there?",
            "How many points are not bonus points?",
        ),
    ),
    idle=(*DISTRACTORS, "The game costs ${x}.", "{b} is {x} years old.", "The game lasts {x} minutes."),
)


def build(story: Story) -> None:
    """Write one problem."""
    tell(story, THEME)
