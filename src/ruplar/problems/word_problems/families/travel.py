"""Travel: speeds times hours, legs of a trip, what is left of the way and how long it takes."""

from ruplar.problems.word_problems.parts import shapes
from ruplar.problems.word_problems.story import LARGEST, Redraw, Story

STEPS = (1, 6)

_WAYS = (
    ("drives", "by car", (30, 40, 50, 60, 70, 80)),
    ("rides", "by bike", (8, 9, 10, 12, 15, 20)),
    ("walks", "on foot", (2, 3, 4)),
    ("sails", "by boat", (10, 15, 20, 25, 30)),
)
_FAST = (
    "{who} {goes} at {v} miles an hour for {h} hours.",
    "{who} {goes} for {h} hours at {v} miles an hour.",
    "{who} {goes} {v} miles an hour for {h} hours.",
)
_SHORT = ("{who} {goes} {n} miles.", "{who} travels {n} miles {by}.")
_TOTAL = ("How many miles does {a} travel in total?", "How many miles is the whole trip?")
_REST = (
    "The whole trip is {n} miles long. How many miles are left?",
    "{His} uncle lives {n} miles away. How many more miles must {he} travel to get there?",
)
_REST_TIME = (
    "The whole trip is {n} miles long. How many hours does the rest take at {v} miles an hour?",
    "{He} wants to travel {n} miles in all. How many more hours does {he} need at {v} miles an hour?",
)
_BACK = ("Then {he} goes back the same way. How many miles does {he} travel in total?",)
_SPEED = ("The whole trip takes {k} hours. How many miles does {he} travel an hour on average?",)
_FUEL = (
    "{He} drinks one bottle of water every {k} miles. How many bottles does {he} drink?",
    "{He} rests every {k} miles and at the end. How many times does {he} rest?",
)


def build(story: Story) -> None:
    """Write one problem."""
    products, singles, tail = story.pick(shapes(story.goal, (0, 1, 2), 3, 2))
    order = [True] * products + [False] * singles
    story.rng.shuffle(order)
    legs: list[int | tuple[int, int]] = []
    for i, is_product in enumerate(order):
        goes, by, speeds = story.pick(_WAYS)
        who = story.words["a"] if i == 0 else story.pick((f"Then {story.words['he']}", story.words["He"]))
        if is_product:
            speed, hours = story.pick(speeds), story.between(2, 8)
            story.say(story.pick(_FAST), who=who, goes=goes, v=speed, h=story.spell(hours))
            legs.append((speed, hours))
        else:
            n = story.between(2, 15) if goes == "walks" else story.some(99)
            story.say(story.pick(_SHORT), who=who, goes=goes, n=n, by=by)
            legs.append(n)
    total = story.add_up([leg if isinstance(leg, int) else story.mul(*leg) for leg in legs])
    _finish(story, tail, total)
    story.distract()


def _finish(story: Story, tail: int, total: int) -> None:
    if tail == 0:
        story.say(story.pick(_TOTAL))
    elif tail == 2:
        speed, hours = story.pick((3, 4, 5, 6, 8, 10, 12, 20, 30, 40, 50)), story.between(2, 9)
        whole = total + speed * hours
        if whole > LARGEST:
            raise Redraw
        story.say(story.pick(_REST_TIME), n=whole, v=speed)
        story.div(story.sub(whole, total), speed)
    else:
        kind = story.pick(("rest", "rest", "back", "speed", "fuel"))
        if kind == "rest":
            n = total + story.some(min(150, LARGEST - total))
            story.say(story.pick(_REST), n=n)
            story.sub(n, total)
        elif kind == "back":
            story.say(story.pick(_BACK))
            story.mul(total, 2)
        else:
            k = story.divisor_of(total)
            story.say(story.pick(_SPEED if kind == "speed" else _FUEL), k=k)
            story.div(total, k)
