"""Potion shop: a wizard counts in dozens, scores and fortnights; held out for a model to learn live.

No training family uses these words for numbers, so a model must first learn what they stand for; the arithmetic is the
one it knows.
"""

from ruplar.problems.word_problems.story import Redraw, Story

STEPS = (2, 3)
HELD_OUT = True
CONSTANTS = {
    "dozen": (12, 6),
    "score": (20,),
    "fortnight": (14,),
    "trio": (3,),
    "trios": (3,),
    "quartet": (4,),
    "quartets": (4,),
    "pair": (2,),
    "pairs": (2,),
}

_BREWS = ("potions", "elixirs", "vials", "charms")
_WIZARD = ("{a} the wizard has", "{a} the wizard brews", "{a}'s potion shop opens with", "The wizard {a} owns")
_OPEN = {12: "{who} {k} dozen {items}.", 20: "{who} {k} score of {items}."}
_DAILY = (
    "{a} the wizard brews {k} {items} a day for a fortnight.",
    "For a fortnight {a} the wizard brews {k} {items} a day.",
)
_NUMBERS = {12: "a dozen", 6: "half a dozen", 20: "a score of", 3: "a trio of", 4: "a quartet of", 2: "a pair of"}
_MORE = ("A witch brings {n} {items}.", "An elf makes {n} {items}.", "A fairy adds {n} {items}.")
_LESS = ("A goblin steals {n} {items}.", "A dragon melts {n} {items}.", "A knight buys {n} {items}.")
_GROUPS = {3: "trios", 4: "quartets", 2: "pairs"}
_PACK = (
    "All the {items} are sold in {groups}. How many {groups} are there?",
    "All the {items} are put in {groups}. How many {groups} is that?",
)
_ASK = ("How many {items} are there now?", "How many {items} are there in the end?")
_LEFT = ("How many {items} are left?", "How many {items} are left in the end?")


def build(story: Story) -> None:
    """Write one problem."""
    story.words["items"] = story.pick(_BREWS)
    pack = story.chance(0.35)
    if story.chance(0.3):
        # a plain number first, then lots of it come
        value = story.between(10, 120)
        story.say("{who} {n} {items}.", who=_who(story), n=value)
        unit, k = story.pick((12, 20)), story.between(2, 9)
        story.say(story.line(_MORE), n=f"{k} dozen" if unit == 12 else f"{k} score of")
        value = story.add(value, story.mul(k, unit))
    else:
        unit, k = story.pick((12, 12, 20, 14)), story.between(2, 12)
        story.say(story.pick(_DAILY) if unit == 14 else _OPEN[unit], who=_who(story), k=k)
        value = story.mul(k, unit)
    grows = True
    while story.left > pack:
        n, grows = story.pick(tuple(_NUMBERS)), story.chance(0.4)
        story.say(story.line(_MORE if grows else _LESS), n=_NUMBERS[n])
        value = story.add(value, n) if grows else story.sub(value, n)
    if not pack:
        story.say(story.pick(_ASK if grows else _LEFT))
        return
    sizes = [g for g in _GROUPS if value % g == 0]
    if not sizes:
        raise Redraw
    size = story.pick(sizes)
    story.say(story.pick(_PACK), groups=_GROUPS[size])
    story.div(value, size)


def _who(story: Story) -> str:
    return story.pick(_WIZARD).format_map(story.words)
