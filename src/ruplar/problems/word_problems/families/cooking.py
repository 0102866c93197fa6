"""Cooking: a recipe is scaled up, supplies run out, portions are counted."""

from ruplar.problems.word_problems.story import LARGEST, Redraw, Story

STEPS = (1, 5)

_DISHES = ("soup", "pasta", "salad", "curry", "stew")
_STUFF = ("eggs", "cups of rice", "tomatoes", "carrots", "potatoes", "onions", "spoons of oil")
_NEEDS = ("A recipe for {k} people needs {m} {stuff}.", "To cook {dish} for {k} people, {a} needs {m} {stuff}.")
_EACH = ("{a} cooks {dish} and needs {m} {stuff} for each guest.", "{a}'s recipe takes {m} {stuff} for each person.")
_LACK = ("{He} already has {n} {stuff}. How many more {stuff} does {he} need?",)
_COST = ("The {stuff} cost ${c} each. How many dollars does {he} pay for all {stuff}?",)


def build(story: Story) -> None:
    """Write one problem."""
    story.words.update(dish=story.pick(_DISHES), stuff=story.pick(_STUFF))
    # people in the recipe → times the recipe → stuff needed: two steps; per guest: one
    if story.goal >= 2 and story.chance(0.65):
        k, times, m = story.between(2, 10), story.between(2, 9), story.between(3, 12)
        story.say(story.pick(_NEEDS), k=k, m=m)
        guests = k * times
        _guests(story, guests)
        needed = story.mul(m, story.div(guests, k))
    else:
        m, guests = (
            story.between(2, 9),
            story.between(3, 12) if story.chance(0.5) else story.pick((15, 20, 25, 30, 40, 50)),
        )
        story.say(story.pick(_EACH), m=m)
        if story.left >= 2 and story.chance(0.5):
            n = story.between(2, 9)
            story.say("{He} invites {n} friends and {m} neighbors.", n=n, m=guests)
            guests = story.add(n, guests)
        else:
            _guests(story, guests)
        needed = story.mul(guests, m)
    _finish(story, needed)
    story.distract()


def _guests(story: Story, guests: int) -> None:
    story.say(story.line(("{a} cooks for {n} people.", "There are {n} guests.", "{a} expects {n} guests.")), n=guests)


def _finish(story: Story, needed: int) -> None:
    if not story.left:
        story.say(story.pick(("How many {stuff} does {a} need?", "How many {stuff} are needed?")))
        return
    if story.left >= 3 and " of " not in str(story.words["stuff"]):
        n = story.between(2, max(2, needed // 5))
        story.say("{He} needs {n} more {stuff} for another dish.", n=n)
        needed = story.add(needed, n)
    if story.left == 1 and story.chance(0.4):
        if story.chance(0.5):
            n = story.some(60)
            story.say("For another dish {he} needs {n} more {stuff}. How many {stuff} is that in total?", n=n)
            story.add(needed, n)
        else:
            k = story.divisor_of(needed)
            story.say("The {stuff} come in packs of {k}. How many packs does {he} need?", k=k)
            story.div(needed, k)
        return
    n = story.some(needed * 3 // 4)
    if story.left == 1:
        story.say(story.pick(_LACK), n=n)
        story.sub(needed, n)
    elif story.left == 2:
        rest = needed - n
        if story.chance(0.5) or " of " in str(story.words["stuff"]):
            k = story.divisor_of(rest)
            story.say(
                "{He} already has {n} {stuff}. The rest come in packs of {k}. How many packs must {he} buy?", n=n, k=k
            )
            story.div(story.sub(needed, n), k)
        else:
            c = story.between(2, min(9, LARGEST // rest))
            story.say(
                "{He} already has {n} {stuff} and buys the rest for ${c} each. How many dollars does {he} pay?",
                n=n,
                c=c,
            )
            story.mul(story.sub(needed, n), c)
    else:
        raise Redraw
