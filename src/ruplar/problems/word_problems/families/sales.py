"""Sales: a price goes up or down by a percentage, then counts, coupons and change."""

from ruplar.problems.word_problems.story import LARGEST, Story

STEPS = (1, 6)

_THINGS = ("jacket", "bike", "lamp", "table", "phone", "camera", "tent", "watch", "coat", "guitar")
_PRICE = ("A {thing} costs ${n}.", "The price of a {thing} is ${n}.", "A shop sells a {thing} for ${n}.")
_DOWN = ("It is on sale for {p}% off.", "The shop takes {p}% off the price.", "The price then falls by {p}%.")
_UP = ("Then the price goes up by {p}%.", "The shop raises the price by {p}%.", "A tax of {p}% is added.")
_LESS = ("A coupon takes ${n} off the price.", "The shop then takes ${n} off.")
_PLUS = ("Delivery adds ${n}.", "Then the price goes up by ${n}.")
_ASK = ("How many dollars does the {thing} cost now?", "What is the price in dollars now?")
_SAVED = (
    "{a} gets {p}% off. How many dollars does {he} save?",
    "The price goes up by {p}%. How many dollars more is that?",
)


def build(story: Story) -> None:
    """Write one problem."""
    story.words["thing"] = story.pick(_THINGS)
    price = (
        story.pick((20, 24, 25, 30, 36, 40, 44, 45, 48, 50, 60, 64, 75, 80, 90, 96))
        if story.chance(0.4)
        else 10 * story.between(2, 40)
    )
    story.say(story.pick(_PRICE), n=price)
    if story.goal == 1 and story.chance(0.6):
        p = story.percent_for(price)
        story.say(story.pick(_SAVED), p=p)
        story.percent(price, p)
    else:
        _change(story, price)
    story.distract(
        lines=(
            "The {thing} weighs {x} pounds.",
            "{a} is {x} years old.",
            "The shop has {x} workers.",
            "The {thing} was made {x} years ago.",
        )
    )


def _change(story: Story, price: int) -> None:
    """Ups and downs of the price, then a closing that asks for it."""
    closing = story.pick(("ask", "count", "pay")) if story.goal > 1 else story.pick(("count", "pay"))
    last = ""
    while story.left > (closing != "ask"):
        room = story.left - (closing != "ask")
        kinds = [k for k in ("down", "up", "less", "plus") if k != last and (room >= 2 or k in ("less", "plus"))]
        last = story.pick([*kinds, *(k for k in kinds if k in ("down", "up"))])
        if last in ("down", "up"):
            p = story.percent_for(price, 90 if last == "down" else 30)
            story.say(story.line(_DOWN if last == "down" else _UP), p=p)
            part = story.percent(price, p)
            price = story.sub(price, part) if last == "down" else story.add(price, part)
        else:
            n = story.some(min(60, price // 2))
            story.say(story.line(_LESS if last == "less" else _PLUS), n=n)
            price = story.sub(price, n) if last == "less" else story.add(price, n)
    if closing == "ask":
        story.say(story.pick(_ASK))
    elif closing == "count":
        k = story.factor_for(price, 9)
        story.say(
            story.pick(
                (
                    "How many dollars do {k} of these cost at this price?",
                    "A school buys {k} of these at this price. How many dollars does it pay?",
                )
            ),
            k=story.spell(k),
        )
        story.mul(price, k)
    else:
        n = price + story.some(min(100, LARGEST - price))
        story.say(
            story.pick(
                (
                    "{a} pays with ${n}. How many dollars does {he} get back?",
                    "{a} has ${n} and buys it at this price. How many dollars are left?",
                )
            ),
            n=n,
        )
        story.sub(n, price)
