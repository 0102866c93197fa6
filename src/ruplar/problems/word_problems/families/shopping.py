"""Shopping: prices times counts, added up, then a coupon, a discount, change or a shared bill."""

from ruplar.problems.word_problems.parts import listing, shapes
from ruplar.problems.word_problems.story import LARGEST, Redraw, Story

STEPS = (1, 6)

_MANY = ("pens", "books", "cups", "hats", "shirts", "balls", "tickets", "plates", "toys", "candles", "bags of rice")
_ONE = (
    "a lamp",
    "a hat",
    "a chair",
    "a radio",
    "a jacket",
    "a clock",
    "a game",
    "a pillow",
    "an umbrella",
    "a blanket",
)
_EACH = ("{k} {x} for ${m} each", "{k} {x} at ${m} each", "{k} {x} that cost ${m} each")
_BUYS = ("{a} buys {list}.", "{a} goes to a shop and buys {list}.", "At the market {a} buys {list}.")
_ASKS = ("How many dollars does {he} pay?", "How many dollars is that in total?", "How many dollars does {a} spend?")
_CHANGE = (
    "{He} pays with ${n}. How many dollars does {he} get back?",
    "{He} had ${n} before. How many dollars does {he} have left?",
    "{He} brought ${n} to the shop. How many dollars are left?",
)
_SPLIT = (
    "Together {k} people share the cost equally. How many dollars does each person pay?",
    "The cost is split equally among {k} friends. How many dollars does each friend pay?",
)
_COUPON = (
    "{He} has a coupon that takes ${n} off the price. How many dollars does {he} pay?",
    "The shop takes ${n} off the bill. How many dollars does {he} pay?",
)
_DELIVERY = (
    "Delivery costs ${n} more. How many dollars does {he} pay in total?",
    "{He} also gives a tip of ${n}. How many dollars does {he} spend?",
)
_OFF = (
    "The shop takes {p}% off the bill.",
    "{He} gets {p}% off the total price.",
    "There is a discount of {p}% on everything.",
)


def build(story: Story) -> None:
    """Write one problem."""
    products, singles, tail = story.pick(shapes(story.goal, (0, 1, 2, 3)))
    if products == 0 and singles == 1 and tail == 0:
        raise Redraw
    many, one = story.rng.sample(_MANY, 3), story.rng.sample(_ONE, 2)
    lines, pairs, prices = [], [], []
    for x in many[:products]:
        k, m = story.lots(150)
        pairs.append((k, m))
        lines.append(story.pick(_EACH).format(k=story.spell(k), m=m, x=x))
    for x in one[:singles]:
        prices.append(story.some(90))
        lines.append(f"{x} for ${prices[-1]}")
    story.say(story.pick(_BUYS), list=listing(lines))
    total = story.add_up([*(story.mul(k, m) for k, m in pairs), *prices])
    _finish(story, tail, total)
    story.distract()


def _finish(story: Story, tail: int, total: int) -> None:
    """Nothing, one more sum, a discount (2 steps), or a discount and then one more sum (3)."""
    if tail >= 2:
        p = story.percent_for(total)
        story.say(story.pick(_OFF), p=p)
        total = story.sub(total, story.percent(total, p))
    if tail in (0, 2):
        story.say(story.pick(_ASKS))
        return
    kind = story.pick(("change", "change", "split", "coupon", "delivery") if tail == 1 else ("change", "split"))
    if kind == "change":
        n = total + story.some(min(100, LARGEST - total))
        n += -n % 5 if n < 990 else 0
        story.say(story.pick(_CHANGE), n=n)
        story.sub(n, total)
    elif kind == "split":
        k = story.divisor_of(total)
        story.say(story.pick(_SPLIT), k=story.spell(k))
        story.div(total, k)
    elif kind == "coupon":
        n = story.some(total // 2)
        story.say(story.pick(_COUPON), n=n)
        story.sub(total, n)
    else:
        n = story.some(30)
        story.say(story.pick(_DELIVERY), n=n)
        story.add(total, n)
