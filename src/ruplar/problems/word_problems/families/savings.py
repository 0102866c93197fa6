"""Savings: someone earns, spends and divides money."""

from ruplar.problems.word_problems.running import Theme, tell
from ruplar.problems.word_problems.story import Story

STEPS = (1, 6)

THEME = Theme(
    choices={
        "toy": ("bike", "guitar", "camera", "tent", "coat"),
        "job": ("washing cars", "cutting grass", "selling lemonade", "walking dogs"),
    },
    more=("${n} more than", "${n} less than", "{t} as much money as"),
    plain=(
        "{a} has ${n}.",
        "{a} has saved ${n}.",
        "There is ${n} in {a}'s bank account.",
    ),
    product=(
        "{a} saves ${m} a week for {k} weeks.",
        "{a} earns ${m} an hour and works {k} hours.",
        "{a} puts ${m} into the bank every month for {k} months.",
    ),
    kinds=("{a} has ${n} in the bank and ${m} at home.", "{a} earns ${n} on Monday and ${m} on Tuesday."),
    parts=(
        "{a} works {k} hours for ${m} an hour and {j} hours for ${l} an hour.",
        "{a} saves ${m} a week for {k} weeks and then ${l} a week for {j} weeks.",
    ),
    gain=(
        "{He} earns ${n} by {job}.",
        "{His} uncle gives {him} ${n}.",
        "Then {he} finds ${n} in an old coat.",
        "{He} gets ${n} for {his} birthday.",
    ),
    lose=(
        "{He} spends ${n} on food.",
        "{He} buys a book for ${n}.",
        "Then {he} pays ${n} for a train ticket.",
        "{He} lends ${n} to {b}.",
    ),
    gain_lots=(
        "{He} earns ${m} an hour by {job} for {k} hours.",
        "{He} sells {k} toys for ${m} each.",
        "Each of {his} {k} uncles gives {him} ${m}.",
    ),
    lose_lots=(
        "{He} buys {k} shirts for ${m} each.",
        "Then {he} rents a room for {k} days at ${m} a day.",
        "{He} gives ${m} to each of {his} {k} sisters.",
    ),
    percent=(
        "{He} spends {p}% of the money on clothes.",
        "{He} gives {p}% of the money to {b}.",
        "Then {he} loses {p}% of the money.",
    ),
    half=("{He} spends half of the money on a present.", "Then {he} gives half of the money to {b}."),
    times=("{His} father then {times} the money.",),
    ask=("How many dollars does {a} have now?", "How many dollars does {he} have in the end?"),
    ask_left=("How many dollars does {a} have left?", "How many dollars are left?"),
    ask_all=("How many dollars is that in total?", "How many dollars does {a} have altogether?"),
    share=(
        "{He} shares all the money equally among {k} children. How many dollars does each child get?",
        "{He} spends all the money evenly over {k} days. How many dollars does {he} spend a day?",
    ),
    fill=(
        "With all the money {he} buys tickets for ${k} each. How many tickets does {he} get?",
        "{He} spends all the money on toys that cost ${k} each. How many toys does {he} buy?",
    ),
    lacks=(
        "A {toy} costs ${n}. How many more dollars does {he} need to buy it?",
        "{He} wants to buy a {toy} for ${n}. How many dollars are missing?",
    ),
    versus=(
        ("{b} has {rel} {a} has now.", "How many dollars does {b} have?", "How many dollars do they have together?"),
        (
            "{His} brother has {rel} {a} has now.",
            "How many dollars does {his} brother have?",
            "How many dollars do both have in total?",
        ),
    ),
    portion=(
        (
            "{He} saves {p}% of all the money.",
            "How many dollars does {he} save?",
            "How many dollars does {he} not save?",
        ),
    ),
)


def build(story: Story) -> None:
    """Write one problem."""
    tell(story, THEME)
