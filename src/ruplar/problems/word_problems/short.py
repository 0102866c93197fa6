"""Words and numbers → parts of short problems: what the families of one or two steps share.

SVAMP and MultiArith ask in two or three sentences, often with a number that is not needed and looks as if it were. Only
their structures are taken up here (who has what, what changes, what is asked); the sentences are our own.
"""

from __future__ import annotations

from typing import NamedTuple

from ruplar.problems.word_problems.story import Redraw, Story

THINGS = (
    *(
        "marbles",
        "stickers",
        "shells",
        "stamps",
        "postcards",
        "beads",
        "buttons",
        "pencils",
        "crayons",
        "ribbons",
        "candies",
    ),
    *(
        "cookies",
        "muffins",
        "peanuts",
        "cherries",
        "walnuts",
        "carrots",
        "tomatoes",
        "roses",
        "tulips",
        "feathers",
        "pebbles",
    ),
    *(
        "acorns",
        "badges",
        "coins",
        "keys",
        "cubes",
        "dominoes",
        "kites",
        "whistles",
        "bracelets",
        "magnets",
        "markers",
    ),
    *("photos", "comics", "puzzles", "toy cars", "paper planes", "baseball cards", "bottle caps", "water bottles"),
)
KINDS = (
    *(
        ("red", "blue"),
        ("big", "small"),
        ("new", "old"),
        ("green", "yellow"),
        ("round", "square"),
        ("plain", "striped"),
    ),
    *(("gold", "silver"), ("wooden", "plastic"), ("white", "black"), ("cheap", "fancy"), ("heavy", "light")),
)
ANIMALS = ("sheep", "goats", "cows", "horses", "ducks", "hens", "rabbits", "pigs", "geese", "llamas")
PLACES = ("park", "school", "library", "museum", "zoo", "market", "farm", "beach", "camp", "bakery", "garden", "hotel")
WORKERS = ("teacher", "farmer", "baker", "coach", "gardener", "waiter", "librarian", "tailor", "painter", "mechanic")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class Holder(NamedTuple):
    """Something that holds things: one, many, and the word before it."""

    one: str
    many: str
    put: str


HOLDERS = tuple(
    Holder(one, many, put)
    for one, many, put in (
        ("box", "boxes", "in"), ("bag", "bags", "in"), ("jar", "jars", "in"), ("basket", "baskets", "in"),
        ("shelf", "shelves", "on"), ("drawer", "drawers", "in"), ("tray", "trays", "on"), ("crate", "crates", "in"),
        ("row", "rows", "in"), ("pile", "piles", "in"), ("page", "pages", "on"), ("table", "tables", "on"),
        ("packet", "packets", "in"), ("bucket", "buckets", "in"),
    )
)  # fmt: skip


def begin(story: Story) -> None:
    """Choose the words that most short problems use."""
    holder = story.pick(HOLDERS)
    first, second = story.pick(KINDS)
    days = story.rng.sample(DAYS, 2)
    story.words.update(
        things=story.pick(THINGS),
        place=story.pick(PLACES),
        worker=story.pick(WORKERS),
        one=holder.one,
        many=holder.many,
        put=holder.put,
        kind=first,
        other=second,
        day=days[0],
        later=days[1],
    )
    if story.chance(0.5):
        story.words.update(kind=second, other=first)


def count(story: Story, least: int = 2, most: int = 99) -> int:
    """A number as short problems have them: two digits mostly, one often, three now and then."""
    kind = story.rng.random()
    if kind < 0.3:
        return story.between(least, min(most, max(least, 12)))
    return (
        story.between(least, most)
        if kind < 0.92
        else story.between(least, max(most, 6 * most if most >= 60 else most))
    )


def apart(story: Story, *used: int, most: int = 40) -> int:
    """A number unlike those that matter, for a sentence that does not."""
    value = story.between(2, most)
    if value in used:
        raise Redraw
    return value


def lots(story: Story) -> tuple[int, int]:
    """How many groups, and how many in each."""
    groups = story.between(2, 12) if story.chance(0.75) else story.between(11, 30)
    size = story.between(2, 12) if story.chance(0.7) else story.between(11, 32)
    if groups == size:
        raise Redraw
    return groups, size


def tell(story: Story, *lines: str, idle: str = "", share: float = 0.4, **slots: object) -> None:
    """Say the lines; now and then the idle one among them, before the question.

    Args:
        story: The problem.
        *lines: Sentences; the last holds the question.
        idle: A sentence with the number `x`, which is not needed.
        share: How often it is said.
        **slots: What the lines name, besides the story's words.
    """
    said = list(lines)
    if idle and story.chance(share):
        said.insert(story.between(1 if len(said) > 1 else 0, len(said) - 1), idle)
    for line in said:
        story.say(line, **slots)
