"""Classroom: classes of students, girls and boys, teams, buses and trips."""

from ruplar.problems.word_problems.parts import listing, shapes
from ruplar.problems.word_problems.story import LARGEST, Story

STEPS = (1, 5)

_LINES = ("{k} classes of {m} students", "{k} classes with {m} students each")
_SINGLE = ("a class of {n} students",)
_HAS = ("{a}'s school has {list}.", "A school in {a}'s town has {list}.", "There are {list} at {a}'s school.")
_TOTAL = ("How many students are there in total?", "How many students is that altogether?")
_ONE = {
    "absent": (
        "Today {n} students are sick at home. How many students are at school?",
        "There is a trip, but {n} students stay home. How many students come along?",
    ),
    "new": ("Then {n} new students join. How many students are there now?",),
    "girls": (
        "{p}% of all the students are girls. How many girls are there?",
        "{p}% of the students wear glasses. How many students wear glasses?",
    ),
    "teams": (
        "All the students form teams of {k}. How many teams are there?",
        "All the students sit at tables of {k}. How many tables are full?",
    ),
    "buses": ("All the students ride in {k} buses with the same number in each. How many students are in each bus?",),
    "fee": (
        "Each student pays ${k} for the trip. How many dollars is that in total?",
        "Each student gets {k} books. How many books is that in total?",
    ),
    "other": (
        "A second school has {n} more students than this one. How many students does the second school have?",
        "A second school has twice as many students. How many students does the second school have?",
    ),
}
_BOYS = (
    "{p}% of all the students are girls, the rest are boys. How many boys are there?",
    "{p}% of the students go home early. How many students stay at school?",
)
_BOYS_FEE = (
    "{p}% of the students cannot come on a trip. The others pay ${k} each. How many dollars do they pay together?"
)


def build(story: Story) -> None:
    """Write one problem."""
    products, singles, tail = story.pick(shapes(story.goal, (0, 1, 2, 3), 2, 1))
    pairs = [
        (story.between(2, 9), story.between(5, 12) if story.chance(0.5) else story.pick((15, 20, 25, 30)))
        for _ in range(products)
    ]
    lines = [story.pick(_LINES).format(k=story.spell(k), m=m) for k, m in pairs]
    rooms = [story.between(10, 40) if products else story.amount() for _ in range(singles)]
    lines += [story.pick(_SINGLE).format(n=n) if products else f"{n} students" for n in rooms]
    story.say(story.pick(_HAS), list=listing(lines))
    total = story.add_up([*(story.mul(k, m) for k, m in pairs), *rooms])
    _finish(story, tail, total)
    story.distract(
        lines=(
            "The school is {x} years old.",
            "The school has {x} windows.",
            "Lunch takes {x} minutes.",
            "It is {x} degrees outside.",
        )
    )


def _finish(story: Story, tail: int, total: int) -> None:
    if tail == 0:
        story.say(story.pick(_TOTAL))
    elif tail == 1:
        _one(story, total)
    else:
        line = story.pick(_BOYS) if tail == 2 else _BOYS_FEE
        p = story.percent_for(total, 60, 40) if "girls" in line else story.percent_for(total)
        rest = story.sub(total, story.percent(total, p))
        k = story.factor_for(rest)
        story.say(line, p=p, k=k)
        if tail == 3:
            story.mul(rest, k)


def _one(story: Story, total: int) -> None:
    """A closing of one step."""
    kind = story.pick(tuple(_ONE))
    line = story.pick(_ONE[kind])
    if kind == "absent":
        n = story.some(total // 2)
        story.say(line, n=n)
        story.sub(total, n)
    elif kind in ("new", "other"):
        n = story.some(min(99, LARGEST - total))
        story.say(line, n=n)
        if "twice" in line:
            story.mul(total, 2)
        else:
            story.add(total, n)
    elif kind == "girls":
        p = story.percent_for(total, 60, 40) if "girls" in line else story.percent_for(total)
        story.say(line, p=p)
        story.percent(total, p)
    elif kind == "fee":
        k = story.factor_for(total)
        story.say(line, k=k)
        story.mul(total, k)
    else:
        k = story.divisor_of(total)
        story.say(line, k=k)
        story.div(total, k)
