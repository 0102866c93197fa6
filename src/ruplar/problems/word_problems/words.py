"""Which words the stories use: names, things and the numbers that words stand for.

The lists are short on purpose: every word becomes one token of the embedded tokenizer, and a tiny model meets each often.
"""

from __future__ import annotations

from typing import NamedTuple


class Person(NamedTuple):
    """A name and the pronouns that go with it."""

    name: str
    he: str
    him: str
    his: str


_GIRLS = (
    *("Mia", "Anna", "Lily", "Emma", "Sara", "Nina", "Zoe", "Ella", "Ruth"),
    *("Clara", "Maya", "Rosa", "Alice", "Jane", "Kate", "Nora", "Lucy", "Eva"),
)
_BOYS = (
    *("Tom", "Ben", "Sam", "Leo", "Jack", "Omar", "Luis", "Noah", "Adam"),
    *("Paul", "Finn", "Hugo", "Ali", "Ravi", "Ken", "Eric", "Liam", "Oscar"),
)

PEOPLE = tuple([Person(n, "she", "her", "her") for n in _GIRLS] + [Person(n, "he", "him", "his") for n in _BOYS])

TOYS = ("marbles", "stickers", "coins", "shells", "stamps", "cards", "beads", "buttons", "balloons", "pencils")
"""What a child collects; each is also a fair distractor for another."""

GOODS = ("lamps", "chairs", "books", "shirts", "plates", "cups", "phones", "radios", "blankets", "pillows", "clocks")
"""What a shop keeps in stock."""

FRUITS = ("apples", "pears", "oranges", "lemons", "peaches", "plums", "mangoes")

ANIMALS = ("chickens", "sheep", "cows", "goats", "ducks", "pigs", "rabbits", "geese")

PASTRIES = ("cookies", "muffins", "pies", "rolls", "cakes", "tarts", "buns")

DISTRACTORS = (
    "{a} is {x} years old.",
    "It is {x} degrees outside.",
    "{a} has {x} cousins.",
    "{a} lives {x} miles from the sea.",
    "{a} woke up {x} minutes late today.",
    "The town has {x} streets.",
)
"""Sentences with a number that has nothing to do with the question; `{a}` is the person of the story."""

DIGIT_WORDS = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)

IMPLIED: dict[str, tuple[int, ...]] = {
    **{word: (value,) for value, word in enumerate(DIGIT_WORDS) if value >= 2},
    "%": (100,),
    "half": (2,),
    "twice": (2,),
    "doubles": (2,),
    "doubled": (2,),
    "triples": (3,),
    "tripled": (3,),
    "both": (2,),
    "perimeter": (2,),
    "week": (7,),
    "weeks": (7,),
    "back": (2,),
}
"""Word → the numbers it brings into a problem without a digit being written. A family adds its own in `CONSTANTS`."""
