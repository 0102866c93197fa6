"""Reading: pages a day, pages left, days to finish."""

from ruplar.problems.word_problems.parts import shapes
from ruplar.problems.word_problems.story import LARGEST, Story

STEPS = (1, 6)

_RATE = (
    "{who} reads {m} pages a day for {k} days.",
    "{who} reads {m} pages every day for {k} days.",
    "For {k} days {low} reads {m} pages a day.",
)
_WEEK = ("{who} reads {m} pages a day for a week.", "For a week {low} reads {m} pages a day.")
_ONCE = (
    "On Sunday {low} reads {n} pages.",
    "{who} reads {n} pages in the evening.",
    "{who} reads {n} pages on the train.",
)
_TOTAL = ("How many pages does {a} read in total?", "How many pages is that altogether?")
_LEFT = (
    "The book has {n} pages. How many pages are left?",
    "{His} book has {n} pages. How many pages does {he} still have to read?",
)
_DAYS = (
    "The book has {n} pages. {He} reads the rest at {k} pages a day. How many more days does {he} need?",
    "{His} book has {n} pages, and {he} wants to finish it at {k} pages a day. How many more days does that take?",
)
_PER_DAY = (
    "The book has {n} pages. {He} wants to read the rest in {k} days. How many pages a day is that?",
    "{His} book has {n} pages and must be finished in {k} more days. How many pages a day must {he} read?",
)
_FRIEND = ("{b} reads twice as many pages. How many pages does {b} read?",)
_CHAPTERS = ("Each chapter has {k} pages. How many chapters does {he} read?",)


def build(story: Story) -> None:
    """Write one problem."""
    products, singles, tail = story.pick(shapes(story.goal, (0, 1, 2), 3, 2))
    order = [True] * products + [False] * singles
    story.rng.shuffle(order)
    read: list[int | tuple[int, int]] = []
    for i, is_product in enumerate(order):
        who, low = (story.words["a"],) * 2 if i == 0 else (story.words["He"], story.words["he"])
        if not is_product:
            n = story.some(80)
            story.say(story.line(_ONCE), who=who, low=low, n=n)
            read.append(n)
            continue
        m = story.between(3, 12) if story.chance(0.6) else story.pick((15, 20, 25, 30, 40))
        k = 7 if story.chance(0.2) else story.between(2, 9)
        story.say(story.line(_WEEK if k == 7 else _RATE), who=who, low=low, m=m, k=story.spell(k))
        read.append((m, k))
    total = story.add_up([n if isinstance(n, int) else story.mul(*n) for n in read])
    _finish(story, tail, total)
    story.distract()


def _finish(story: Story, tail: int, total: int) -> None:
    if tail == 0:
        story.say(story.pick(_TOTAL))
    elif tail == 2:
        pages, days = story.between(3, 12) if story.chance(0.6) else story.pick((15, 20, 25, 30)), story.between(2, 10)
        whole = total + pages * days
        if whole > LARGEST:
            whole, pages, days = total + 2 * 5, 5, 2
        pace = story.chance(0.5)
        story.say(story.pick(_DAYS if pace else _PER_DAY), n=whole, k=pages if pace else days)
        story.div(story.sub(whole, total), pages if pace else days)
    else:
        kind = story.pick(("left", "left", "friend", "chapters"))
        if kind == "left":
            n = total + story.some(min(200, LARGEST - total))
            story.say(story.pick(_LEFT), n=n)
            story.sub(n, total)
        elif kind == "friend":
            story.say(story.pick(_FRIEND))
            story.mul(total, 2)
        else:
            k = story.divisor_of(total)
            story.say(story.pick(_CHAPTERS), k=k)
            story.div(total, k)
