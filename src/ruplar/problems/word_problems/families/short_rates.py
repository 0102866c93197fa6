"""Short, rates: so many an hour, a day, a page or a mile; how many in all, how long it takes, how fast it goes."""

from ruplar.problems.word_problems.short import apart, begin, lots, tell
from ruplar.problems.word_problems.story import LARGEST, Redraw, Story

STEPS = (1, 2)
GROUP = "short"

_ALL = (
    ("{a} types {m} words a minute.", "How many words does {he} type in {k} minutes?"),
    ("A train goes {m} miles an hour.", "How far does it go in {k} hours?"),
    ("A pump moves {m} gallons a minute and runs for {k} minutes.", "How many gallons does it move?"),
    ("{a} swims {m} laps every day.", "How many laps is that in {k} days?"),
)
_TIME = (
    ("{a} types {m} words a minute.", "How many minutes does {he} need for {t} words?"),
    ("A train goes {m} miles an hour.", "How many hours does it take to go {t} miles?"),
    ("{a} saves ${m} a week.", "After how many weeks does {he} have ${t}?"),
    ("{a} swims {m} laps every day.", "In how many days does {he} swim {t} laps?"),
)
_SPEED = (
    ("A train went {t} miles in {m} hours at one speed.", "How many miles did it go an hour?"),
    ("{a} read {t} pages in {m} days, the same number each day.", "How many pages did {he} read a day?"),
    ("A machine made {t} {things} in {m} hours.", "How many {things} did it make in one hour?"),
)
_TWO = (
    ("{a} types {m} words a minute for {k} minutes.", "The text has {t} words.", "How many words are left to type?"),
    ("{a} saves ${m} a week for {k} weeks.", "A bike costs ${t}.", "How many more dollars does {he} need?"),
    ("The {place} is {t} miles away.", "{a} has driven {k} hours at {m} miles an hour.", "How many miles are left?"),
)  # fmt: skip
_IDLE = ("{c} is {x} years old.", "{b} woke up {x} minutes late.", "The day before it rained for {x} minutes.")


def build(story: Story) -> None:
    """Write one problem."""
    begin(story)
    k, m = lots(story)
    x = apart(story, k, m, k * m)
    idle = story.pick(_IDLE)
    if story.goal == 2:
        t = k * m + story.between(2, 150)
        if t > LARGEST:
            raise Redraw
        tell(story, *story.pick(_TWO), idle=idle, share=0.2, k=k, m=m, t=t, x=x)
        story.sub(t, story.mul(k, m))
        return
    kind = story.pick((_ALL, _ALL, _TIME, _SPEED))
    tell(story, *story.pick(kind), idle=idle, k=k, m=m, t=k * m, x=x)
    if kind is _ALL:
        story.mul(m, k)
    else:
        story.div(k * m, m)
