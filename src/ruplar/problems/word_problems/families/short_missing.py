"""Short, missing part: how many there were at first, came, went, or are still needed."""

from ruplar.problems.word_problems.short import apart, begin, count, tell
from ruplar.problems.word_problems.story import Story

STEPS = (1, 2)
GROUP = "short"

_GAINED = (
    (
        "{a} had some {things}.",
        "{b} gave {him} {n} more.",
        "Now {a} has {t} {things}.",
        "How many {things} did {a} have at first?",
    ),
    (
        "After {he} bought {n} {things} at the {place}, {a} had {t} {things} in all.",
        "How many {things} did {he} have to begin with?",
    ),
    ("{a} found {n} {things} on {day} and now owns {t} {things}.", "How many {things} did {a} own before {day}?"),
)
_CAME = (
    (
        "{a} had {n} {things}.",
        "{b} gave {him} some more, and now {he} has {t}.",
        "How many {things} did {b} give {a}?",
    ),
    (
        "There were {n} {things} in the {one}.",
        "{a} put more {things} there, and now there are {t}.",
        "How many {things} did {a} add?",
    ),
    ("On {day} {a} counted {n} {things}.", "On {later} {he} counted {t}.", "How many {things} came in between?"),
)
_WENT = (
    ("{a} had {t} {things}.", "{He} gave some to {b} and has {n} left.", "How many {things} did {he} give away?"),
    ("There were {t} {things} at the {place}.", "After a storm only {n} were found.", "How many {things} were lost?"),
    ("{a} made {t} {things} and sold some of them.", "If {he} still has {n}, how many {things} were sold?"),
)
_NEEDED = (
    ("{a} wants to collect {t} {things}.", "{He} has {n} so far.", "How many more {things} does {he} need?"),
    ("A game needs {t} {things}.", "{a} brought {n} of them.", "How many {things} are still missing?"),
    ("The {worker} must get {t} {things} ready and has finished {n}.", "How many {things} are still to be done?"),
)
_TWICE = (
    ("{a} had some {things}.", "{He} got {n} from {b} and {m} from {c}.", "Now {he} has {t}.", "How many {things} did {a} have at first?"),
    ("{a} needs {t} {things}.", "{He} has {n}, and {b} brings {m}.", "How many more {things} does {he} need?"),
    ("{a} had {t} {things} and lost {n} of them on {day}.", "After giving some to {b}, {he} has {m} left.", "How many {things} did {b} get?"),
)  # fmt: skip
_IDLE = (
    "{c} has {x} {things} too.",
    "Each of the {many} holds {x} {things}.",
    "{b} is {x} years old.",
    "There are {x} people at the {place}.",
)


def build(story: Story) -> None:
    """Write one problem."""
    begin(story)
    part, rest = count(story), count(story)
    idle = story.pick(_IDLE)
    if story.goal == 1:
        total = part + rest
        lines = story.pick(story.pick((_GAINED, _CAME, _WENT, _NEEDED)))
        tell(story, *lines, idle=idle, n=part, t=total, x=apart(story, part, total))
        story.sub(total, part)
        return
    second = count(story)
    total = part + rest + second
    tell(
        story,
        *story.pick(_TWICE),
        idle=idle,
        share=0.15,
        n=part,
        m=second,
        t=total,
        x=apart(story, part, total, second),
    )
    story.sub(story.sub(total, part), second)
