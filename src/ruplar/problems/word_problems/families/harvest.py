"""Harvest: fruit is picked, spoils, is eaten and goes to market."""

from ruplar.problems.word_problems.running import Theme, tell
from ruplar.problems.word_problems.story import Story
from ruplar.problems.word_problems.words import DISTRACTORS, FRUITS

STEPS = (1, 6)

THEME = Theme(
    choices={"items": FRUITS},
    plain=("{a} picks {n} {items}.", "{a} brings home {n} {items}.", "There are {n} {items} in {a}'s kitchen."),
    product=(
        "{a} has {k} trees, and each tree gives {m} {items}.",
        "{a} picks {m} {items} a day for {k} days.",
        "{a} fills {k} baskets with {m} {items} each.",
    ),
    kinds=(
        "{a} picks {n} {items} in the morning and {m} {items} in the evening.",
        "{a} picks {n} {items}, and {b} brings {him} {m} more.",
    ),
    parts=(
        "{a} has {k} tall trees that give {m} {items} each and {j} small trees that give {l} {items} each.",
        "{a} picks {m} {items} a day for {k} days and {l} {items} a day for {j} days.",
    ),
    gain=("{He} picks {n} more {items}.", "{b} gives {him} {n} {items}.", "Then {he} buys {n} more {items}."),
    lose=(
        "{His} family eats {n} {items}.",
        "{He} finds {n} bad {items} and throws these away.",
        "{He} uses {n} {items} for juice.",
        "Birds eat {n} of the {items}.",
    ),
    gain_lots=(
        "{He} buys {k} baskets of {m} {items} each.",
        "Then {he} picks {m} {items} from each of {k} more trees.",
    ),
    lose_lots=("{He} bakes {k} pies with {m} {items} in each.", "{He} gives {m} {items} to each of {k} neighbors."),
    percent=("{p}% of the {items} are bad, and {he} throws these away.", "{He} uses {p}% of the {items} for juice."),
    half=("{He} sells half of the {items}.", "{He} gives half of the {items} to {b}."),
    ask=("How many {items} does {a} have now?", "How many {items} does {he} have in the end?"),
    ask_left=("How many {items} are left?", "How many {items} does {a} have left?"),
    ask_all=("How many {items} is that in total?", "How many {items} does {a} have altogether?"),
    share=(
        "{He} puts all the {items} into {k} baskets equally. How many {items} are in each basket?",
        "{He} shares all the {items} equally among {k} neighbors. How many {items} does each get?",
    ),
    fill=("{He} packs all the {items} into bags of {k}. How many bags does {he} fill?",),
    worth=(
        "{He} sells all the {items} at ${k} each. How many dollars does {he} earn?",
        "Each of the {items} makes {k} cups of juice. How many cups of juice do all the {items} make?",
    ),
    versus=(
        ("{b} has {rel} {a} has now.", "How many {items} does {b} have?", "How many {items} do they have together?"),
    ),
    portion=(
        ("{p}% of the {items} are green.", "How many {items} are green?", "How many {items} are not green?"),
        (
            "{He} sells {p}% of all the {items}.",
            "How many {items} does {he} sell?",
            "How many {items} does {he} keep?",
        ),
    ),
    idle=(*DISTRACTORS, "The garden is {x} feet long.", "{b} has {x} flowers.", "The ladder costs ${x}."),
)


def build(story: Story) -> None:
    """Write one problem."""
    tell(story, THEME)
