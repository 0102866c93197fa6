"""Wages: pay for hours and days, tips, rent and tax."""

from ruplar.problems.word_problems.story import LARGEST, Story

STEPS = (1, 6)

_JOBS = ("nurse", "driver", "cook", "gardener", "painter", "teacher", "waiter")
_HOURS = ("{a} works as a {job} for ${m} an hour.", "{a} is a {job} and earns ${m} an hour.")
_DAILY = ("{He} works {k} hours a day for {d} days.", "For {d} days {he} works {k} hours a day.")
_SHIFT = ("{He} works {k} hours.", "Today {he} works {k} hours.")
_DAYS = (
    "{a} works as a {job} and earns ${m} a day for {k} days.",
    "A {job} named {a} earns ${m} a day and works {k} days.",
)
_ASK = ("How many dollars does {a} have in the end?", "How many dollars does {he} have then?")
_FIRST_ASK = ("How many dollars does {he} earn?", "How many dollars is {his} pay?")


def build(story: Story) -> None:
    """Write one problem."""
    story.words["job"] = story.pick(_JOBS)
    if story.goal >= 2 and story.chance(0.5):
        m, k, d = story.pick((5, 6, 8, 9, 10, 12, 15, 20)), story.between(2, 8), story.between(2, 6)
        story.say(story.pick(_HOURS), m=m)
        story.say(story.pick(_DAILY), k=story.spell(k), d=story.spell(d))
        value = story.mul(story.mul(m, k), d)
    elif story.chance(0.5):
        m, k = story.pick((8, 9, 10, 12, 15, 18, 20, 25)), story.between(2, 10)
        story.say(story.pick(_HOURS), m=m)
        story.say(story.pick(_SHIFT), k=story.spell(k))
        value = story.mul(m, k)
    else:
        m, k = story.pick((20, 25, 30, 40, 50, 60, 80, 90)), story.between(2, 10)
        story.say(story.pick(_DAYS), m=m, k=story.spell(k))
        value = story.mul(m, k)
    if not story.left:
        story.say(story.pick(_FIRST_ASK))
    else:
        _events(story, value)
    story.distract()


def _events(story: Story, value: int) -> None:
    """Tips and costs until the goal is reached, the last of them asking the question."""
    last = ""
    while story.left:
        kinds = [
            k
            for k in ("tip", "cost", "tax", "weekly", "half")
            if k != last and (story.left >= 2 or k not in ("tax", "weekly"))
        ]
        last = story.pick([*kinds, "share"] if story.left == 1 else kinds)
        if last == "tip":
            n = story.some(min(90, LARGEST - value))
            story.say(story.line(("{He} also gets ${n} in tips.", "{His} boss adds a bonus of ${n}.")), n=n)
            value = story.add(value, n)
        elif last == "cost":
            n = story.some(value * 3 // 4)
            story.say(
                story.line(("{He} pays ${n} for rent.", "Then {he} spends ${n} on food.", "{He} sends ${n} home.")),
                n=n,
            )
            value = story.sub(value, n)
        elif last == "tax":
            p = story.percent_for(value, 40)
            story.say(story.line(("{He} pays {p}% of it all in tax.", "Then {he} gives {p}% of the money away.")), p=p)
            value = story.sub(value, story.percent(value, p))
        elif last == "weekly":
            k, m = story.lots(value * 3 // 4)
            story.say(
                story.line(("{He} spends ${m} a day for {k} days.", "{He} buys {k} tools for ${m} each.")),
                k=story.spell(k),
                m=m,
            )
            value = story.sub(value, story.mul(k, m))
        elif last == "half":
            story.say(
                story.line(("{He} gives half of the money to {his} mother.", "Then {he} spends half of the money."))
            )
            value = story.div(value, 2)
        else:
            k = story.divisor_of(value)
            story.say(
                "{He} spreads all {his} money evenly over {k} days. How many dollars is that a day?", k=story.spell(k)
            )
            story.div(value, k)
            return
    story.say(story.pick(_ASK))
