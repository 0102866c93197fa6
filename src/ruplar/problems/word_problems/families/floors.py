"""Floors and fences: areas and perimeters of rooms and gardens, tiles and their price."""

from ruplar.problems.word_problems.story import LARGEST, Story

STEPS = (1, 5)

_ROOMS = ("room", "hall", "kitchen", "shop")
_YARDS = ("garden", "field", "yard", "park")
_SIZE = (
    "{a}'s {room} is {l} feet long and {w} feet wide.",
    "{a} has a {room} that is {l} feet long and {w} feet wide.",
    "{a} measures a {room} of {l} by {w} feet.",
)
_SECOND = ("A second {room} is {l} feet long and {w} feet wide.", "There is another {room} of {l} by {w} feet.")
_AREA = ("What is the area of the {room} in square feet?", "How many square feet is the floor of the {room}?")
_AREAS = ("What is the area of both floors together in square feet?", "How many square feet do both have in total?")
_CARPET = ("A carpet covers {n} square feet of the floor.", "Old tables stand on {n} square feet of the floor.")
_REST = "How many square feet of the floor are free?"
_COST = (
    "New tiles cost ${k} a square foot. How many dollars do tiles for {it} cost?",
    "It costs ${k} to paint one square foot. How many dollars does it cost to paint {it}?",
)
_TILES = ("One box of tiles covers {k} square feet. How many boxes are needed for {it}?",)
_AROUND = ("What is the perimeter of the {room} in feet?", "How many feet of fence go around the whole perimeter?")
_FENCE = (
    "A fence along the whole perimeter costs ${k} a foot.",
    "{a} puts a fence along the perimeter for ${k} a foot.",
)
_GATE = ("A gate takes up {n} feet of the perimeter, and a fence goes along the rest.",)


def build(story: Story) -> None:
    """Write one problem."""
    outside = story.goal >= 2 and story.chance(0.5)
    story.words["room"] = story.pick(_YARDS if outside else _ROOMS)
    length, width = _size(story)
    story.say(story.pick(_SIZE), l=length, w=width)
    if outside:
        _fence(story, length, width)
    else:
        _floor(story, length, width)
    story.distract(
        lines=(
            "The house is {x} years old.",
            "The {room} has {x} lights.",
            "It is {x} degrees outside.",
            "{a} is {x} years old.",
        )
    )


def _size(story: Story) -> tuple[int, int]:
    length = story.between(4, 12) if story.chance(0.6) else story.pick((15, 20, 25, 30, 40))
    width = story.between(2, 12)
    return max(length, width), min(length, width)


def _floor(story: Story, length: int, width: int) -> None:
    """One area or the sum of two, perhaps less a carpet, perhaps its price."""
    two = story.goal >= 4 or (story.goal == 3 and story.chance(0.5))
    if two:
        other = _size(story)
        story.say(story.pick(_SECOND), l=other[0], w=other[1])
        value = story.add(story.mul(length, width), story.mul(*other))
    else:
        value = story.mul(length, width)
    if not story.left:
        story.say(story.pick(_AREAS if two else _AREA))
        return
    if story.left == 2 or (not two and story.chance(0.3)):
        n = story.some(value * 3 // 4)
        story.say(story.pick(_CARPET).replace("the floor", "the floors") if two else story.pick(_CARPET), n=n)
        value = story.sub(value, n)
        if not story.left:
            story.say(_REST)
            return
        it = "the rest"
    else:
        it = "both floors" if two else "the whole floor"
    if story.chance(0.5):
        k = story.factor_for(value)
        story.say(story.pick(_COST), k=k, it=it)
        story.mul(value, k)
    else:
        k = story.divisor_of(value)
        story.say(story.pick(_TILES), k=k, it=it)
        story.div(value, k)


def _fence(story: Story, length: int, width: int) -> None:
    """The perimeter, perhaps less a gate, perhaps the price of the fence and of the gate."""
    value = story.mul(story.add(length, width), 2)
    if not story.left:
        story.say(story.pick(_AROUND))
        return
    gate = story.left >= 2 or story.chance(0.4)
    if gate:
        n = story.between(2, min(12, value // 2))
        story.say(story.pick(_GATE), n=n)
        value = story.sub(value, n)
        if not story.left:
            story.say("How many feet long is the fence?")
            return
    k = story.factor_for(value)
    story.say("The fence costs ${k} a foot." if gate else story.pick(_FENCE), k=k)
    value = story.mul(value, k)
    if not story.left:
        story.say("How many dollars does the fence cost?")
        return
    n = story.some(min(90, LARGEST - value))
    story.say("The gate costs ${n}. How many dollars do the fence and the gate cost?", n=n)
    story.add(value, n)
