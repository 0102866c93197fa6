"""Short, difference: how many more or fewer one has than another, beside numbers that do not matter."""

from ruplar.problems.word_problems.short import apart, begin, count, tell
from ruplar.problems.word_problems.story import Story

STEPS = (1, 2)
GROUP = "short"

_TWO = (
    ("{a} has {h} {things} and {b} has {l}.", "How many more {things} does {a} have than {b}?"),
    ("{a} has {l} {things}, while {b} has {h}.", "How many fewer {things} does {a} have than {b}?"),
    (
        "There are {h} {kind} {things} and {l} {other} {things} in the {one}.",
        "How many more {kind} {things} than {other} {things} are there?",
    ),
    (
        "There are {l} {kind} {things} and {h} {other} {things} on a table.",
        "How many fewer {kind} {things} than {other} ones are there?",
    ),
    (
        "The {worker} sold {l} {things} on {day} and {h} {things} on {later}.",
        "How many more {things} were sold on {later} than on {day}?",
    ),
    ("{a} threw a ball {h} feet.", "{b} threw it {l} feet.", "How much farther did {a} throw the ball than {b}?"),
    (
        "A book about the {place} has {h} pages.",
        "{a} has read {l} of them.",
        "By how many pages is what {he} has read shorter than the book?",
    ),
    ("{a} walked {l} steps on {day} and {h} on {later}.", "By how many steps did {his} walk grow?"),
)
_THREE = (
    ("{a} has {p} {kind} {things} and {q} {other} {things}.", "{b} has {l} {things}.", "How many more {things} does {a} have than {b}?"),
    ("The {worker} sold {p} {things} in the morning, {q} at noon and {l} at night.", "How many more {things} were sold in the morning and at noon together than at night?"),
    ("{a} and {b} picked {p} and {q} {things}.", "{c} picked {l}.", "By how many {things} do {a} and {b} together beat {c}?"),
)  # fmt: skip
_IDLE = (
    "{c} has {x} {things}.",
    "The {one} cost ${x}.",
    "{a} keeps them {put} {x} {many}.",
    "{He} lost {x} of {his} pens last year.",
)


def build(story: Story) -> None:
    """Write one problem."""
    begin(story)
    low, more = count(story), count(story)
    if story.goal == 1:
        high = low + more
        lines = story.pick(_TWO)
        idle = story.pick(
            _IDLE
            if "{a}" in lines[0] and "things" in lines[0]
            else _IDLE[1:2]
            if "{one}" in lines[0]
            else ("{c} is {x} years old.",)
        )
        tell(story, *lines, idle=idle, share=0.5, h=high, l=low, x=apart(story, low, high))
        story.sub(high, low)
        return
    total = low + more
    first = story.between(1 + total // 4, max(2, 3 * total // 4))
    if total - first < 2 or first < 2:
        first, total = first + 2, total + 4
    tell(
        story,
        *story.pick(_THREE),
        idle="{c} is {x} years old.",
        share=0.15,
        p=first,
        q=total - first,
        l=low,
        x=apart(story, low),
    )
    story.sub(story.add(first, total - first), low)
